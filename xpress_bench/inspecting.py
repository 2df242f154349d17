"""The commands about checkpoints: what one is and whether it fits a target, and the same in another format."""

from __future__ import annotations

from pathlib import Path

from xpress_bench.reading import Parser


def inspect(words: list[str]) -> int:
    """Print what a checkpoint is; 1 if it does not fit the target that was asked about. Reads no weights."""
    parser = Parser(
        prog="xpress-bench inspect", description="What a checkpoint is, which target it needs, and whether it fits one."
    )
    parser.add_argument("checkpoint", metavar="PATH", help="a folder, or a hub id (which is downloaded)")
    parser.add_argument("--target", metavar="T", help="embedded, a folder or a hub id; only its config is read")
    options = parser.parse_args(words)
    from xpress_bench.checkpoints import inspection
    from xpress_bench.checkpoints.files import locate
    from xpress_bench.publish.lines import printable

    folder = locate(options.checkpoint, None)
    lines, problems = list(inspection.describe(folder)), []
    if options.target:
        problems = _misfits(folder, options.target)
        lines += [("no fit", problem) for problem in problems] or [("fits", f"target {options.target}")]
    print(printable(str(folder)))
    for label, text in lines:
        print(f"  {label:<12}{printable(text)}")
    return int(bool(problems))


def _misfits(folder: Path, target: str) -> list[str]:
    from xpress_bench.checkpoints import formats, inspection
    from xpress_bench.errors import MisfitError

    if formats.recognise(folder).format != "transformers":
        return inspection.misfits(folder, inspection.read_target(target))
    from types import SimpleNamespace
    from typing import Any, cast

    from xpress_bench.drafters.whole_model import checkpoint
    from xpress_bench.parts import check_tokenizer, load_tokenizer
    from xpress_bench.settings import TargetSettings

    own = cast("Any", SimpleNamespace(tokenizer=checkpoint(str(folder), None)[1]))
    try:
        check_tokenizer(own, load_tokenizer(TargetSettings(target)), target)
    except MisfitError as error:
        return [str(error)]
    return []


def convert(words: list[str]) -> int:
    """Write a checkpoint in another public format, with the same network and the same bytes of every tensor."""
    parser = Parser(
        prog="xpress-bench convert", description="The same drafter and heads in another public format, loss-free."
    )
    parser.add_argument("checkpoint", metavar="PATH", help="a folder or hub id")
    parser.add_argument("out", type=Path, metavar="OUT", help="a new folder")
    parser.add_argument("--to", required=True, choices=("z-lab", "speculators", "deepspec"))
    parser.add_argument("--target", required=True, metavar="T", help="what it was made for: its tables are compared")
    options = parser.parse_args(words)
    from xpress_bench.checkpoints.convert import convert as write
    from xpress_bench.checkpoints.files import locate
    from xpress_bench.checkpoints.inspection import read_target

    write(locate(options.checkpoint, None), options.out, options.to, read_target(options.target))
    print(f"{options.out}: look at it with `xpress-bench inspect {options.out}`")
    return 0
