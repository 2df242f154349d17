"""The long suite: 40 passages of Austen, 32 pages of SQLite's manual, 24 Factbook prompts of about 1k to 8k tokens."""

import random
import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import build_qa
import documents
import factbook
import long_written
from building import Record, clean, record
from documents import Paragraph
from factbook import Profile

SEED = 20261
BUCKETS = (1, 2, 4, 8)  # thousand tokens, each reached within TOLERANCE
TOLERANCE = 0.2
RATES = {"austen": 4.12, "sqlite": 4.16, "factbook": 3.62}  # characters a token, as measured for each source
WRAPPER = 360  # characters of an instruction, about

NOVELS = {"northangerabbey": "Northanger Abbey", "persuasion": "Persuasion"}
SPREAD = {"northangerabbey": (3, 2, 3, 2), "persuasion": (2, 3, 2, 3)}  # passages to summarise, by bucket, of five
LEFT_OUT = ("northangerabbey", 1)  # this chapter quotes two lines of Gray's that stand in Emma, a text for training
NEXT_WORDS = (40, 120)  # of the paragraph that is the reference of a continuation

PAGES = {
    (1, "summarise"): ("inmemorydb", "serverless", "shortnames"),
    (1, "introduce"): ("deterministic", "schematab"),
    (1, "question"): ("csv", "expridx", "invalidutf"),
    (2, "summarise"): ("howitworks", "sharedcache", "whyc"),
    (2, "introduce"): ("mmap", "security", "stricttables"),
    (2, "question"): ("errlog", "psow"),
    (4, "summarise"): ("fasterthanfs", "flextypegood", "whentouse"),
    (4, "introduce"): ("appfunc", "cintro"),
    (4, "question"): ("bindptr", "limits", "quirks"),
    (8, "summarise"): ("atomiccommit", "malloc", "testing"),
    (8, "introduce"): ("lockingv3+isolation", "queryplanner+eqp", "wal"),
    (8, "question"): ("howtocorrupt", "walformat"),
}

# Names of living people and lists of parties: of no use in a briefing, and out of date.
PEOPLE = re.compile(
    r"Executive branch: (chief of state|head of government|cabinet|election results)|.*: election results|"
    r"Political (parties|pressure groups)|National anthem: lyrics"
)
HEALTH = re.compile(
    r"Population$|Median age: total|Birth|Death|Infant mortality rate: total|Life expectancy|Total fertility|Health|"
    r"Physicians|Hospital|Drinking|Sanitation|HIV|Major infectious|Obesity|Children under"
)
TRADE = re.compile(
    r"GDP \(off|GDP - (real|per capita)|GDP - composition, by sector|Agriculture - products|Industries$|"
    r"Current account|Exports|Imports|Reserves|Exchange"
)
EVERYTHING = re.compile("")
INTRODUCTION, GEOGRAPHY, PEOPLE_AND_SOCIETY, GOVERNMENT, ECONOMY = factbook.SECTIONS
BRIEFINGS = {
    1: ((INTRODUCTION, GEOGRAPHY),) * 3,
    2: (
        (INTRODUCTION, GEOGRAPHY, PEOPLE_AND_SOCIETY),
        (INTRODUCTION, GEOGRAPHY, GOVERNMENT),
        (INTRODUCTION, ECONOMY),
    ),
    4: (
        (INTRODUCTION, GEOGRAPHY, PEOPLE_AND_SOCIETY, ECONOMY),
        (INTRODUCTION, GEOGRAPHY, PEOPLE_AND_SOCIETY, GOVERNMENT),
        (INTRODUCTION, GOVERNMENT, ECONOMY),
    ),
    8: (factbook.SECTIONS,) * 3,
}
COMPARISONS = {
    1: (
        ("climate, terrain and natural hazards", (GEOGRAPHY,), EVERYTHING),
        ("public health", (PEOPLE_AND_SOCIETY,), HEALTH),
        ("foreign trade", (ECONOMY,), TRADE),
    ),
    2: (
        ("natural resources, water and the environment", (INTRODUCTION, GEOGRAPHY), EVERYTHING),
        ("the age, growth and health of the population", (PEOPLE_AND_SOCIETY,), EVERYTHING),
        ("the system of government and the courts", (GOVERNMENT,), EVERYTHING),
    ),
    4: (
        ("the structure and the state of the economy", (INTRODUCTION, ECONOMY), EVERYTHING),
        ("living conditions and the land people live on", (INTRODUCTION, GEOGRAPHY, PEOPLE_AND_SOCIETY), EVERYTHING),
        ("history, political system and legal system", (INTRODUCTION, GEOGRAPHY, GOVERNMENT), EVERYTHING),
    ),
    8: (
        ("the prospects for economic growth", (INTRODUCTION, GEOGRAPHY, PEOPLE_AND_SOCIETY, ECONOMY), EVERYTHING),
        ("population, government and prosperity", (PEOPLE_AND_SOCIETY, GOVERNMENT, ECONOMY), EVERYTHING),
        ("the influence of geography on the economy", (INTRODUCTION, GEOGRAPHY, GOVERNMENT, ECONOMY), EVERYTHING),
    ),
}


