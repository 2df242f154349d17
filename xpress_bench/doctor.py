"""`xpress-bench doctor`: what would make this machine noisy, why it matters and what to do."""

from __future__ import annotations

from xpress_bench.flags import resolve_device
from xpress_bench.reading import Parser


def doctor(words: list[str]) -> int:
    """Print every finding; 1 if one is a warning."""
    parser = Parser(
        prog="xpress-bench doctor", description="What would make this machine noisy. Reads, and changes nothing."
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1 (default: auto)")
    device = resolve_device(parser.parse_args(words).device)
    import torch

    from xpress_bench.measure import health
    from xpress_bench.publish.lines import count, printable

    threads = torch.get_num_threads()
    tried = health.trial(device)
    found = health.findings(device, threads, tried)
    print(f"xpress-bench doctor: {device}, {count(threads, 'thread')}")
    for one in found:
        for label, text in ((one.level, one.what), ("", f"why: {one.why}"), ("", f"do: {one.todo}")):
            print(f"{label:8} {printable(text)}")
    times = f"{len(tried.seconds)} times in {sum(tried.seconds):.1f} s"
    spread = f"95th percentile {tried.spread:.0%} above the median, {tried.drift:+.1%} from the first third to the last"
    print(f"the same work {times}: {spread}")
    print("How small a difference a run can show is planned by `xpress-bench check`, and told by its report.")
    return int(any(one.level == "warning" for one in found))
