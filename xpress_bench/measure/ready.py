"""Everything a run needs before it starts: models loaded and checked, prompts rendered and drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xpress_bench.errors import RunError, UsageError, XpressError
from xpress_bench.measure.clock import clock_for
from xpress_bench.measure.faults import told
from xpress_bench.measure.prompts import Prompt, prepare
from xpress_bench.measure.requests import Requests
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
    try:
        parts = assemble(settings, only)
    except XpressError:
        raise
    except Exception as error:  # whatever a plug-in or the device raises
        raise RunError(f"the parts of the run do not load: {told(error)}") from error
    fitting, skipped = prepare(suite, parts.tokenizer, settings.target, parts.target.context, settings.max_new_tokens)
    if not fitting:
        raise UsageError(f"suite {suite.name}: no prompt fits the target; first reason: {skipped[0].reason}")
    prompts = spread(fitting, settings.limit)
    requests = Requests(
        parts.target, parts.tokenizer, parts.arms, prompts, clock_for(settings.device), settings.deadline_s
    )
    return Ready(suite, parts, prompts, skipped, requests)
