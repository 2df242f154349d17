"""Every error a person can meet, as one small tree.

XpressError
├── UsageError        the command, configuration or input is wrong: exit code 2
│   └── MisfitError   the parts do not fit together (taps, vocabulary, hidden size, layout)
└── RunError          something failed while running: exit code 1

A message says what is wrong, where, the nearest valid choice, and what to do; it is one line, and a user never sees a
traceback for it.
"""

import difflib
from collections.abc import Iterable


class XpressError(Exception):
    """Base of every error that is told to the user as one line."""

    exit_code = 1


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