def origin(source_id: str, source: str) -> dict[str, str]:
    """Fields of the common record that say where a text is from."""
    return {"source": source, "source_id": source_id, "licence": "Public-Domain", "origin": "package"}


def reaches(size: int, bucket: int, source_id: str, tolerance: float = TOLERANCE) -> bool:
    """Whether a prompt of `size` characters has the bucket's length."""
    return abs(size / RATES[source_id] / (1000 * bucket) - 1) <= tolerance


def long_record(
    item_id: str, task: str, bucket: int, prompt: str, references: Sequence[str], source: dict[str, str]
) -> Record:
    """A record of this suite. ValueError if the prompt misses its bucket."""
    name, prompt = source["source_id"], clean(prompt)
    if not reaches(len(prompt), bucket, name):
        raise ValueError(f"{item_id} has {len(prompt) / RATES[name]:.0f} tokens")
    kind = {"continue": "text", "question": "exact"}.get(task, "none")
    memorised = "high" if name == "austen" else "medium"
    return record(
        "long", f"{item_id}-{task}-{bucket}k", task, prompt, references, kind, source, memorised,
        chars_per_token=RATES[name],
    )  # fmt: skip


def joined(paragraphs: Sequence[Paragraph], first: bool) -> str:
    """Text with a heading wherever a chapter begins; `first` says whether one begins at the start."""
    out, chapter = list[str](), 0 if first else paragraphs[0].chapter
    for one in paragraphs:
        out += [f"Chapter {one.chapter}"] if one.chapter != chapter else []
        out.append(one.text)
        chapter = one.chapter
    return "\n\n".join(out)


def begins(paragraphs: Sequence[Paragraph], at: int) -> bool:
    """Whether a chapter begins with this paragraph."""
    return at == 0 or paragraphs[at - 1].chapter != paragraphs[at].chapter


def openings(paragraphs: Sequence[Paragraph], at: int, gap: float) -> list[int]:
    """Places to start at or after `at`, less than `gap` characters further: chapters, then narrative, then the rest."""
    near, size = [at], 0
    while at + len(near) < len(paragraphs) and (size := size + len(paragraphs[near[-1]].text)) < gap:
        near.append(at + len(near))

    def rank(i: int) -> int:
        text = paragraphs[i].text
        return 0 if begins(paragraphs, i) else 1 if text[0] not in "\"'(" and len(text.split()) >= 40 else 2

    return sorted(near, key=rank)


def ending(paragraphs: Sequence[Paragraph], start: int, task: str, bucket: int) -> int | None:
    """Where a passage of the bucket's length stops: the nearest fitting paragraph break, if there is one."""
    wanted, size = 1000 * bucket * RATES["austen"] - WRAPPER, 0
    found: list[tuple[float, int]] = []
    for end in range(start + 1, len(paragraphs)):
        size += len(paragraphs[end - 1].text) + 2
        inside, miss = not begins(paragraphs, end), abs(size / wanted - 1)
        follows = inside and NEXT_WORDS[0] <= len(paragraphs[end].text.split()) <= NEXT_WORDS[1]
        # Neither a passage nor a reference stops before the speech or the signature that it announces.
        closed = all(one.text[-1] in ".!?\"'" for one in paragraphs[end - 1 : end + (task == "continue")])
        if miss < 0.15 and closed and (task == "summarise" or follows):
            # A summary is better of whole chapters, if one ends nearby.
            found.append((miss - (0.1 if task == "summarise" and not inside else 0), end))
    return min(found)[1] if found else None


def austen(packages: Path) -> Iterator[Record]:
    """Passages that share no paragraph: each starts after the end of the one before, in a drawn order of lengths."""
    for book, whole in documents.novels(packages / documents.AUSTEN_ARCHIVE, tuple(NOVELS)).items():
        paragraphs = [one for one in whole if (book, one.chapter) != LEFT_OUT]
        plan = [
            ("summarise" if i < few else "continue", bucket)
            for bucket, few in zip(BUCKETS, SPREAD[book], strict=True)
            for i in range(5)
        ]
        random.Random(f"{SEED} {book}").shuffle(plan)
        total = sum(len(one.text) for one in paragraphs)
        gap = total / len(plan) - 1000 * sum(BUCKETS) / len(BUCKETS) * RATES["austen"]
        at, turns = 0, dict.fromkeys(long_written.AUSTEN, len(book))
        for task, bucket in plan:
            starts = [*openings(paragraphs, at, gap), *range(at, len(paragraphs))]
            start, end = next((i, end) for i in starts if (end := ending(paragraphs, i, task, bucket)))
            wrappers = long_written.AUSTEN[task]
            prompt = wrappers[turns[task] % len(wrappers)].format(
                title=NOVELS[book], text=joined(paragraphs[start:end], begins(paragraphs, start))
            )
            turns[task] += 1
            first, last = paragraphs[start].chapter, paragraphs[end - 1].chapter
            where = f"chapter {first}" if first == last else f"chapters {first} to {last}"
            yield long_record(
                f"long-austen-{book}-{first:02}", task, bucket, prompt,
                [paragraphs[end].text] if task == "continue" else [],
                origin("austen", f"janeaustenr 1.0.0-1 (apt), {NOVELS[book]}, {where}"),
            )  # fmt: skip
            at = end + (task == "continue")


