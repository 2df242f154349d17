"""What is not the same in the headers of two runs, and whether they can be compared in spite of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from xpress_bench.analyse.summary import DIRECT
from xpress_bench.errors import UsageError
from xpress_bench.records import Arm, Condition, Header
from xpress_bench.settings import flat

Values = dict[str, Any]
# Settings that the arms of the header show as they turned out, and the folder, which changes nothing.
SHOWN_BY_ARMS = (
    *("block_size", "drafter.name", "drafter.denoising_steps", "refiner.name", "refiner.passes"),
    *("candidates.count", "candidates.nodes", "out"),
)
MUST_AGREE = ("max_new_tokens", "batch_size", "target.thinking", "target.chat_template")  # settings
WEAKENING = ("torch", "transformers", "cuda", "cudnn", "driver")  # versions


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not the same on both sides, as it stands in the journals; None: there is no such thing."""

    what: str
    base: Any
    arm: Any


def refuse(a: Header, b: Header, may_differ: Sequence[str] = ()) -> None:
    """UsageError that names every difference which leaves nothing to compare; silent without one."""
    found = [one for one in _of_values(_identity(a), _identity(b)) if one.what not in may_differ]
    faults = [f"{one.what} {_brief(one.base)} and {_brief(one.arm)}" for one in found]
    if not common_conditions(a, b):
        sides = [listed(map(str, run.conditions)) for run in (a, b)]
        faults.append(f"conditions {sides[0]!r} and {sides[1]!r}")
    if faults:
        raise UsageError(
            f"runs {a.run!r} and {b.run!r} cannot be compared, they differ in {'; '.join(faults)}; "
            "measure both with the same suite, target and way of generating"
        )


def _identity(header: Header) -> Values:
    """What has to agree for two runs to have been asked the same."""
    suite, target, settings = header.suite, header.target, flat(header.settings)
    return {
        **{f"suite {name}": suite.get(name) for name in ("name", "version", "sha256")},
        "target weights": target.get("weights_sha256") or target.get("name"),  # a toy target has no weights
        "tokenizer": target.get("tokenizer_sha256"),
        "dtype": target.get("dtype"),
        **{name: settings.get(name) for name in MUST_AGREE},
    }


def common_conditions(a: Header, b: Header) -> list[Condition]:
    """The conditions that both ran, in the order of the first."""
    return [condition for condition in a.conditions if condition in b.conditions]


def subject(a: Header, b: Header) -> tuple[Difference, ...]:
    """What the comparison is about: arms and their parts, settings, attention kernel, package and commit."""
    shared = {arm.name for arm in a.arms} & {arm.name for arm in b.arms}
    return tuple(_of_values(_described(a, shared), _described(b, shared)))


def _described(header: Header, arms: set[str]) -> Values:
    hidden = {*SHOWN_BY_ARMS, "device", "threads"}  # the last two are the machine's
    shown = [arm for arm in header.arms if arm.name in arms]
    return {
        "arms": listed(names_of(header)),
        "conditions": listed(map(str, header.conditions)),
        **{f"{arm.name}: {key}": value for arm in shown for key, value in _arm_values(arm).items()},
        **{key: value for key, value in _told(header.settings).items() if key not in hidden},
        "attention": header.target.get("attention"),
        **{name: value for name, value in header.versions.items() if name not in WEAKENING},
        **{f"git {key}": header.git.get(key) for key in ("commit", "dirty")},
    }


def between_arms(ours: Arm, theirs: Arm) -> tuple[Difference, ...]:
    """What is not the same in two arms of one run."""
    return tuple(_of_values(_arm_values(ours), _arm_values(theirs)))


def same_parts(a: Header, b: Header, name: str) -> bool:
    """Whether an arm of that name is the same in both, as far as the headers tell."""
    ours, theirs = ([arm for arm in header.arms if arm.name == name] for header in (a, b))
    return ours == theirs


def machines(a: Header, b: Header) -> tuple[Difference, ...]:
    """What makes it another machine, or another device or number of threads, as far as both machines are known."""
    sides = [one.machine.get("hard") or {} for one in (a, b)]
    if not all(sides):
        sides = [{"torch_threads": one.settings.get("threads")} for one in (a, b)]
    kinds = [{"device": str(one.target.get("device")).partition(":")[0]} for one in (a, b)]
    return tuple(_of_values(kinds[0] | sides[0], kinds[1] | sides[1]))


def surroundings(a: Header, b: Header) -> tuple[Difference, ...]:
    """What makes a comparison less sure and not void: host, kernel, which of several boards, versions of the stack."""
    return tuple(_of_values(_surroundings(a), _surroundings(b)))


def _surroundings(header: Header) -> Values:
    versions = {name: header.versions.get(name) for name in WEAKENING}
    return (header.machine.get("soft") or {}) | {"board": header.target.get("device")} | versions


def names_of(header: Header) -> list[str]:
    """Arms in the order of reports: direct first, the rest as configured."""
    return sorted((arm.name for arm in header.arms), key=lambda name: name != DIRECT)


def listed(names: Iterable[str]) -> str:
    """Names in a row; control characters are escaped, for errors print them."""
    return ", ".join(repr(name)[1:-1] for name in names)


def _arm_values(arm: Arm) -> Values:
    return _told({field.name: getattr(arm, field.name) for field in fields(arm) if field.name != "name"})


def _told(values: Mapping[str, Any]) -> Values:
    """Nested values by dotted key; an empty table says nothing."""
    return {key: value for key, value in flat(values).items() if value != {}}


def _of_values(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[Difference]:
    for name in dict.fromkeys((*ours, *theirs)):
        if ours.get(name) != theirs.get(name):
            yield Difference(name, ours.get(name), theirs.get(name))


def _brief(value: Any) -> str:
    """A value for an error of one line: hashes cut, control characters escaped."""
    text = repr(value)
    return f"{text[:13]}...'" if isinstance(value, str) and len(value) >= 40 else text
