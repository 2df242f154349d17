"""Training against a wall clock: float32 master weights, two optimizers, a rate by the time used, checkpoints.

A budget in minutes rather than steps, so that a recipe ends when it says on any machine; what it did is written down.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from xpress_bench.errors import MisfitError, RunError
from xpress_bench.train.watching import Watch, watch

TABLES = ("embed", "lm_head", "w1.", "w2.")  # token tables are no hidden matrices: AdamW moves them


@dataclass(frozen=True, slots=True)
class Rates:
    """Learning rates and how they move: linear warm-up over steps, constant, linear decay over the budget's rest."""

    muon_lr: float = 0.02
    adam_lr: float = 3e-3
    weight_decay: float = 0.1
    warmup_steps: int = 40
    decay_from: float = 0.4  # share of the budget
    final: float = 0.02

    def scale(self, progress: float, step: int) -> float:
        """Factor on both rates at a share `progress` of the budget."""
        warm = min(1.0, (step + 1) / self.warmup_steps)
        fall = max(0.0, progress - self.decay_from) / (1 - self.decay_from) if self.decay_from < 1 else 0.0
        return warm * max(self.final, 1 - (1 - self.final) * fall)


def fast_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 where the processor multiplies it natively, else float32."""
    native = device.type != "cpu" or torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return torch.bfloat16 if native else torch.float32


class MasterWeights:
    """float32 copies of a bfloat16 model's parameters: Muon moves hidden matrices (Jordan 2024), AdamW the rest."""

    def __init__(self, model: nn.Module, rates: Rates) -> None:
        self.rates = rates
        self.parameters = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
        self.master = {name: parameter.detach().float().clone() for name, parameter in self.parameters}
        hidden = {name for name, parameter in self.parameters if is_hidden_matrix(name, parameter)}
        matrices = [self.master[name] for name, _ in self.parameters if name in hidden]
        others = [self.master[name] for name, _ in self.parameters if name not in hidden]
        self.optimizers: list[tuple[torch.optim.Optimizer, float]] = []
        if others:
            adam = torch.optim.AdamW(others, lr=rates.adam_lr, betas=(0.9, 0.95), weight_decay=0.0)
            self.optimizers.append((adam, rates.adam_lr))
        if matrices:
            decay = rates.weight_decay
            muon = torch.optim.Muon(matrices, lr=rates.muon_lr, weight_decay=decay, adjust_lr_fn="original")
            self.optimizers.append((muon, rates.muon_lr))

    def step(self, scale: float) -> float:
        """Move the weights at `scale` times the base rates and clear the gradients. Returns the gradient's norm."""
        for name, parameter in self.parameters:
            if parameter.grad is not None:  # a parameter the loss does not reach keeps still
                self.master[name].grad = parameter.grad.float()
                parameter.grad = None
        norm = float(nn.utils.clip_grad_norm_(list(self.master.values()), 1.0))
        for optimizer, rate in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate * scale
            optimizer.step()
        self._publish()
        return norm

    def _publish(self) -> None:
        with torch.no_grad():
            for name, parameter in self.parameters:
                parameter.copy_(self.master[name])

    def state(self) -> dict[str, Any]:
        return {"master": self.master, "optimizers": [optimizer.state_dict() for optimizer, _ in self.optimizers]}

    def restore(self, state: dict[str, Any], file: Path) -> None:
        """Go on from a checkpoint. MisfitError, naming its file, if it is of a model of other sizes."""
        sizes, saved_sizes = (
            {name: list(tensor.shape) for name, tensor in held.items()} for held in (self.master, state["master"])
        )
        if sizes != saved_sizes:
            differ = sorted(name for name in sizes | saved_sizes if sizes.get(name) != saved_sizes.get(name))
            raise MisfitError(
                f"{file} is of a model of other sizes ({differ[0]} is {saved_sizes.get(differ[0], 'not there')}, asked "
                f"for is {sizes.get(differ[0], 'none')}): remove {file.parent} to begin again, or use another --work"
            )
        with torch.no_grad():
            for name, held in self.master.items():
                held.copy_(state["master"][name])
        self._publish()
        for (optimizer, _), saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)


def is_hidden_matrix(name: str, parameter: Tensor) -> bool:
    return parameter.ndim == 2 and not any(table in name for table in TABLES)


class Session:
    """One resumable training: the time used, the steps done, `losses.jsonl` and `checkpoint.pt` in its folder."""

    def __init__(self, folder: Path, weights: MasterWeights, minutes: float, checkpoint_minutes: float = 5.0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.weights = weights
        self.budget_s = minutes * 60
        self.every_s = checkpoint_minutes * 60
        self.step = 0
        used_s = 0.0
        if (folder / "checkpoint.pt").exists():
            saved = torch.load(folder / "checkpoint.pt", weights_only=True)
            weights.restore(saved, folder / "checkpoint.pt")
            used_s, self.step = float(saved["used_s"]), int(saved["step"])
        self._forget_later_steps()
        self._clock, self._saved_s = time.monotonic() - used_s, used_s

    @property
    def progress(self) -> float:
        """Share of the time budget that is used; all of it if there is none."""
        return (time.monotonic() - self._clock) / self.budget_s if self.budget_s else 1.0

    def run(self, until: float, losses: Callable[[float], dict[str, Any]]) -> None:
        """Steps until a share `until` of the budget. `losses` does the backward pass and returns what to write down."""
        with self._log() as write, watch(f"train {self.folder.name}", self.budget_s) as show:
            for progress in self._shares(until):
                line = losses(progress)
                norm = self.weights.step(self.weights.rates.scale(progress, self.step))
                if not norm < float("inf"):
                    raise RunError(
                        f"train {self.folder.name}: the gradient of step {self.step + 1} is not finite; lower its "
                        "rates (muon_lr, adam_lr), and the same command goes on from the last checkpoint"
                    )
                self.step += 1
                seconds = round(progress * self.budget_s, 1)
                write({"step": self.step, **line, "norm": round(norm, 3), "seconds": seconds})
                self._show(show, line)
        self.save()

    def _forget_later_steps(self) -> None:
        """Steps after the checkpoint are done again: their lines go, so that the log has each step once."""
        log = self.folder / "losses.jsonl"
        lines = log.read_text(encoding="utf-8").splitlines(keepends=True) if log.exists() else []
        log.write_text("".join(lines[: self.step]), encoding="utf-8")

    @contextmanager
    def _log(self) -> Iterator[Callable[[dict[str, Any]], None]]:
        with (self.folder / "losses.jsonl").open("a", encoding="utf-8") as file:

            def write(line: dict[str, Any]) -> None:
                file.write(json.dumps(line) + "\n")
                file.flush()

            yield write

    def _show(self, show: Watch, line: dict[str, Any]) -> None:
        losses = ", ".join(f"{name} {value}" for name, value in line.items() if isinstance(value, float))
        show(min(self.progress, 1.0) * self.budget_s, f"step {self.step}: {losses}")

    def _shares(self, until: float) -> Iterator[float]:
        while (progress := self.progress) < until:
            yield progress
            if progress * self.budget_s - self._saved_s > self.every_s:
                self.save()

    def save(self) -> None:
        """Write the checkpoint; a half-written one never replaces a whole one."""
        self._saved_s = self.progress * self.budget_s
        temporary = self.folder / "checkpoint.tmp"
        torch.save({**self.weights.state(), "used_s": self._saved_s, "step": self.step}, temporary)
        temporary.replace(self.folder / "checkpoint.pt")
