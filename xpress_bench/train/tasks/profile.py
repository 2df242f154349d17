"""Questions over a fictional profile given in the prompt; the answer quotes one field, or says that it is missing."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from . import invent
from .core import Example, Keyed, cap, task
from .invent import amount, name, some

MISSING = "The profile does not state this.\nAnswer: not stated"
LONG_SHARE = 0.1
MISSING_SHARE = 0.15


@dataclass(frozen=True, slots=True)
class Field:
    """`label` as printed, `noun` as asked (`plural` takes `are`), and how to invent a value."""

    label: str
    noun: str
    value: Callable[[random.Random], str]
    plural: bool = False


def one_of(words: str) -> Callable[[random.Random], str]:
    """Any of the words between the bars."""
    return lambda rng: rng.choice(words.split("|"))


Sections = tuple[tuple[str, tuple[Field, ...]], ...]

COUNTRY: Sections = (
    ("Geography", (
        Field("Location", "location", lambda r: f"coast of {name(r)}, between {name(r)} and {name(r)}"),
        Field("Area: total", "total area", lambda r: amount(r, 900, 900_000, "sq km")),
        Field("Land boundaries: border countries", "land neighbours", invent.names, True),
        Field("Climate", "climate", lambda r: r.choice(invent.CLIMATES)),
        Field("Terrain", "terrain", lambda r: r.choice(invent.TERRAINS)),
        Field("Elevation extremes: lowest point", "lowest point", lambda r: f"{name(r)} Basin"),
        Field("Elevation extremes: highest point", "highest point", invent.peak),
        Field("Natural resources", "natural resources", lambda r: some(r, invent.GOODS), True),
    )),
    ("People and Society", (
        Field("Languages", "official language", lambda r: name(r)),
        Field("Population", "population", lambda r: amount(r, 20_000, 60_000_000)),
        Field("Median age", "median age", lambda r: f"{r.randint(18, 45)} years"),
    )),
    ("Government", (
        Field("Capital: name", "capital", name),
        Field("Independence", "date of independence", invent.day),
        Field("Chief of state", "chief of state", invent.person),
        Field("Government type", "government type", one_of("republic|monarchy|federation|emirate")),
    )),
    ("Economy", (
        Field("Currency", "currency", invent.currency),
        Field("Industries", "main industries", lambda r: some(r, invent.GOODS), True),
        Field("Exports - commodities", "export goods", lambda r: some(r, invent.GOODS), True),
        Field("Unemployment rate", "unemployment rate", lambda r: f"{r.randint(2, 25)}.{r.randint(1, 9)} %"),
    )),
)  # fmt: skip
TOWN: Sections = (
    ("Overview", (
        Field("Population", "population", lambda r: amount(r, 800, 400_000)),
        Field("Founded", "year of foundation", lambda r: str(r.randint(900, 1900))),
        Field("Mayor", "mayor", invent.person),
        Field("River", "river", name),
        Field("Region", "region", name),
    )),
    ("Life", (
        Field("Main square", "main square", lambda r: f"{name(r)} Square"),
        Field("Market day", "market day", one_of("Monday|Tuesday|Wednesday|Thursday|Friday|Saturday")),
        Field("Known for", "best-known product", lambda r: r.choice(invent.GOODS)),
        Field("Football club", "football club", invent.club),
        Field("Twin town", "twin town", name),
    )),
)  # fmt: skip
PERSON: Sections = (
    ("Life", (
        Field("Born", "date of birth", invent.day),
        Field("Birthplace", "birthplace", name),
        Field("Trade", "trade", lambda r: r.choice(invent.TRADES)),
        Field("Home", "home town", name),
        Field("Mother", "mother", invent.person),
        Field("Teacher", "teacher", invent.person),
    )),
    ("Interests", (
        Field("Favourite colour", "favourite colour", lambda r: r.choice(invent.COLOURS)),
        Field("Instrument", "instrument", one_of("violin|flute|piano|drum|harp|trumpet|guitar")),
        Field("Pet", "pet", lambda r: r.choice(("dog", "cat", "parrot", "tortoise", "goat", "rabbit", "horse"))),
        Field("Height", "height", lambda r: amount(r, 150, 200, "cm")),
    )),
)  # fmt: skip
MUSEUM: Sections = (
    ("Visit", (
        Field("Town", "town", name),
        Field("Street", "street", lambda r: f"{r.randint(2, 99)} {name(r)} Street"),
        Field("Closed on", "closing day", lambda r: r.choice(("Monday", "Tuesday", "Wednesday", "Sunday"))),
        Field("Opening time", "opening time", lambda r: f"{r.randint(8, 11)}:{r.choice(('00', '15', '30'))}"),
        Field("Adult ticket", "price of an adult ticket", lambda r: f"{r.randint(3, 25)} dollars"),
    )),
    ("History", (
        Field("Opened", "opening year", lambda r: str(r.randint(1780, 2010))),
        Field("Founder", "founder", invent.person),
        Field("Director", "director", invent.person),
        Field("Collection", "size of the collection", lambda r: amount(r, 200, 90_000, "objects")),
        Field("Visitors per year", "yearly number of visitors", lambda r: amount(r, 2_000, 900_000)),
    )),
)  # fmt: skip
PRODUCT: Sections = (
    ("Product", (
        Field("Maker", "maker", lambda r: f"{name(r)} Works"),
        Field("Colour", "colour", lambda r: r.choice(invent.COLOURS)),
        Field("Material", "material", lambda r: r.choice(invent.MATERIALS)),
        Field("Weight", "weight", lambda r: amount(r, 2, 950, "grams")),
        Field("Width", "width", lambda r: amount(r, 5, 240, "cm")),
    )),
    ("Order", (
        Field("Price", "price", lambda r: f"{r.randint(3, 480)} dollars"),
        Field("Order number", "order number", lambda r: f"{r.choice('ABCDEFGHKM')}{r.randint(100, 9999)}"),
        Field("Delivery time", "delivery time", lambda r: f"{r.randint(2, 21)} days"),
        Field("Guarantee", "guarantee", lambda r: f"{r.randint(1, 10)} years"),
        Field("Made in", "place of production", name),
    )),
)  # fmt: skip
KINDS: dict[str, Sections] = {"country": COUNTRY, "town": TOWN, "person": PERSON, "museum": MUSEUM, "product": PRODUCT}
TITLES: dict[str, Callable[[random.Random], str]] = {
    "country": name,
    "town": name,
    "person": invent.person,
    "museum": lambda r: f"{name(r)} Museum",
    "product": lambda r: (
        f"{name(r)} {r.choice(('lamp', 'chair', 'kettle', 'radio', 'clock', 'tent', 'desk', 'bicycle'))}"
    ),
}

ASK = (
    "According to the profile, what {is_} the {noun} of {title}?",
    "What {is_} the {noun} of {title}, according to the profile?",
    "What does the profile give as the {noun} of {title}?",
)
OPEN = (
    "Read the profile and answer the question.",
    "Here is a profile.",
    "Use the profile below.",
    "Below is a profile of a {kind}.",
)
RULE = (
    "Answer in one short sentence, then end with a line of the form Answer: VALUE. If the profile does not state "
    "it, write Answer: not stated.",
    "Reply with one short sentence that quotes the profile, then a last line Answer: VALUE (or Answer: not "
    "stated if it is missing).",
    "Give one short sentence and then a final line that starts with Answer: and holds the value. Write Answer: "
    "not stated if it is not there.",
)

Filled = list[tuple[str, list[tuple[Field, str]]]]


def fill(rng: random.Random, sections: Sections) -> Filled:
    """Invent values for one or more whole sections."""
    chosen = rng.sample(range(len(sections)), rng.randint(min(2, len(sections)), len(sections)))
    return [(sections[i][0], [(field, field.value(rng)) for field in sections[i][1]]) for i in sorted(chosen)]


def remarks(rng: random.Random, long: bool) -> str:
    """Background text of one sentence to a few, or of up to about 900 words."""
    return " ".join(invent.remark(rng) for _ in range(rng.randint(15, 75) if long else rng.choice((0, 1, 2, 3))))


def labelled(title: str, background: str, filled: Filled) -> str:
    """Headings and `Label: value` lines, as in a factbook."""
    blocks = [title]
    if background:
        blocks.append(f"Introduction\nBackground: {background}")
    blocks += [
        heading + "\n" + "\n".join(f"{field.label}: {value}" for field, value in rows) for heading, rows in filled
    ]
    return "\n\n".join(blocks)


def told(rng: random.Random, title: str, background: str, filled: Filled) -> str:
    """The same content as sentences in a random order."""
    rows = [row for _, section in filled for row in section]
    rng.shuffle(rows)
    sentences = [f"The {field.noun} of {title} {is_are(field)} {value}." for field, value in rows]
    return " ".join((*sentences, background)).strip()


def is_are(field: Field) -> str:
    """The verb that agrees with the noun of a field."""
    return "are" if field.plural else "is"


def context(rng: random.Random) -> Keyed:
    """A profile, a question over one field, and the answer; sometimes the field has been taken out."""
    kind = rng.choice(("country", "country", *KINDS))
    title = TITLES[kind](rng)
    filled = fill(rng, KINDS[kind])
    _, rows = rng.choice(filled)
    field, value = rng.choice(rows)
    missing = rng.random() < MISSING_SHARE
    if missing:
        rows.remove((field, value))
    background = remarks(rng, rng.random() < LONG_SHARE)
    text = labelled(title, background, filled) if rng.random() < 0.75 else told(rng, title, background, filled)
    question = rng.choice(ASK).format(is_=is_are(field), noun=field.noun, title=title)
    if missing:
        answer, value = MISSING, "not stated"
    else:
        answer = cap(f"the {field.noun} of {title} {is_are(field)} {value}.\nAnswer: {value}")
    order = (rng.choice(OPEN).format(kind=kind), text, f"Question: {question}", rng.choice(RULE))
    kind_of_answer = "set" if field.noun == "land neighbours" and not missing else "exact"
    return f"profile {text} / {field.noun}", Example("\n\n".join(order), answer, "context", value, kind_of_answer)


profile = task(context)
