"""What a gate says, in every form."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from junitparser import JUnitXml

from xpress_bench.analyse.gate import Check
from xpress_bench.publish import gating, markdown, text

EVIL = "a|b<script>%\x1b[31m\r\n::error::x"
CHECKS = [
    Check("counted work", "embedded: draft, greedy", "pass", 12, "12 of 12 cells compared"),
    Check("counted work", EVIL, "regression", 3, EVIL, (EVIL, "qa-1: token 3: 1 -> 2")),
    Check("wall time", "latency of direct", "inconclusive", 10, "+1.0%", ("17 pairs would do",), (0.01, 0.02)),
    Check("memory", "peak memory of refine", "broken", 0, "the base has no usable value (None)"),
]


def test_the_page_starts_with_the_outcome_and_what_was_compared() -> None:
    plain = text.plain(gating.page(CHECKS, "xpress-bench gate"))
    assert "gate: regression" in plain
    assert "4 checks, 25 compared" in plain
    assert "exit   1" in plain
    assert "qa-1: token 3: 1 -> 2" in plain
    assert "\x1b" not in plain


def test_the_page_is_markdown_that_no_name_can_break_out_of() -> None:
    lines = markdown.markdown(gating.page(CHECKS, "gate")).splitlines()
    row = next(line for line in lines if line.startswith("| FAIL"))
    assert row.replace("\\|", "").count("|") == 6
    assert not re.search(r"(?<!\\)<script>", "\n".join(lines))  # a backslash before it makes it text


def test_many_faults_are_counted_on_the_page_and_whole_elsewhere() -> None:
    one = Check("counted work", "x", "regression", 50, "", tuple(f"fault {i}" for i in range(50)))
    plain = text.plain(gating.page([one], "gate"))
    assert "fault 11" in plain
    assert "fault 12" not in plain
    assert "and 38 more" in plain
    assert "fault 49" in gating.junit([one], 1.0)
    assert json.loads(gating.as_json([one]))["checks"][0]["details"][49] == "fault 49"


def test_another_reader_of_junit_finds_the_same_counts(tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"
    file.write_text(gating.junit(CHECKS, 12.5), encoding="utf-8")
    found = JUnitXml.fromfile(str(file))
    assert (found.tests, found.failures, found.errors) == (4, 1, 2)
    cases = [(suite.name, case.name, [type(one).__name__ for one in case.result]) for suite in found for case in suite]
    assert cases[0] == ("counted work", "embedded: draft, greedy", [])
    assert [kinds for _, _, kinds in cases] == [[], ["Failure"], ["Error"], ["Error"]]


@pytest.mark.network
def test_junit_is_valid_by_the_schema_that_jenkins_uses(tmp_path: Path) -> None:
    """The schema is test material of pytest, whose source archive holds it."""
    etree = pytest.importorskip("lxml.etree")
    command = "-m pip download --quiet --no-deps --no-binary :all: pytest==8.3.4 --dest".split()
    subprocess.run([sys.executable, *command, str(tmp_path)], check=True)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        member = archive.extractfile("pytest-8.3.4/testing/example_scripts/junit-10.xsd")
        assert member is not None
        schema = etree.XMLSchema(etree.parse(io.BytesIO(member.read())))
    schema.assertValid(etree.fromstring(gating.junit(CHECKS, 12.5).encode()))


def test_annotations_stay_on_their_line_and_pass_nothing_through() -> None:
    lines = list(gating.workflow_commands(CHECKS))
    assert [line.partition(" ")[0] for line in lines] == ["::error", "::warning", "::error"]
    assert all("\n" not in line and "\r" not in line for line in lines)
    _, properties, message = lines[0].split("::", 2)
    assert ":" not in properties  # the title ends where the message begins: what stands in that is text
    assert message.endswith("qa-1: token 3: 1 -> 2")
    assert "%25" in lines[0]


def test_json_is_strict_and_says_the_exit_code() -> None:
    body = json.loads(gating.as_json(CHECKS))
    assert (body["outcome"], body["exit_code"]) == ("regression", 1)
    assert body["checks"][2]["values"] == [0.01, 0.02]
    assert "\n" not in gating.as_json(CHECKS)
