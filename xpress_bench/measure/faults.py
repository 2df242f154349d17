"""What can go wrong with one request, and how it is told: `kind: what happened`, one line in `Cell.error`.

oom: the device or the host had no memory left. non_finite: a law was not finite, so its tokens mean nothing. deadline:
no answer in time. exception: whatever else a plug-in, a model or the device raised. None of them is tried again.
"""

from __future__ import annotations

import faulthandler
import gc
import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from xpress_bench.drafters import Context, Draft
from xpress_bench.errors import redact
from xpress_bench.sampling import Sampling
from xpress_bench.targets import verifying_trees
from xpress_bench.trees import Tree

if TYPE_CHECKING:
    from xpress_bench.batching import Batch
    from xpress_bench.drafters.batched import Together

STDERR = 2
MOST_TOLD = 300  # characters of a message
_NO_MEMORY = re.compile(r"out of ?memory|can(no|')t allocate|alloc_failed", re.IGNORECASE)  # of a plain RuntimeError


class NonFiniteError(Exception):
    """Tokens were picked from a law that is not finite."""


class DeadlineError(Exception):
    """A request took longer than it may."""


def told(error: BaseException) -> str:
    """What a failed request leaves in the journal: the kind of fault, then what happened, without secrets."""
    message = redact(" ".join(str(error).split()))[:MOST_TOLD]
    if isinstance(error, NonFiniteError):
        return f"non_finite: {message}"
    if isinstance(error, DeadlineError):
        return f"deadline: {message}"
    known = isinstance(error, MemoryError | torch.OutOfMemoryError)
    no_memory = known or (isinstance(error, RuntimeError) and _NO_MEMORY.search(message))
    return f"{'oom' if no_memory else 'exception'}: {type(error).__name__}: {message}"


def free_memory() -> None:
    """Give back what a failed request held; its traceback, and with it its tensors, must be gone already."""
    gc.collect()
    if torch.cuda.is_initialized():
        with suppress(RuntimeError):  # a board that has failed for good says so again at the next request
            torch.cuda.empty_cache()


class _Alarm(BaseException):
    """No `Exception`, so that a plug-in which catches those does not swallow it."""


@contextmanager
def deadline(limit_s: float) -> Iterator[None]:
    """Raises DeadlineError when the block takes longer than `limit_s` seconds. For the main thread only.

    The alarm goes off between two steps of Python, so it ends loops and waits, and whatever comes back from C. Where
    nothing comes back, the process ends itself after twice the time, with status 1 and its stack on stderr.
    """

    def ring(*_: Any) -> None:
        raise _Alarm

    before = signal.signal(signal.SIGALRM, ring)
    faulthandler.dump_traceback_later(2 * limit_s, exit=True, file=STDERR)
    try:
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _Alarm:
        raise DeadlineError(f"no answer within {limit_s:g} s") from None
    finally:
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


class Guard:
    """Sees every law that one request picks from: a reduction at each forward, and a host read only when it has ended.

    A softmax is finite if its largest logit is, and only then: NaN and infinity win every comparison, and minus
    infinity below the largest is a probability of 0.
    """

    def __init__(self) -> None:
        self._largest: dict[str, list[Tensor]] = {}

    def see(self, who: str, logits: Tensor | None) -> None:
        if logits is not None and logits.numel():
            self._largest.setdefault(who, []).append(logits.amax(-1).flatten())

    def refuse(self) -> None:
        """Raises NonFiniteError that names the first part whose logits were not finite."""
        for who, largest in self._largest.items():
            if not bool(torch.cat(largest).isfinite().all()):
                raise NonFiniteError(f"the {who}'s logits are not finite")

    def target(self, part: Any) -> Any:
        return _Target(part, self)

    def drafter(self, part: Any) -> Any:
        return _Drafter(part, self)

    def refiner(self, part: Any) -> Any:
        return _Refiner(part, self)

    def batch(self, batch: Batch) -> Batch:
        """The same batch, the parts seen that it made of the target's and the drafter's own."""
        batch.target, batch.drafter = _RowsOfTarget(batch.target, self), _RowsOfDrafter(batch.drafter, self)
        batch.refiners = [self.refiner(refiner) for refiner in batch.refiners]
        return batch


class _Seen:
    """A part with all its attributes; what it returns is shown to the guard."""

    def __init__(self, part: Any, guard: Guard) -> None:
        self._part, self._guard = part, guard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)


class _Target(_Seen):
    def prefill(self, ids: Tensor, taps: tuple[int, ...]) -> tuple[Tensor, Tensor | None]:
        logits, features = self._part.prefill(ids, taps)
        self._guard.see("target", logits)
        return logits, features

    def verify(self, ids: Tensor, taps: tuple[int, ...]) -> Tensor:
        logits: Tensor = self._part.verify(ids, taps)
        self._guard.see("target", logits)
        return logits

    def verify_tree(self, ids: Tensor, tree: Tree, taps: tuple[int, ...]) -> Tensor:
        logits = verifying_trees(self._part).verify_tree(ids, tree, taps)
        self._guard.see("target", logits)
        return logits


class _RowsOfTarget(_Target):
    def join(self, ids: Tensor, taps: tuple[int, ...]) -> tuple[Tensor, Tensor | None]:
        logits, features = self._part.join(ids, taps)
        self._guard.see("target", logits)
        return logits, features


class _RowsOfDrafter(_Seen):
    def propose(self, together: Together) -> tuple[Draft, Sequence[int]]:
        draft, counts = self._part.propose(together)
        self._guard.see("drafter", draft.logits)
        return draft, counts


class _Drafter(_Seen):
    def start(self, target: Any, prompt: Tensor, features: Tensor | None) -> None:
        self._part.start(target._part, prompt, features)

    def propose(self, context: Context, sampling: Sampling) -> Draft:
        draft: Draft = self._part.propose(context, sampling)
        self._guard.see("drafter", draft.logits)
        return draft


class _Refiner(_Seen):
    def refine(self, draft: Draft, context: Context, sampling: Sampling) -> Draft:
        refined: Draft = self._part.refine(draft, context, sampling)
        self._guard.see("refiner", refined.logits)
        return refined
