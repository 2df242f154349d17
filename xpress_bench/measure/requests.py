"""One request of one arm, or a batch of them: decode it under the clock and turn what came out into cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from xpress_bench.batching import Batch, Request
from xpress_bench.compiling import reserve
from xpress_bench.decode import Limits, Output, direct, speculative, stop_reason
from xpress_bench.drafters import most_drafts
from xpress_bench.errors import XpressError
from xpress_bench.measure.clock import Clock
from xpress_bench.measure.faults import Guard, deadline, free_memory, told
from xpress_bench.measure.prompts import Prompt, batched
from xpress_bench.measure.schedule import Slot
from xpress_bench.parts import PlannedArm
from xpress_bench.records import Cell, Steps
from xpress_bench.sampling import Sampling, stable_seed
from xpress_bench.targets import Target
from xpress_bench.verifiers import VERIFIERS


class Requests:
    """Runs slots on one target. Arms are found by name, prompts by item and turn."""

    def __init__(
        self,
        target: Target,
        tokenizer: Any,
        arms: tuple[PlannedArm, ...],
        prompts: Sequence[Prompt],
        clock: Clock,
        deadline_s: float,
        batch_size: int = 1,
    ) -> None:
        self.target = target
        self.tokenizer = tokenizer
        self.arms = {planned.arm.name: planned for planned in arms}
        self.prompts = {prompt.key: prompt for prompt in prompts}
        self.clock = clock
        self.deadline_s = deadline_s
        self.batches = [[prompt.key for prompt in batch] for batch in batched(prompts, batch_size)]
        self._reserve()
        if batch_size > 1:
            for planned in arms:  # what does not go into a batch says so now, before anything is timed
                self._batch(planned, "greedy", batch_size, Guard())

    def _reserve(self) -> None:
        """Compiled parts have buffers of one size: that of the longest request."""
        drafters = [planned.drafter for planned in self.arms.values() if planned.drafter is not None]
        tokens = max((len(prompt.ids) + prompt.budget for prompt in self.prompts.values()), default=0)
        rows = 1 + max(map(most_drafts, drafters), default=0)
        for part in [self.target, *drafters]:
            reserve(part, tokens, rows)

    def sampling(self, slot: Slot) -> Sampling:
        """The request's randomness: every arm of a (prompt, seed) gets the same, no two prompts do."""
        name = slot.prompt if slot.turn == 1 else f"{slot.prompt}, turn {slot.turn}"
        return Sampling(slot.condition, stable_seed(slot.seed, name), self.target.device)

    def limits(self, prompt: Prompt) -> Limits:
        return Limits(prompt.budget, frozenset(self.target.stop_ids))

    def run(self, slot: Slot, launch: int) -> Cell:
        """Measure one slot. A failure becomes a cell with an error and no numbers (`faults`); the run goes on."""
        return self.run_together([slot], launch)[0]

    def run_together(self, slots: Sequence[Slot], launch: int) -> list[Cell]:
        """Measure the slots of a batch, or a single one. A failure is that of all its rows."""
        prompts = [self.prompts[slot.key] for slot in slots]
        try:
            measured = [self._measured(*one, prompt) for one, prompt in zip(self._made(slots), prompts, strict=True)]
        except XpressError:
            raise
        except Exception as error:  # whatever a plug-in or the device raises
            measured = [{"error": told(error)}] * len(slots)
        if "error" in measured[0]:
            free_memory()
        rows = zip(slots, prompts, measured, strict=True)
        return [self._cell(slot, prompt, launch, **fields) for slot, prompt, fields in rows]

    def decoded(self, slots: Sequence[Slot]) -> list[Output]:
        """What a batch, or a single slot, produces, with the clock's own stamps; a failure is raised."""
        return [output for output, _ in self._made(slots)]

    def said(self, prompt: Prompt, slot: Slot) -> str:
        """What an arm answers to a prompt, unmeasured; a failure is raised."""
        output, _ = self._timed(slot, prompt)
        return self._text(output)

    def _made(self, slots: Sequence[Slot]) -> list[tuple[Output, float]]:
        """Outputs, each with the seconds until its last id was on the host."""
        return self._together(slots) if len(slots) > 1 else [self._timed(slots[0], self.prompts[slots[0].key])]

    def _together(self, slots: Sequence[Slot]) -> list[tuple[Output, float]]:
        prompts = [self.prompts[slot.key] for slot in slots]
        rows_of = zip(slots, prompts, strict=True)
        wanted = [Request(prompt.ids, self.limits(prompt), self.sampling(slot)) for slot, prompt in rows_of]
        guard, ends_s = Guard(), dict[int, float]()
        batch = self._batch(self.arms[slots[0].arm], slots[0].condition.verifier, len(slots), guard)
        with deadline(self.deadline_s):
            self.clock.synchronize()
            start = self.clock.now()
            rows = batch.join(wanted)
            while len(ends_s) < len(rows):
                now = self.clock.now()
                ends_s |= {at: now - start for at, row in enumerate(rows) if row.done and at not in ends_s}
                if batch.rows:
                    batch.step()
            self.clock.synchronize()
        guard.refuse()
        return [(row.output, ends_s[at]) for at, row in enumerate(rows)]

    def _batch(self, planned: PlannedArm, verifier: str, size: int, guard: Guard) -> Batch:
        rule = VERIFIERS.get(verifier)
        return guard.batch(Batch(self.target, planned.drafter, planned.refiners, rule, size, self.clock))

    def _timed(self, slot: Slot, prompt: Prompt) -> tuple[Output, float]:
        planned, sampling, limits = self.arms[slot.arm], self.sampling(slot), self.limits(prompt)
        ids = torch.tensor([prompt.ids], device=self.target.device)
        verifier, guard = VERIFIERS.get(slot.condition.verifier), Guard()
        target = guard.target(self.target)
        drafter = None if planned.drafter is None else guard.drafter(planned.drafter)
        refiners = [guard.refiner(refiner) for refiner in planned.refiners]
        with deadline(self.deadline_s):
            self.clock.synchronize()
            start = self.clock.now()
            if drafter is None:
                output = direct(target, ids, limits, sampling, self.clock)
            else:
                output = speculative(
                    target, drafter, refiners, verifier, ids, limits, sampling, self.clock, planned.candidates
                )
            self.clock.synchronize()
            latency_s = self.clock.now() - start
        guard.refuse()
        return output, latency_s

    def _measured(self, output: Output, latency_s: float, prompt: Prompt) -> dict[str, Any]:
        seconds = self.clock.seconds
        prefill_s = seconds(output.started, output.prefilled)
        steps = self._steps(output)
        staged = prefill_s + sum(map(sum, (steps.draft_s, steps.refine_s, steps.verify_s)))
        return {
            "ids": tuple(output.ids),
            "text": self._text(output),
            # Read off the ids, whatever the loop says: an output that nothing asked to end is short (C06).
            "stop_reason": stop_reason(output.ids, self.limits(prompt)) or "short",
            "latency_s": latency_s,
            "ttft_s": prefill_s,
            "prefill_s": prefill_s,
            # Direct generation has no stages: its time after the prompt is all target, and `rest` would mislead.
            "rest_s": max(0.0, latency_s - staged) if output.rounds else None,
            "steps": steps,
        }

    def _text(self, output: Output) -> str:
        return self.tokenizer.decode(output.ids, skip_special_tokens=True) if self.tokenizer else ""

    def _steps(self, output: Output) -> Steps:
        rounds, seconds = output.rounds, self.clock.seconds
        stamps = [each.stamps for each in rounds]
        return Steps(
            offered=tuple(each.offered for each in rounds),
            matched=tuple(each.matched for each in rounds),
            accepted=tuple(each.accepted for each in rounds),
            committed=tuple(each.committed for each in rounds),
            drafts=tuple(each.draft for each in rounds),
            refined=tuple(each.refined for each in rounds) if any(each.refined for each in rounds) else (),
            passes=tuple(each.passes for each in rounds) if any(each.passes for each in rounds) else (),
            nodes=tuple(each.nodes for each in rounds) if any(each.nodes for each in rounds) else (),
            draft_s=tuple(round(seconds(one[0], one[1]), 7) for one in stamps),
            refine_s=tuple(round(seconds(one[1], one[2]), 7) for one in stamps),
            verify_s=tuple(round(seconds(one[2], one[3]), 7) for one in stamps),
        )

    def _cell(self, slot: Slot, prompt: Prompt, launch: int, **measured: Any) -> Cell:
        return Cell(
            launch=launch,
            prompt=slot.prompt,
            turn=slot.turn,
            batch=slot.batch,
            seed=slot.seed,
            arm=slot.arm,
            repeat=slot.repeat,
            order=slot.order,
            condition=slot.condition,
            prompt_tokens=len(prompt.ids),
            prompt_sha256=prompt.sha256,
            **measured,
        )
