"""What a gate says: a page for people, JUnit for CI servers, annotations for GitHub, JSON for scripts."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from xml.etree import ElementTree

from xpress_bench.analyse.gate import EXIT_CODES, Check, Outcome, outcome_of
from xpress_bench.publish.lines import count, printable
from xpress_bench.publish.page import Page, Section, Table

SHOWN = 12  # faults and remarks of one check on a page; JSON and JUnit hold all
_SENTENCES: dict[Outcome, str] = {
    "pass": "nothing got worse",
    "regression": "something got worse",
    "broken": "a baseline or a launch is of no use, so this says nothing about it",
    "inconclusive": "this does not tell; see what would",
}
_MARKS: dict[Outcome, str] = {"pass": "pass", "regression": "FAIL", "broken": "BROKEN", "inconclusive": "unknown"}


def page(checks: Sequence[Check], title: str) -> Page:
    """The outcome, one row per check, then every fault and remark."""
    outcome = outcome_of(checks)
    compared = sum(check.compared for check in checks)
    sentence = f"gate: {outcome}: {_SENTENCES[outcome]} ({count(len(checks), 'check')}, {compared} compared)"
    rows = tuple(
        (_MARKS[one.outcome], one.evidence, printable(one.name), str(one.compared), printable(one.text))
        for one in checks
    )
    table = Table(("outcome", "evidence", "what", "compared", "found"), rows)
    lines = tuple((printable(one.name), printable(text)) for one in checks for text in _details(one))
    return Page(
        (printable(title),), (Section(None, sentence, table, lines, None),), (("exit", str(EXIT_CODES[outcome])),)
    )


def _details(check: Check) -> Iterator[str]:
    yield from check.details[:SHOWN]
    if len(check.details) > SHOWN:
        yield f"and {len(check.details) - SHOWN} more (--json and --junit hold all)"


def junit(checks: Sequence[Check], seconds: float) -> str:
    """One test suite per kind of evidence. Inconclusive is an error, not a failure: the code is not to blame."""
    root = ElementTree.Element("testsuites", {"name": "xpress-bench gate", "time": f"{seconds:.3f}", **_counts(checks)})
    for evidence in dict.fromkeys(check.evidence for check in checks):
        group = [check for check in checks if check.evidence == evidence]
        suite = ElementTree.SubElement(root, "testsuite", {"name": evidence, "time": "0", **_counts(group)})
        for check in group:
            case = ElementTree.SubElement(
                suite, "testcase", name=printable(check.name), classname=f"gate.{evidence.replace(' ', '_')}", time="0"
            )
            if check.outcome != "pass":
                kind = "failure" if check.outcome == "regression" else "error"
                fault = ElementTree.SubElement(case, kind, type=check.outcome, message=printable(check.text))
                fault.text = "\n".join(map(printable, check.details))
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _counts(checks: Sequence[Check]) -> dict[str, str]:
    failures = sum(check.outcome == "regression" for check in checks)
    errors = sum(check.outcome in ("broken", "inconclusive") for check in checks)
    return {"tests": str(len(checks)), "failures": str(failures), "errors": str(errors)}


def workflow_commands(checks: Sequence[Check]) -> Iterator[str]:
    """Workflow commands that GitHub shows beside a change: errors, and warnings where the gate does not know."""
    for check in checks:
        if check.outcome != "pass":
            level = "warning" if check.outcome == "inconclusive" else "error"
            text = "; ".join((check.text, *check.details[:SHOWN]))
            yield f"::{level} title={_escaped(f'{check.evidence}: {check.name}', ':,')}::{_escaped(text)}"


def _escaped(text: str, more: str = "") -> str:
    # A property ends at a colon or comma, a command at its line's end; percent signs introduce the escapes.
    return "".join(f"%{ord(c):02X}" if c in "%\r\n" + more else c for c in printable(text))


def as_json(checks: Sequence[Check]) -> str:
    """Everything, on one line of strict JSON."""
    outcome = outcome_of(checks)
    body = {"outcome": outcome, "exit_code": EXIT_CODES[outcome], "checks": [asdict(check) for check in checks]}
    return json.dumps(body, ensure_ascii=False, allow_nan=False)


def whole_seconds(seconds: float) -> str:
    """A duration as people say it."""
    return f"{math.ceil(seconds)} s" if seconds < 120 else f"{seconds / 60:.0f} min"
