"""Every error a person can meet, as one small tree.

XpressError
├── UsageError        the command, configuration or input is wrong: exit code 2
│   └── MisfitError   the parts do not fit together (taps, vocabulary, hidden size, layout)
└── RunError          something failed while running: exit code 1

A message says what is wrong, where, the nearest valid choice, and what to do; it is one line, and a user never sees a
traceback for it.
"""

import difflib
import os
import re
from collections.abc import Iterable

MOST_TOLD = 2000  # characters of a message: a value that it quotes may be a whole file
HIDDEN = "[hidden]"
_SECRET_NAMES = re.compile(r"(TOKEN|SECRET|PASSWORD|API_?KEY|ACCESS_KEY)$", re.IGNORECASE)  # environment variables
_SECRETS = re.compile(r"(?<=://)[^/\s@]+(?=@)|\bhf_[A-Za-z0-9]{20,}")  # user and password in a URL, tokens of the hub


def redact(text: str) -> str:
    """`text` without passwords in URLs, tokens of the hub, and values of environment variables named as secrets."""
    held = [value for name, value in os.environ.items() if _SECRET_NAMES.search(name) and len(value) >= 8]
    for value in sorted(held, key=len, reverse=True):  # one may be a part of another
        text = text.replace(value, HIDDEN)
    return _SECRETS.sub(HIDDEN, text)


class XpressError(Exception):
    """Base of every error that is told to the user as one line, whatever stood in the file that it quotes."""

    exit_code = 1

    def __str__(self) -> str:
        """The message without secrets, line breaks and control characters; a very long one without its middle."""
        told = redact(super().__str__())
        if len(told) > MOST_TOLD:
            told = f"{told[: MOST_TOLD // 2]} ... {told[-MOST_TOLD // 2 :]}"
        return "".join(c if c.isprintable() else " " for c in told)


class UsageError(XpressError):
    """The command, the configuration or an input file is wrong."""

    exit_code = 2


class MisfitError(UsageError):
    """Target, drafter and refiner do not fit together; found before any timing."""


class RunError(XpressError):
    """A run started and could not go on; what was measured stays in its journal."""


def nearest(word: str, known: Iterable[str], otherwise: str, most: int = 3, cutoff: float = 0.5) -> str:
    """What to say after a name that is not there: "did you mean a or b?", or `otherwise` if none of `known` is near."""
    near = difflib.get_close_matches(word, list(known), n=most, cutoff=cutoff)
    return f"did you mean {' or '.join(near)}?" if near else otherwise
