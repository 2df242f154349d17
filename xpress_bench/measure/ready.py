"""Everything a run needs before it starts: models loaded and checked, prompts rendered and drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xpress_bench.errors import RunError, UsageError, XpressError
from xpress_bench.measure.clock import clock_for
from xpress_bench.measure.faults import told
from xpress_bench.measure.prompts import Prompt, prepare, whole_batches
from xpress_bench.measure.requests import Requests
from xpress_bench.measure.served import ServedRequests, reach_servers
from xpress_bench.parts import Parts, assemble
from xpress_bench.records import Skipped
from xpress_bench.settings import Settings
from xpress_bench.suites import Suite, load_suite, spread


@dataclass(frozen=True, slots=True)
class Ready:
    """`prompts` are those to run; `skipped` are all of the suite that do not fit the target."""

    suite: Suite
    parts: Parts
    prompts: Sequence[Prompt]
    skipped: Sequence[Skipped]
    requests: Requests


def make_ready(settings: Settings, only: str | None = None) -> Ready:
    """Load what `settings` name, for one arm only if `only` says so. Raises UsageError if no prompt fits."""
    suite = load_suite(settings.suite)
    if settings.batch_size > 1:  # the prompt of a later turn would be known only when its whole batch is done
        suite = replace(suite, turns=1)
    try:
        parts = reach_servers(settings) if settings.target.served else assemble(settings, only)
    except XpressError:
        raise
    except Exception as error:  # whatever a plug-in or the device raises
        raise RunError(f"the parts of the run do not load: {told(error)}") from error
    fitting, skipped = prepare(suite, parts.tokenizer, settings.target, parts.target.context, settings.max_new_tokens)
    if not fitting:
        raise UsageError(f"suite {suite.name}: no prompt fits the target; first reason: {skipped[0].reason}")
    prompts, left_over = whole_batches(spread(fitting, settings.limit), settings.batch_size)
    clock, size = clock_for(settings.device), settings.batch_size
    kind = ServedRequests if settings.target.served else Requests
    requests = kind(parts.target, parts.tokenizer, parts.arms, prompts, clock, settings.deadline_s, size)
    return Ready(suite, parts, prompts, [*skipped, *left_over], requests)
