"""Invented names, numbers and sentences for fictional profiles."""

import random

from .core import join

_ONSETS = "b br c d dr f g gr h k l m n p r s st t tr v w z th sh".split()
_VOWELS = "a e i o u ai ea ou".split()
_CODAS = ("", "", "", "l", "n", "r", "s", "m", "nd", "rt", "x")
_ENDINGS = "a ia or en is un ar el in os ova ett".split()
FIRST = tuple(
    "Alba Bruno Celia Dario Edda Fabio Greta Henrik Ilse Jorin Katja Loris Mira Nils Orla Pavel Runa Silas Thea "
    "Ulla Viggo Wilma".split()
)


def name(rng: random.Random) -> str:
    """A capitalised word of two or three syllables."""
    middle = "".join(
        rng.choice(_ONSETS) + rng.choice(_VOWELS) + rng.choice(_CODAS) for _ in range(rng.choice((1, 1, 2)))
    )
    return (middle + rng.choice(_ONSETS) + rng.choice(_ENDINGS)).capitalize()


def names(rng: random.Random) -> str:
    """Two to four names, separated by commas."""
    return ", ".join(name(rng) for _ in range(rng.randint(2, 4)))


def person(rng: random.Random) -> str:
    """First and last name."""
    return f"{rng.choice(FIRST)} {name(rng)}"


def peak(rng: random.Random) -> str:
    """A mountain."""
    return f"{rng.choice(('Mount', 'Pico', 'Peak'))} {name(rng)}"


def currency(rng: random.Random) -> str:
    """A name and a kind of money."""
    return f"{name(rng)} {rng.choice(('crown', 'dollar', 'pound', 'franc', 'mark', 'shilling'))}"


def club(rng: random.Random) -> str:
    """A football club."""
    return f"{name(rng)} {rng.choice(('United', 'Rovers', 'Stars', 'Town'))}"


def amount(rng: random.Random, low: int, high: int, unit: str = "") -> str:
    """A number with thousands separators and its unit."""
    return f"{rng.randint(low, high):,} {unit}".strip()


def day(rng: random.Random) -> str:
    """A date such as `4 March 1925`."""
    month = rng.choice("January February March April May June July August September October November December".split())
    return f"{rng.randint(1, 28)} {month} {rng.randint(1790, 2010)}"


def some(rng: random.Random, words: tuple[str, ...], low: int = 2, high: int = 4) -> str:
    """A few different words, separated by commas."""
    return ", ".join(rng.sample(words, rng.randint(low, high)))


GOODS = tuple(
    "wheat maize barley rice cotton wool timber copper tin coal salt fish cheese olives grapes tea sugar tobacco "
    "paper glass steel "
    "cement leather silk ships clocks furniture bricks beer honey apples potatoes".split()
)
COLOURS = ("red", "blue", "green", "white", "black", "grey", "silver", "brown", "yellow", "orange")
CLIMATES = (
    "temperate; wet winters and dry summers", "tropical; hot and humid", "dry; cold nights", "mild; rain all year",
    "cool; long winters", "hot; rain from May to September", "maritime; frequent fog", "alpine; heavy snow",
)  # fmt: skip
TERRAINS = (
    "low plains with hills in the north", "mountains and deep valleys", "a flat coast and a dry plateau",
    "forested hills", "broad river plains", "rocky islands", "desert with some oases", "rolling grassland",
)  # fmt: skip
MATERIALS = ("oak", "steel", "glass", "cotton", "wool", "aluminium", "bamboo", "leather", "clay", "brass")
TRADES = (
    "painter",
    "engineer",
    "botanist",
    "teacher",
    "composer",
    "baker",
    "architect",
    "sailor",
    "printer",
    "chemist",
    "weaver",
    "judge",
)
_BUILT = (
    "harbour",
    "bridge",
    "town hall",
    "railway",
    "library",
    "market",
    "old mill",
    "lighthouse",
    "school",
    "theatre",
    "canal",
    "park",
)
_DONE = (
    "rebuilt",
    "opened",
    "closed for repairs",
    "painted",
    "extended",
    "damaged",
    "moved",
    "sold",
    "restored",
    "renamed",
)
_CAUSE = (
    "a flood",
    "a long debate",
    "a fire",
    "the war",
    "a gift from a merchant",
    "a storm",
    "many complaints",
    "the reform",
    "a dry year",
)
_PEOPLE = (
    "Farmers",
    "Visitors",
    "Traders",
    "Students",
    "Fishermen",
    "Miners",
    "Families",
    "Pilgrims",
    "Craftsmen",
    "Settlers",
)
_CAME = (
    "came from the north",
    "left for the coast",
    "built small houses",
    "paid high taxes",
    "met every spring",
    "sold their goods",
)


def remark(rng: random.Random) -> str:
    """A sentence that states none of the fields of a profile."""
    year = rng.randint(1700, 2010)
    return rng.choice((
        f"In {year} the {rng.choice(_BUILT)} was {rng.choice(_DONE)} after {rng.choice(_CAUSE)}.",
        f"{rng.choice(_PEOPLE)} {rng.choice(_CAME)} because of {rng.choice(_CAUSE)}.",
        f"Trade in {join(rng.sample(GOODS, 2))} grew until {year}.",
        f"The {rng.choice(_BUILT)} and the {rng.choice(_BUILT)} were {rng.choice(_DONE)} by {person(rng)} in {year}.",
        f"{person(rng)} wrote a book about the {rng.choice(_BUILT)} and its {rng.choice(GOODS)}.",
        f"Since {year} a festival has been held near the {rng.choice(_BUILT)}.",
    ))  # fmt: skip
