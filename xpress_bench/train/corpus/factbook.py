"""Profiles of the World Factbook."""

from __future__ import annotations

import json
from pathlib import Path

from xpress_bench.train.corpus.text import Pages, clean, slug


def extract_factbook(folder: Path) -> Pages:
    """One page a profile; the name carries code and country so that both can exclude it."""
    for path in sorted((folder / "package").glob("*/*.json")):
        profile = json.loads(path.read_text(encoding="utf-8"))
        name = country_name(profile) if isinstance(profile, dict) else ""
        if name:
            yield f"{path.stem}/{slug(name)}", render_profile(name, profile)


def country_name(profile: dict[str, object]) -> str:
    """Usual name of a profile's country, or '' for profiles that have none."""
    government = profile.get("Government")
    names = government.get("Country name") if isinstance(government, dict) else None
    if not isinstance(names, dict):
        return ""
    for key in ("conventional short form", "conventional long form"):
        value = names.get(key)
        text = str(value.get("text") or "").strip() if isinstance(value, dict) else ""
        if text and text.casefold() != "none":
            return text
    return ""


def render_profile(name: str, profile: dict[str, object]) -> str:
    """A profile as a heading, sections, and one labelled line a field."""
    blocks = [name]
    for section, fields in profile.items():
        if not isinstance(fields, dict):
            continue
        rows = [f"{label}: {text}" for label, value in fields.items() if (text := _field(value))]
        if rows:
            blocks += [section, "\n".join(rows)]
    return "\n\n".join(clean(block) for block in blocks)


def _field(value: object) -> str:
    """One field: its text first, then its labelled parts."""
    if not isinstance(value, dict):
        return str(value or "").strip()
    parts: list[str] = []
    for key, inner in value.items():
        text = _field(inner)
        if text and key != "Area comparison map":
            parts.append(text if key == "text" else f"{key}: {text}")
    return "; ".join(parts).replace(" ++ ", "; ")
