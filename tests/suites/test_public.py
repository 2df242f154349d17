"""Public sets are told by their fields, and a record that is not as they are is named. The records here are ours."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from xpress_bench.analyse.score import score
from xpress_bench.errors import UsageError
from xpress_bench.suites import Suite, load_suite
from xpress_bench.suites.public import ANSWER_LINE, FORMATS, MT_BENCH, PLACEHOLDER

Record = dict[str, Any]
ASKED: Record = {"question_id": 81, "category": "writing", "turns": ["Write a haiku.", "Now in French."]}
SUMMARY: Record = {"question_id": 241, "category": "summarization", "turns": ["Sum up: rain."], "reference": ["Rain."]}
SPEED: Record = {
    "question_id": "0f3a",
    "category": "multilingual",
    "sub_category": None,
    "turns": ["Say hello.", "Say it in Dutch."],
    "source": "a/b",
    "src_id": "b_1",
    "difficulty": None,
    "multiturn": True,
}
PREPARED = {key: value for key, value in SPEED.items() if key != "turns"} | {
    "messages": [{"role": "user", "content": text} for text in SPEED["turns"]]
}
FUNCTION: Record = {
    "task_id": "HumanEval/7",
    "prompt": '\ndef double(x):\n    """Twice x."""\n',
    "entry_point": "double",
    "canonical_solution": "    return 2 * x\n",
    "test": "def check(candidate):\n    assert candidate(2) == 4\n",
}
WORD: Record = {"question": "How many are 600 twos?", "answer": "600*2=<<600*2=1200>>1200\n#### 1,200"}
PROBLEM: Record = {
    "problem": "What is $\\frac12+\\frac14$?",
    "solution": "It is $\\boxed{\\frac{3}{4}}.$",
    "answer": "\\frac{3}{4}",
    "subject": "Prealgebra",
    "level": 1,
    "unique_id": "test/prealgebra/12.json",
}
TASK: Record = {
    "task_id": 11,
    "text": "Write a function that doubles.",
    "code": "def double(x):\r\n  return 2 * x",
    "test_list": ["assert double(1) == 2", "assert double(2) == 4"],
    "test_setup_code": "",
    "challenge_test_list": [],
}
SANITIZED = {key: value for key, value in TASK.items() if key != "text"} | {"prompt": TASK["text"], "test_imports": []}
ONE_OF_EACH = {
    "mtbench": [ASKED],
    "specbench": [ASKED, SUMMARY],
    "questions": [ASKED, SUMMARY | {"category": "counterfactual"}],
    "speedbench": [SPEED],
    "humaneval": [FUNCTION],
    "gsm8k": [WORD],
    "math500": [PROBLEM],
    "mbpp": [TASK],
}


def write(folder: Path, *records: Any, name: str = "set.jsonl") -> Path:
    (folder / name).write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return folder / name


def loaded(folder: Path, *records: Any) -> Suite:
    return load_suite(str(write(folder, *records)))


def refused(folder: Path, *records: Any) -> str:
    with pytest.raises(UsageError) as caught:
        loaded(folder, *records)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_every_format_is_tried_here() -> None:
    assert ONE_OF_EACH.keys() == FORMATS.keys()


@pytest.mark.parametrize("name", ONE_OF_EACH)
def test_told_by_its_fields(tmp_path: Path, name: str) -> None:
    suite = loaded(tmp_path, *ONE_OF_EACH[name])
    item = suite.items[0]
    assert (suite.name, suite.version) == (name, "public")
    assert item.id.startswith(f"{name}-")
    assert (item.source, item.source_id, item.origin, item.memorised) == (name, name, "public", "high")
    assert item.licence == FORMATS[name].licence
    assert suite.budget(item) == FORMATS[name].budget


@pytest.mark.parametrize("name", ONE_OF_EACH)
@pytest.mark.parametrize("spoil", [lambda record, key: record.pop(key), lambda record, key: record.update({key: {}})])
def test_a_record_that_lacks_a_field_is_named(tmp_path: Path, name: str, spoil: Callable[[Record, str], Any]) -> None:
    records = ONE_OF_EACH[name]
    for key in FORMATS[name].fields:
        bad = dict(records[-1])
        spoil(bad, key)
        used = key not in ("sub_category", "entry_point", "canonical_solution", "test", "solution", "level", "code")
        if used or key not in bad:
            assert f"set.jsonl, line {len(records) + 1}: field {key!r} is" in refused(tmp_path, *records, bad)


def test_a_question_file_is_named_by_all_its_categories(tmp_path: Path) -> None:
    every = [ASKED | {"question_id": at, "category": name} for at, name in enumerate(sorted(MT_BENCH))]
    assert loaded(tmp_path, *every).name == "mtbench"
    both = loaded(tmp_path, *every, SUMMARY)
    assert (both.name, both.items[-1].id, both.items[0].id) == ("specbench", "specbench-241", "specbench-0")


def test_turns_of_a_conversation(tmp_path: Path) -> None:
    first, last = loaded(tmp_path, ASKED, SUMMARY).items
    assert (first.prompt, first.turns, first.category) == ("Write a haiku.", tuple(ASKED["turns"]), "writing")
    assert (last.prompt, last.turns) == ("Sum up: rain.", None)
    assert (last.references, last.answer_type) == ((), "none")


@pytest.mark.parametrize("turns", [[], ["a", ""], ["a", 3], "a", [["a"]]])
def test_turns_that_are_none(tmp_path: Path, turns: Any) -> None:
    assert "set.jsonl, line 2: field 'turns' is" in refused(tmp_path, ASKED, SUMMARY | {"turns": turns})


def test_speed_bench_as_published_and_as_prepared(tmp_path: Path) -> None:
    published, prepared = loaded(tmp_path, SPEED), loaded(tmp_path, PREPARED)
    assert published == prepared
    assert (published.items[0].id, published.items[0].turns) == ("speedbench-0f3a", tuple(SPEED["turns"]))


@pytest.mark.parametrize(
    "bad",
    [
        SPEED | {"turns": [f"{PLACEHOLDER} FROM THE SOURCE"]},
        PREPARED | {"messages": [{"role": "user", "content": f"{PLACEHOLDER} FROM THE SOURCE\n\nSum up {{article}}"}]},
    ],
)
def test_speed_bench_placeholders_are_no_prompts(tmp_path: Path, bad: Record) -> None:
    assert "line 2: holds a placeholder" in refused(tmp_path, SPEED, bad | {"question_id": "b"})


@pytest.mark.parametrize(
    "messages", [[], "a", None, [3], [{"role": "assistant", "content": "a"}], [{"role": "user", "content": " "}]]
)
def test_messages_that_are_none(tmp_path: Path, messages: Any) -> None:
    bad = PREPARED | {"question_id": "b", "messages": messages}
    assert "line 2: field 'messages' " in refused(tmp_path, PREPARED, bad)


def test_humaneval_is_given_as_it_is(tmp_path: Path) -> None:
    item = loaded(tmp_path, FUNCTION).items[0]
    assert (item.id, item.prompt, item.category) == ("humaneval-7", FUNCTION["prompt"], "code")
    assert (item.references, item.answer_type) == ((), "none")


def test_a_packed_file_is_the_same_suite(tmp_path: Path) -> None:
    plain = loaded(tmp_path, FUNCTION)
    packed = tmp_path / "HumanEval.jsonl.gz"
    packed.write_bytes(gzip.compress((tmp_path / "set.jsonl").read_bytes()))
    assert load_suite(str(packed)) == plain


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ("a\n#### 1,200", "1200"),
        ("#### -3", "-3"),
        ("####7", "7"),
        ("#### 1 no:\n#### 2.50", "2.50"),
        ("####  8 ", "8"),
    ],
)
def test_gsm8k_result(tmp_path: Path, answer: str, result: str) -> None:
    item = loaded(tmp_path, WORD | {"answer": answer}).items[0]
    assert (item.id, item.references, item.answer_type) == ("gsm8k-0001", (result,), "exact")
    assert item.prompt == f"{WORD['question']}\n\n{ANSWER_LINE}"


def test_gsm8k_without_a_result(tmp_path: Path) -> None:
    assert "line 2: field 'answer' holds no result of the form #### N" in refused(
        tmp_path, WORD, WORD | {"answer": "5"}
    )


def test_question_and_answer_alone_are_not_gsm8k(tmp_path: Path) -> None:
    assert "line 1: field 'prompt' is missing" in refused(tmp_path, {"question": "a", "answer": "b"})


def test_math500(tmp_path: Path) -> None:
    item = loaded(tmp_path, PROBLEM).items[0]
    assert (item.id, item.category) == ("math500-test-prealgebra-12", "Prealgebra")
    assert (item.references, item.answer_type) == (("\\frac{3}{4}",), "exact")
    assert item.prompt == f"{PROBLEM['problem']}\n\n{ANSWER_LINE}"


def test_the_scorer_finds_the_answer_that_is_asked_for(tmp_path: Path) -> None:
    word = loaded(tmp_path, WORD).items[0]
    assert score("600 times 2 is 1,200.\n\nAnswer: 1,200", word) == 1.0
    assert score("600 times 2 is 1200.\nAnswer: 1201", word) == 0.0
    problem = loaded(tmp_path, PROBLEM).items[0]
    assert score("Three quarters.\n**Answer:** $\\frac{3}{4}$", problem) == 1.0


@pytest.mark.parametrize("record", [TASK, SANITIZED])
def test_mbpp_shows_its_tests(tmp_path: Path, record: Record) -> None:
    item = loaded(tmp_path, record).items[0]
    assert (item.id, item.category, item.answer_type) == ("mbpp-11", "code", "none")
    assert TASK["text"] in item.prompt
    assert item.prompt.endswith("tests:\n\nassert double(1) == 2\nassert double(2) == 4")


def test_sanitized_mbpp_is_one_list(tmp_path: Path) -> None:
    file = tmp_path / "sanitized-mbpp.json"
    file.write_text(json.dumps([SANITIZED, SANITIZED | {"task_id": 12}]))
    assert [item.id for item in load_suite(str(file)).items] == ["mbpp-11", "mbpp-12"]
    file.write_text(json.dumps([SANITIZED, SANITIZED | {"task_id": 12, "test_list": []}]))
    with pytest.raises(UsageError, match=r"sanitized-mbpp.json, record 2: field 'test_list' is empty"):
        load_suite(str(file))


def test_an_id_stands_once(tmp_path: Path) -> None:
    write(tmp_path, ASKED)
    file = tmp_path / "set.jsonl"
    file.write_text("\n" + file.read_text() * 2)
    with pytest.raises(UsageError, match=r"line 3: id 'mtbench-81' stands on line 2 already"):
        load_suite(str(file))


@pytest.mark.parametrize("key", [1.5, True, "", None, ["a"]])
def test_an_id_is_a_text_or_a_whole_number(tmp_path: Path, key: Any) -> None:
    assert "line 2: field 'question_id' is " in refused(tmp_path, ASKED, ASKED | {"question_id": key})


def test_settings_beside_the_file_win(tmp_path: Path) -> None:
    (tmp_path / "set.suite.yaml").write_text("output_budget: {writing: 9}\nturns: 1")
    suite = loaded(tmp_path, ASKED, SUMMARY)
    assert suite.budgets == {"writing": 9, "summarization": 1024}
    assert suite.turns == 1


@pytest.mark.parametrize("record", [ASKED, SPEED, WORD, PROBLEM])
def test_our_own_format_wins_over_resemblance(tmp_path: Path, record: Record) -> None:
    prompt = record.get("turns", ["a"])[0]
    suite = loaded(tmp_path, record | {"prompt": prompt})
    assert (suite.name, suite.version, suite.items[0].prompt) == ("set", "user", prompt)
