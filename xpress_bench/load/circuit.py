"""When not to ask: a circuit breaker, and how long to wait before another attempt."""

from __future__ import annotations

import random

from xpress_bench.load_records import Policy


class Circuit:
    """Closed, it lets every request through. Open, none; after a wait, half open, one at a time (Nygard 2007)."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._failures = 0
        self._probing = False
        self.probe_s: float | None = None  # open: when the next request is let through
        self.opened = 0
        self.reason = ""  # of the last failure

    @property
    def open(self) -> bool:
        return self.probe_s is not None

    def lets(self, now_s: float) -> bool:
        """Whether a request may be sent; one that is let through an open circuit is its probe."""
        if self.probe_s is None:
            return True
        if self._probing or now_s < self.probe_s:
            return False
        self._probing = True
        return True

    def next_s(self, now_s: float) -> float:
        """When it is worth asking again."""
        return max(self.probe_s or now_s, now_s + (self._policy.probe_s if self._probing else 0.0))

    def succeeded(self) -> None:
        self._failures, self._probing, self.probe_s = 0, False, None

    def failed(self, now_s: float, reason: str) -> None:
        self._failures, self.reason = self._failures + 1, reason
        if self._probing or (not self.open and self._failures >= self._policy.failures):
            self.opened += not self.open
            self._probing, self.probe_s = False, now_s + self._policy.probe_s


def backoff_s(policy: Policy, attempts: int, rng: random.Random) -> float:
    """Seconds before attempt `attempts` + 1: from 0 to a bound that doubles each time (full jitter)."""
    return rng.uniform(0.0, min(policy.longest_s, policy.backoff_s * 2 ** (attempts - 1)))
