"""What a published journal leaves out: what tells one machine from another of its kind, and where its files lie.

A folder of somebody's home holds a name. An absolute path is therefore cut to its last part, wherever it stands, and
the folder that a run was written to, which says nothing of the run, goes altogether.
"""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from xpress_bench.analyse.evidence import without

ROOT = r"(?:/|~[\w.-]*/|[A-Za-z]:[\\/]|\\\\)"  # of a path on Linux or macOS, in a home, on a drive, on a share
ABSOLUTE = re.compile(ROOT)
# Inside a sentence: no part of an address (https://...), of a hub id (org/name) or of a relative path.
PART = r"[^\s\"'`,;:()<>|/\\]+"
IN_SENTENCE = re.compile(rf"(?<![\w:/\\.~-])(?:file://)?{ROOT}(?:{PART}[/\\])*({PART})")
# Where folders can stand. Names of arms and prompts are left alone: other lines refer to them.
TOLD = ("settings", "target", "machine", "git", "reason", "error")
PARTS = ("drafter", "refiner")  # of an arm
SEVERAL = re.compile(rf"([+,])(?={ROOT})")  # paths joined in one word


def anonymous(line: bytes) -> bytes:
    """A journal's line without those. One of a request that ran through stays as it is, byte by byte."""
    if line.startswith((b'{"kind":"cell"', b'{"kind":"trace"', b'{"kind":"footer"')) and b'"error":"' not in line:
        return line
    try:
        body = json.loads(line)
    except ValueError:
        return line  # no record: reading it says so
    if not isinstance(body, dict):
        return line
    machine, settings = body.get("machine"), body.get("settings")
    if isinstance(machine, dict):
        machine.pop("soft", None)  # host, board, kernel; the hard keys say what kind of machine it is
    if isinstance(settings, dict):
        settings.pop("out", None)
    if "device_uuid" in body:
        body["device_uuid"] = None
    if _all(str, body.get("argv")):  # what has another shape is refused by the rule on headers
        body["argv"] = [_word(word) for word in without(body["argv"], {"out"})]
    body |= {key: _told(body[key]) for key in TOLD if key in body}
    for arm in body["arms"] if _all(dict, body.get("arms")) else ():
        arm |= {part: _told(arm[part]) for part in PARTS if part in arm}
    return (json.dumps(body, ensure_ascii=False, separators=(",", ":")) + "\n").encode()


def _all(kind: type, value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, kind) for one in value)


def _word(word: str) -> str:
    """A word of the command line: a path, blanks and all, or one behind `key=`."""
    key, equals, value = word.partition("=")
    return f"{key}={_cut(value)}" if equals and not ABSOLUTE.match(key) else _cut(word)


def _told(value: Any) -> Any:
    """Any value of a record with the paths in it cut."""
    if isinstance(value, dict):
        return {key: _told(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_told(one) for one in value]
    return _cut(value) if isinstance(value, str) else value


def _cut(text: str) -> str:
    """A path, several joined by + or commas, or a sentence that names some."""
    if not ABSOLUTE.match(text):
        return IN_SENTENCE.sub(r"\1", text)
    pieces = SEVERAL.split(text)
    return "".join(piece if piece in ("+", ",") else _last_part(piece) for piece in pieces)


def _last_part(path: str) -> str:
    return (PurePosixPath(path) if path.startswith(("/", "~")) else PureWindowsPath(path)).name
