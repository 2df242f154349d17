"""What the leaderboard asks of a run, as far as its settings tell: said before hours are measured in vain."""

from __future__ import annotations

from xpress_bench.settings import Settings

MIN_PROMPTS, MIN_LAUNCHES = 32, 5  # below, a row is preliminary: shown, not ranked
OWN = ("limit", "turns", "max_new_tokens")  # settings that make another workload of a suite


def hindrances(settings: Settings) -> list[str]:
    """Why a run of these settings would not be admitted, or have no rank; each with what to do, in brackets."""
    again = settings.repeats > 1 or (
        0 in settings.temperatures and len(settings.seeds) > 1
    )  # as `reduce.unit_of` has it
    own = [name for name in OWN if getattr(settings, name) is not None]
    found = {
        "profile quick is for looking (profile=paper)": settings.profile == "quick",
        f"a suite is run whole (no {', '.join(own)})": bool(own),
        "requests run alone (batch_size=1)": settings.batch_size > 1,
        "weights are trained (weights=trained)": settings.weights != "trained",
        "peak memory is measured (memory=true)": not settings.memory,
        "no prompt is asked twice inside a launch (repeats=2)": not again,
        f"below {MIN_LAUNCHES} launches a row has no rank (launches={MIN_LAUNCHES})": settings.launches < MIN_LAUNCHES,
    }
    return [what for what, holds in found.items() if holds]
