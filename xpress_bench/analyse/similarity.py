"""How alike two sets of outputs read where their ids differ: chrF of one text against the other.

A number like 0.93 has no natural bound, so it is held against the likeness of the base to itself: to its own repeats at
temperature 0, between its own seeds above. Not worse by the margin in the paired difference counts as alike.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from statistics import fmean

from xpress_bench.analyse.intervals import Measure, Unknown, mean_interval
from xpress_bench.analyse.parity import Outcome, score_difference
from xpress_bench.analyse.reduce import Unit, per_prompt
from xpress_bench.analyse.score import score
from xpress_bench.records import Cell, Condition

MARGIN = 0.02  # of chrF on 0 to 1; declared here, before any run


@dataclass(frozen=True, slots=True)
class Likeness:
    """chrF between 0 and 1, one value per prompt: across the two sides, inside the base, and the paired difference."""

    chrf: Measure
    floor: Measure
    difference: Measure
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class _Text:
    """A text as the reference of another one."""

    references: Sequence[str]
    id: str = ""
    answer_type: str = "text"
    category: str = ""


@dataclass(slots=True)
class _Scale:
    """chrF with a memory: outputs repeat, and chrF is slow. Equal texts need no chrF. `missing`: why there is none."""

    seen: dict[tuple[str, str], float] = field(default_factory=dict)
    missing: Unknown | None = None

    def __call__(self, text: str, reference: str) -> float:
        if text == reference:
            return 1.0
        if (text, reference) not in self.seen:
            value = score(text, _Text((reference,)))
            if isinstance(value, Unknown):
                self.missing, value = value, 0.0
            self.seen[text, reference] = value
        return self.seen[text, reference]


def likeness(base: Mapping[Unit, list[Cell]], arm: Mapping[Unit, list[Cell]], condition: Condition) -> Likeness:
    """chrF of the arm's texts against the base's of the same key; Unknown without sacrebleu where a text differs."""
    scale = _Scale()
    across = per_prompt({unit: _mean(scale, Counter(product(_texts(arm[unit]), _texts(base[unit])))) for unit in base})
    floor = per_prompt({key: _mean(scale, pairs) for key, pairs in _within(base, condition.temperature > 0).items()})
    if scale.missing:
        return Likeness(scale.missing, scale.missing, scale.missing, "not shown")
    if not floor:
        alone = Unknown("the base ran once per prompt, so how much it varies by itself is not known")
        return Likeness(mean_interval(list(across.values())), alone, alone, "not shown")
    difference = score_difference({"across": across, "floor": floor}, "across", "floor")
    return Likeness(
        mean_interval(list(across.values())), mean_interval(list(floor.values())), difference, _outcome(difference)
    )


def _texts(cells: Iterable[Cell]) -> list[str]:
    return list(dict.fromkeys(cell.text for cell in cells))


def _mean(scale: _Scale, pairs: Mapping[tuple[str, str], int]) -> float:
    return fmean((scale(text, reference) for text, reference in pairs), pairs.values())


def _within(base: Mapping[Unit, list[Cell]], by_seed: bool) -> dict[Unit, Counter[tuple[str, str]]]:
    """Pairs of the base's texts of one request: of its seeds, or of its repeats where a seed changes nothing."""
    groups: defaultdict[Unit, dict[object, str]] = defaultdict(dict)
    for (_, prompt, _, turn), cells in base.items():
        for cell in cells:
            groups[0, prompt, 0, turn][cell.seed if by_seed else (cell.launch, cell.seed, cell.repeat)] = cell.text
    return {key: _combinations(texts.values()) for key, texts in groups.items() if len(texts) > 1}


def _combinations(texts: Iterable[str]) -> Counter[tuple[str, str]]:
    """How often each pair occurs among all pairs of texts: a million repeats say few things, in far too many pairs."""
    before: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    for text in texts:
        for earlier, times in before.items():
            pairs[earlier, text] += times
        before[text] += 1
    return pairs


def _outcome(difference: Measure) -> Outcome:
    if isinstance(difference, Unknown):
        return "not shown"
    if difference.low > -MARGIN:
        return "shown"
    return "refuted" if difference.high < -MARGIN else "not shown"
