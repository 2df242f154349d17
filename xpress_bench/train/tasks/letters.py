"""Short notes, e-mails, JSON records and tables from given facts."""

import json
import random

from .core import join
from .english import number
from .stories import NAMES

DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
EVENTS = (
    "the meeting",
    "the dinner",
    "the concert",
    "our lesson",
    "the picnic",
    "the rehearsal",
    "the walk",
    "the match",
)
PLACES = (
    "the library",
    "the park",
    "my house",
    "the station",
    "the school",
    "the old mill",
    "the harbour",
    "the market",
)
ITEMS = "bread cake salad juice chairs plates music games flowers fruit tea cups blankets candles".split()
CAUSES = (
    "I am ill",
    "my train is late",
    "I have to work",
    "my sister is visiting",
    "the road is closed",
    "I lost my key",
)


def note(rng: random.Random) -> tuple[str, str]:
    """A note that names an event, a day, an hour, a place and things to bring."""
    to, sender = rng.sample(NAMES, 2)
    event, day, hour, place = rng.choice(EVENTS), rng.choice(DAYS), number(rng.randint(2, 11)), rng.choice(PLACES)
    items = rng.sample(ITEMS, rng.randint(1, 3))
    prompt = rng.choice((
        f"Write a short note from {sender} to {to} about {event} on {day} at {hour} at {place}. Ask {to} to bring "
        f"{join(items)}.",
        f"Write a note for {to}: {event}, {day}, {hour} o'clock, {place}, please bring {join(items)}. Sign it "
        f"{sender}.",
    ))  # fmt: skip
    opening = rng.choice(
        ("Just a reminder that", "I am happy to say that", "Please remember that", "I am writing to say that")
    )
    closing = rng.choice(("See you there,", "Best wishes,", "Thank you,", "Until then,"))
    return (
        prompt,
        f"Dear {to},\n{opening} {event} is on {day} at {hour} o'clock at {place}. Please bring "
        f"{join(items)}.\n{closing}\n{sender}",
    )


def email(rng: random.Random) -> tuple[str, str]:
    """An e-mail that moves an event to another day, with the reason."""
    to, sender = rng.sample(NAMES, 2)
    event, cause = rng.choice(EVENTS), rng.choice(CAUSES)
    old, new = rng.sample(DAYS, 2)
    prompt = rng.choice((
        f"Write a short email to {to} that says: I cannot come to {event} on {old} because {cause}. "
        f"Ask for {new}. Sign as {sender}.",
        f"{sender} cannot come to {event} on {old}. Reason: {cause}. Write a polite email to {to} that proposes "
        f"{new} instead.",
    ))  # fmt: skip
    sorry = rng.choice(("I am sorry, but", "Unfortunately", "I am afraid that"))
    ask = rng.choice((f"Could we meet on {new} instead?", f"Would {new} suit you?", f"Is {new} possible for you?"))
    title = event.split(" ", 1)[1].capitalize()
    body = f"{sorry} I cannot come to {event} on {old} because {cause}. {ask}"
    answer = f"Subject: {title} on {old}\n\nDear {to},\n{body}\n\nKind regards,\n{sender}"
    return prompt, answer


def _people(rng: random.Random) -> list[tuple[str, int, str]]:
    towns = "Arnfeld Bexley Corvin Dunmore Elsted Farrow Gilden Hollin".split()
    return [(name, rng.randint(18, 79), rng.choice(towns)) for name in rng.sample(NAMES, rng.randint(2, 3))]


def _told(people: list[tuple[str, int, str]]) -> str:
    return " ".join(f"{name} is {age} years old and lives in {town}." for name, age, town in people)


def json_record(rng: random.Random) -> tuple[str, str]:
    """People as a JSON list."""
    people = _people(rng)
    rule = rng.choice(
        (
            "Turn this into a JSON list with the keys name, age and town.",
            "Write these facts as JSON (keys: name, age, town).",
        )
    )
    rows = [json.dumps({"name": name, "age": age, "town": town}) for name, age, town in people]
    return f"{rule} {_told(people)}", "[\n  " + ",\n  ".join(rows) + "\n]"


def table(rng: random.Random) -> tuple[str, str]:
    """People as a Markdown table."""
    people = _people(rng)
    rule = rng.choice(
        (
            "Put these facts into a Markdown table with the columns Name, Age and Town.",
            "Make a table (Name, Age, Town) of this.",
        )
    )
    rows = [f"| {name} | {age} | {town} |" for name, age, town in people]
    return f"{rule} {_told(people)}", "\n".join(("| Name | Age | Town |", "|---|---|---|", *rows))
