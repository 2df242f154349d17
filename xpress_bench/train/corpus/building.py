"""Build the corpus: one JSONL file a source, a document a line {"id", "source", "licence", "text"}."""

from __future__ import annotations

import json
import tarfile
import tempfile
import zlib
from collections.abc import Iterable
from pathlib import Path

from xpress_bench.train.corpus.documents import held_out
from xpress_bench.train.corpus.sources import SOURCES, Source, UnavailableError, fetch, unpack

MIN_DOCUMENT = 300  # characters; shorter pages are stubs and redirects


def build(folder: Path, exclude: Iterable[str] = frozenset()) -> list[Path]:
    """Build every source that can be had here; return the files written and print a table."""
    for name in ("archives", "text"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    excluded = frozenset(exclude)
    written: list[Path] = []
    rows = [f"{'source':<12}{'licence':<16}{'documents':>10}{'MB':>8}"]
    for source in SOURCES:
        try:
            path, count = _build_source(source, folder, excluded)
        except (UnavailableError, OSError, ValueError, tarfile.TarError, zlib.error) as problem:
            print(f"skipped {source.name}: {problem}", flush=True)
            continue
        written.append(path)
        rows.append(f"{source.name:<12}{source.licence:<16}{count:>10}{path.stat().st_size / 1e6:>8.2f}")
    print("\n".join(rows))
    return written


def _build_source(source: Source, folder: Path, exclude: frozenset[str]) -> tuple[Path, int]:
    """Fetch, unpack and extract one source; return its file and number of documents."""
    archive = fetch(source, folder / "archives")
    target = folder / "text" / f"{source.name}.jsonl"
    with tempfile.TemporaryDirectory() as unpacked:
        unpack(archive, Path(unpacked))
        return target, _write(source, Path(unpacked), target, exclude)


def _write(source: Source, unpacked: Path, target: Path, exclude: frozenset[str]) -> int:
    """Write one source's documents; the file appears only when it is complete."""
    part = target.with_suffix(".part")
    count = 0
    with part.open("w", encoding="utf-8") as out:
        for name, text in source.extract(unpacked):
            document = f"{source.name}/{name}"
            if len(text) < MIN_DOCUMENT or held_out(document, exclude):
                continue
            record = {"id": document, "source": source.name, "licence": source.licence, "text": text}
            out.write(json.dumps(record, ensure_ascii=False) + "\n")
            count += 1
    if count == 0:
        part.unlink()
        raise UnavailableError(f"no text found in {source.package}")
    part.replace(target)
    return count
