"""What six other systems print of a run, by their own rules.

The rules are those of `metrics.md` 2.2 to 2.7, checked against the sources they name. What a rule needs and the journal
does not hold is Unknown with a reason, in which bounds or a neighbour of ours may stand. Two things are in no journal:
what the target would have accepted behind a stop id, and behind the output limit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from xpress_bench.analyse.digits import shown
from xpress_bench.analyse.intervals import Unknown
from xpress_bench.analyse.metrics import NO_STEP, chunks, speedups, tpot_s
from xpress_bench.analyse.summary import DIRECT
from xpress_bench.publish.columns import Columns, Requests, Value, mean, ratio, text, value
from xpress_bench.records import Cell

Rounds = Counter[tuple[int, int, int]]  # offered, accepted, committed of a verify step -> how many there were
IS_BASE = "direct is the baseline"
NOT_TIMED = "not every request was timed"


def _rounds(cells: Iterable[Cell], before_stop: bool = False) -> Rounds:
    """The verify steps; `before_stop` with what was accepted before stop rules, where the journal tells."""
    found: Rounds = Counter()
    for rounds, requests in Counter(cell.steps.tally.rounds for cell in cells).items():
        for (offered, accepted, committed, matched), steps in rounds:
            cut = accepted if matched is None or not before_stop else matched
            found[offered, cut, committed] += steps * requests
    return found


def _lengths(cells: Iterable[Cell]) -> Counter[int]:
    """How many verify steps committed so many tokens."""
    found: Counter[int] = Counter()
    for (_, _, committed), steps in _rounds(cells).items():
        found[committed] += steps
    return found


def _mean_length(cells: Iterable[Cell]) -> float:
    lengths = _lengths(cells)
    return ratio(_total(lengths), lengths.total())


def _total(sizes: Counter[int]) -> int:
    return sum(size * count for size, count in sizes.items())


def _sums(rounds: Rounds) -> tuple[int, int, int]:
    """Offered, accepted and committed over all steps."""
    offered, accepted, committed = (sum(kind[at] * steps for kind, steps in rounds.items()) for at in range(3))
    return offered, accepted, committed


def _stopped(accepted: int, committed: int) -> bool:
    return committed <= accepted  # a stop id among the drafts: the target's own token was not committed


def _unseen(one: Requests) -> int:
    """Draft tokens that may have been accepted behind the output limit, in older journals also behind a stop id."""
    whole = all(matched is not None for cell in one.stepped for (*_, matched), _ in cell.steps.tally.rounds)
    return sum(
        (one.drafts - accepted) * steps
        for (offered, accepted, committed), steps in _rounds(one.stepped, before_stop=True).items()
        if accepted < one.drafts and (accepted == offered or (not whole and _stopped(accepted, committed)))
    )


def _cut_offers(one: Requests, rounds: Rounds) -> str | None:
    """Why a loop that offers whole blocks beyond the output limit would have offered more than this one."""
    short = sum(steps for (offered, *_), steps in rounds.items() if offered < one.drafts)
    reason = (
        f"{short} of {rounds.total()} steps offer fewer than {one.drafts} drafts, which the output limit may have cut"
    )
    return f"{reason}; it offers whole blocks there" if short else None


def _overshoot(cells: Sequence[Cell]) -> str | None:
    """Why a loop that goes past the output limit and counts what it finds there has other lengths."""
    ended = sum(cell.stop_reason in ("length", "context") for cell in cells)
    reason = f"{ended} of {len(cells)} requests end at the output limit, which its loop overshoots and counts"
    return f"{reason}; without that the mean length is {_mean_length(cells):.2f}" if ended else None


def vllm(one: Requests) -> Columns:
    """Of the printed block of `vllm bench serve`, times and speculative decoding."""
    ttft_ms = [cell.ttft_s * 1e3 for cell in one.cells if cell.ttft_s is not None]
    further = [(tpot_s(cell), len(cell.ids)) for cell in one.cells if cell.ids[1:]]
    tpot_ms = [per_id * ids / (ids - 1) * 1e3 for per_id, ids in further if per_id is not None]
    return {
        "Output token throughput (tok/s)": Unknown("its divisor is the benchmark's wall time; here all arms share it"),
        **_spread("TTFT (ms)", ttft_ms),
        **_spread("TPOT (ms)", tpot_ms),
        "Mean ITL (ms)": Unknown("the journal holds the time of each stage, not the arrival of each chunk"),
        **_vllm_acceptance(one),
    }


def _spread(what: str, values: Sequence[float]) -> Columns:
    numbers = {"Mean": mean(values), "Median": np.median(values or [0.0]), "P99": np.percentile(values or [0.0], 99)}
    return {f"{n} {what}": value(float(number), ".2f", None if values else NOT_TIMED) for n, number in numbers.items()}


def _vllm_acceptance(one: Requests) -> Columns:
    rounds = _rounds(one.stepped, before_stop=True)
    taken, (offered, accepted, _) = rounds.total(), _sums(rounds)
    length, highest = 1 + ratio(accepted, taken), 1 + ratio(accepted + _unseen(one), taken)
    beyond = "it counts on behind a stop id and the output limit, where the journal does not say what was accepted"
    bounds = f"{beyond}; the acceptance length is from {length:.2f} to {highest:.2f}"
    lost = one.no_step or (bounds if highest > length else None)
    short = one.no_offer or _cut_offers(one, rounds)
    columns: Columns = {
        "Acceptance rate (%)": value(100 * ratio(accepted, offered), ".2f", lost, short),
        "Acceptance length": value(length, ".2f", lost),
        "Drafts": value(taken, "d", None if all(p for p, *_ in rounds) and taken else short),
        "Draft tokens": value(offered, "d", short),
        "Accepted tokens": value(accepted, "d", lost),
    }
    for at in range(one.drafts):
        columns[f"Position {at}"] = value(
            100 * ratio(sum(n for (_, a, _), n in rounds.items() if a > at), taken), ".2f", lost
        )
    return columns


def sglang(one: Requests) -> Columns:
    """Of `meta_info` of each request, their mean; and what SpecForge makes of them."""
    cells, taken = one.stepped, _rounds(one.stepped).total()
    cut = "how it counts a draft that a stop id or the output limit cuts is not known" if _unseen(one) else None
    lengths = [ratio(len(cell.ids), cell.steps.tally.steps) for cell in cells]
    rates = [ratio(_sums(_rounds([cell], before_stop=True))[1], cell.steps.tally.steps * one.drafts) for cell in cells]
    return {
        "completion_tokens": value(sum(len(cell.ids) for cell in one.cells), "d", one.unanswered),
        "spec_verify_ct": value(taken, "d", one.no_step),
        "spec_accept_length": value(mean(lengths), ".2f", one.no_step),
        "spec_accept_rate": value(mean(rates), ".4f", one.no_offer, cut),
        "accept_length (SpecForge)": value(ratio(sum(len(cell.ids) for cell in cells), taken), ".2f", one.no_step),
        "avg_spec_accept_length": Unknown("it is a server's average over all that it served; there is no server here"),
    }


def spec_bench(one: Requests) -> Columns:
    """What `evaluation/speed.py` prints of choice 0, i.e. of the first seed."""
    cells = [cell for cell in one.cells if cell.seed == one.first_seed]
    direct = one.arm.name == DIRECT
    over = None if direct else _overshoot(cells)
    rates = _question_rates(cells)
    base = f"it tokenises the baseline's cleaned text again to count its tokens; no tokenizer here{_neighbour(one)}"
    tokens = float(bool(cells)) if direct else _mean_length(cells)
    return {
        "#Mean accepted tokens": value(tokens, ".2f", None if tokens else NO_STEP, over),
        "Tokens per second": value(mean(rates), ".2f", over, None if rates else NOT_TIMED),
        "Tokens per second for the baseline": Unknown(base),
        "Speedup ratio": Unknown(IS_BASE if direct else base),
    }


def _question_rates(cells: Iterable[Cell]) -> list[float]:
    """Ids per second of each question in each run of it, all its turns together."""
    questions: defaultdict[tuple[int, int, str], list[tuple[int, float]]] = defaultdict(list)
    for cell in cells:
        if cell.latency_s:
            questions[cell.launch, cell.repeat, cell.prompt].append((len(cell.ids), cell.latency_s))
    return [sum(ids for ids, _ in turns) / sum(time_s for _, time_s in turns) for turns in questions.values()]


def _neighbour(one: Requests) -> str:
    if one.arm.name == DIRECT or not one.selection.of(DIRECT):
        return ""
    ours = speedups(one.selection, one.arm.name, DIRECT)["speedup_mean_tps"]
    return f"; by the ids of both arms, speedup_mean_tps is {shown(ours)}"


def dflash(one: Requests) -> Columns:
    """The summary of the PyPI harness; its git version counts behind a stop id and restarts the decode clock."""
    direct = one.selection.of(DIRECT)
    base_s, arm_s = _mean_tpot_s(direct), _mean_tpot_s(one.cells)
    no_base = None if base_s else NOT_TIMED if direct else "there is no request of direct generation"
    no_time = None if arm_s else one.unanswered or NOT_TIMED
    base = None if one.arm.name != DIRECT else IS_BASE
    other = None if _keys(direct) == _keys(one.cells) else "direct and this arm answered different requests"
    stepless = len(one.cells) - len(one.stepped)
    nan = f"{stepless} of {len(one.cells)} requests took no verify step, and its mean is NaN then" if stepless else None
    lengths = _lengths(one.stepped)
    shares = [100 * ratio(lengths[size], lengths.total()) for size in range(one.drafts + 2)]
    means = (ratio(tally.committed, tally.steps) for tally in (cell.steps.tally for cell in one.stepped))
    return {
        "Baseline throughput": value(ratio(1, base_s), ".2f", no_base),
        "DFlash throughput": value(ratio(1, arm_s), ".2f", base, no_time),
        "Decoding speedup": value(ratio(base_s, arm_s), ".2f", base, no_base, no_time, other),
        "Average Acceptance length": value(mean(means), ".2f", base, one.no_step, nan),
        "Acceptance length histogram": text(" ".join(f"{share:.1f}%" for share in shares), base, one.no_step),
    }


def _mean_tpot_s(cells: Iterable[Cell]) -> float:
    """Mean seconds per output id; 0 unless every request was timed."""
    values = [tpot_s(cell) for cell in cells]
    return 0.0 if None in values else mean(value or 0.0 for value in values)


def _keys(cells: Iterable[Cell]) -> set[tuple[int, str, int, int, int]]:
    return {(cell.launch, cell.prompt, cell.seed, cell.repeat, cell.turn) for cell in cells}


def deepspec(one: Requests) -> Columns:
    """The row of a data set; it runs first turns only."""
    cells = [cell for cell in one.stepped if cell.turn == 1]
    whole: Rounds = Counter()
    rounds: Rounds = Counter()
    for (offered, accepted, committed), steps in _rounds(cells).items():
        if _stopped(accepted, committed):  # offers end at a stop id
            rounds[committed, min(accepted, committed), committed] += steps
        else:
            whole[offered, accepted, committed] += steps
    rounds.update(whole)
    taken, (proposed, _, committed) = rounds.total(), _sums(rounds)
    over = one.no_offer or (None if rounds else NO_STEP) or _overshoot([cell for cell in one.cells if cell.turn == 1])
    cut = _cut_offers(one, whole)
    columns: Columns = {
        "#propose": text(f"{ratio(proposed, taken):.2f}+1", over, cut),
        "accept_len": value(ratio(committed, taken), ".2f", over),
        "verify_rate": value(ratio(committed, proposed + taken), ".4f", over, cut),
    }
    for at in range(one.drafts):
        offers = sum(n for (p, _, _), n in rounds.items() if p > at)
        none = None if offers else "no block offers so many before a stop id"
        rate = ratio(sum(n for (_, a, _), n in rounds.items() if a > at), offers)
        columns[f"accept_rate@{at}"] = value(rate, ".4f", over, cut, none)
    return columns


def specdec_bench(one: Requests) -> Columns:
    """`acceptance_rate.json`, and of `timing.json` the mean that the time to the first token is part of."""
    turns = [chunks(cell) for cell in one.cells]
    empty = (
        f"{sum(not turn for turn in turns)} of {len(turns)} requests output nothing but a stop id, and it divides by 0"
    )
    mute = one.unanswered if all(turns) else empty
    nothing = None if any(turns) else mute
    return {
        "Average_AL": value(mean(ratio(_total(turn), turn.total()) for turn in turns), ".4f", mute),
        **_chunk_shares(_together(turns), nothing),
        "Request Generation Step Time": _chunk_time(one.cells),
    }


def _together(turns: Iterable[Counter[int]]) -> Counter[int]:
    found: Counter[int] = Counter()
    for turn in turns:
        found.update(turn)
    return found


def _chunk_shares(sizes: Counter[int], nothing: str | None) -> Columns:
    """By chunk length k, the prompt's chunk of one included: how many, given the length before, and in all."""
    joint = {size: ratio(sum(n for k, n in sizes.items() if k >= size), sizes.total()) for size in sorted(sizes)}
    before = dict(zip(joint, [1.0, *joint.values()], strict=False))
    texts = {
        "Acceptance_Length_Histogram": [f"{size}: {sizes[size]}" for size in joint],
        "Conditional_Acceptance_Rate": [f"{size}: {joint[size] / before[size]:.3f}" for size in joint],
        "Joint_Acceptance_Rate": [f"{size}: {share:.3f}" for size, share in joint.items()],
    }
    return {name: text(", ".join(parts), nothing) for name, parts in texts.items()}


def _chunk_time(cells: Sequence[Cell]) -> Value:
    """Mean seconds between chunks, the time to the first one counted as one of them."""
    counts = [chunks(cell).total() for cell in cells]
    streamed = [(cell, count) for cell, count in zip(cells, counts, strict=True) if count > 1]
    alone = sum(count <= (cell.steps.tally.steps or len(cell.ids) - 1) for cell, count in streamed)
    lost = f"{alone} of {len(streamed)} requests end in a chunk of nothing but a stop id, whose time it leaves out"
    latency_s = sum(cell.latency_s or 0.0 for cell, _ in streamed)
    untimed = None if streamed and all(cell.latency_s for cell, _ in streamed) else NOT_TIMED
    return value(ratio(latency_s, sum(count for _, count in streamed)), ".4f", lost if alone else None, untimed)