def sqlite(packages: Path) -> Iterator[Record]:
    """Pages to summarise, to introduce and to answer a question on; two pages that belong together count as one."""
    names = [name for group in PAGES.values() for page in group for name in page.split("+")]
    found = documents.pages(packages / documents.SQLITE_ARCHIVE, names)
    turns = dict.fromkeys(long_written.SQLITE, 0)
    for (bucket, task), group in PAGES.items():
        for page in group:
            question, answers = long_written.QUESTIONS.get(page, ("", ()))
            wrapper = long_written.SQLITE[task][turns[task] % len(long_written.SQLITE[task])]
            wanted = 1000 * bucket * RATES["sqlite"]
            longest = (1 + TOLERANCE) * wanted - len(wrapper.format(text="", question=question))
            text = "\n\n".join(documents.cut(found[name], wanted, longest) for name in page.split("+"))
            prompt = wrapper.format(text=text, question=question)
            turns[task] += 1
            yield long_record(
                f"long-sqlite-{page.replace('+', '-').replace('_', '-')}", task, bucket, prompt, answers,
                origin("sqlite", f"sqlite3-doc 3.40.1-2+deb12u2 (apt), {page.replace('+', '.html and ')}.html"),
            )  # fmt: skip


def excerpt(profile: Profile, sections: Sequence[str], fields: re.Pattern[str]) -> str:
    """Name and the named sections of a profile, a field a line."""
    blocks = [profile.name]
    for section in sections:
        lines = [(label, text) for label, text in profile.lines[section] if not PEOPLE.match(label)]
        blocks.append("\n".join((section, *(f"{label}: {text}" for label, text in lines if fields.match(label)))))
    return "\n\n".join(blocks)


def fits(text: str, bucket: int) -> bool:
    """Whether the text with an instruction comes near enough to the bucket's length."""
    return reaches(len(text) + WRAPPER, bucket, "factbook", 0.9 * TOLERANCE)


def factbook_record(task: str, bucket: int, turn: int, chosen: Sequence[Profile], text: str, aspect: str) -> Record:
    """A briefing or a comparison on the countries chosen."""
    wrappers = long_written.FACTBOOK[task]
    names = " and ".join(profile.in_sentence for profile in chosen)
    prompt = wrappers[turn % len(wrappers)].format(names=names, text=text, aspect=aspect)
    codes = "-".join(profile.key.rsplit("/", 1)[-1] for profile in chosen)
    source = origin("factbook", build_qa.FACTBOOK["source"])
    return long_record(f"long-factbook-{codes}", task, bucket, prompt, [], source)


def profiles(packages: Path, used: set[str]) -> Iterator[Record]:
    """Briefings on one country and comparisons of two neighbours in the archive; adds the countries to `used`."""
    known = [p for p in factbook.read(packages / factbook.ARCHIVE) if p.name not in used | {"DRC"}]
    for bucket in reversed(BUCKETS):  # few profiles are long enough for the largest bucket: it chooses first
        for turn, sections in enumerate(BRIEFINGS[bucket]):
            drawn = [p for p in known if p.name not in used and fits(excerpt(p, sections, EVERYTHING), bucket)]
            one = random.Random(f"{SEED} briefing {bucket} {turn}").choice(drawn)
            used.add(one.name)
            yield factbook_record("briefing", bucket, turn + bucket, [one], excerpt(one, sections, EVERYTHING), "")
        for turn, (aspect, sections, fields) in enumerate(COMPARISONS[bucket]):
            shown = [(p, excerpt(p, sections, fields)) for p in known if p.name not in used]
            pairs = [
                ((p, q), f"{left}\n\n{right}")
                for (p, left), (q, right) in combinations(shown, 2)
                if p.key.split("/")[0] == q.key.split("/")[0] and fits(f"{left}\n\n{right}", bucket)
            ]
            chosen, text = random.Random(f"{SEED} compare {bucket} {turn}").choice(pairs)
            used.update(p.name for p in chosen)
            yield factbook_record("compare", bucket, turn + bucket, chosen, text, aspect)


def build(packages: Path) -> tuple[list[Record], dict[str, Any]]:
    """All records, and the documents that no model of ours may be trained on."""
    barred = set(build_qa.build(packages)[1]["held_out_countries"])
    used = set(barred)
    records = [*austen(packages), *sqlite(packages), *profiles(packages, used)]
    # Neighbours are alike, so that every n-th item is a fair sample.
    records.sort(key=lambda one: (one["category"], one["source_id"], one["approx_tokens"], one["id"]))
    pages = {f"sqlite/{name}.html" for group in PAGES.values() for page in group for name in page.split("+")}
    return records, {
        "held_out_documents": sorted(pages | {f"austen/{book}" for book in NOVELS}),
        "held_out_countries": sorted(used - barred),
    }
