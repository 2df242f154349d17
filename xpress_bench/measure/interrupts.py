"""Ctrl-C: the first lets the request in hand end and the run close, the second stops at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

STATUS = 130  # exit status of an interrupted command
TOLD = b"\nxpress-bench: the request in hand ends, then the run is closed; Ctrl-C again stops at once\n"


class Interrupted(KeyboardInterrupt):
    """A run was stopped in good order. `folder`: the run, if anything of it was measured."""

    folder: Path | None = None


class Interrupts:
    """While it is entered, an interruption waits for what is done in `held`. For the main thread only.

    `orphan`: also stop, in the same way, once the process that started this one is gone.
    """

    def __init__(self, orphan: bool = False) -> None:
        self._parent = os.getppid() if orphan else None
        self._asked = self._held = False

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._ask)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    @contextmanager
    def held(self) -> Iterator[None]:
        """What is done here ends before the first interruption stops the run. Raises Interrupted after it."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._asked or (self._parent is not None and os.getppid() != self._parent):
            raise Interrupted

    def _ask(self, *_: Any) -> None:
        if self._asked or not self._held:
            raise KeyboardInterrupt
        self._asked = True
        if self._parent is None:
            os.write(2, TOLD)  # a signal may come while stderr is in the middle of a line, and `print` is not reentrant
