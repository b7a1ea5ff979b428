"""The two loops that call a layer's update, written as training scripts are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from pertdbg.learner import AdversarialLearner, ce, named_loss
from pertdbg.scenario.build import Built
from pertdbg.scenario.data import Batch
from pertdbg.scenario.faults import AFTER_BACKWARD, BEFORE_BACKWARD, BEFORE_PASS, inject
from pertdbg.scenario.model import Fault, Scenario


class Steps:
    """Creation, then updates, each after a perturbed pass and a backward."""

    def __init__(self, scenario: Scenario, built: Built) -> None:
        """Prepare; nothing is run yet."""
        self.table, self.names = scenario.loop, scenario.layer.observed
        self.layer, self.model, self.batches = built.layer, built.model, built.batches
        self._faults = scenario.fault
        self._loss = named_loss(scenario.loop.loss)
        self._optimizer = _optimizer(scenario, built.model)
        self._flags = [p.requires_grad for p in built.model.parameters()]
        self._number = 0
        self._batch: Batch
        self._target: Tensor
        self._logits: Tensor | None = None

    def run(self, calls: int) -> None:
        """Make this many update calls."""
        of_batch = calls if self.table.updates is None else 1 + self.table.updates
        for call in range(1, calls + 1):
            if (call - 1) % of_batch:
                self._update(call)
                continue
            if call > 1:
                self._train()
                self._number += 1
            self._create(call)

    def _create(self, call: int) -> None:
        self.layer.adversarial_(False)  # type: ignore[operator]  # drops delta
        self._thaw()
        self._clean_pass()
        if self.table.freeze:
            self.model.requires_grad_(False)
        self.layer.adversarial_(True)  # type: ignore[operator]
        self._logits = self.model(self._batch.inputs)  # the first perturbed pass makes delta
        _say(f"call {call:3}  batch {self._number + 1}  delta made")

    def _update(self, call: int) -> None:
        faults = [fault for fault in self._faults if fault.call == call]
        inject(BEFORE_PASS, faults, self)
        losses = [self._perturbed_pass(faults) for _ in range(self.table.accumulate)]
        inject(AFTER_BACKWARD, faults, self)
        update = getattr(self.layer, self.names.method)
        returned = update(requires_grad=True)
        refused = "  update refused" if returned is False else ""
        _say(f"call {call:3}  loss {sum(losses) / len(losses):.6f}{refused}")

    def _perturbed_pass(self, faults: list[Fault]) -> float:
        logits = self.model(self._batch.inputs) if self._logits is None else self._logits
        self._logits = None
        loss = self._reduce(self._loss(logits, self._target))
        inject(BEFORE_BACKWARD, faults, self)
        # The fault skip-backward: the loss is there, and nobody calls backward.
        if not any(fault.kind == "skip-backward" for fault in faults):
            (loss / self.table.accumulate).backward()  # type: ignore[no-untyped-call]
        return loss.item()

    def next_clean_pass(self) -> None:
        """Go on to the next batch, for the fault other-batch: delta is not made anew."""
        self._number += 1
        self._clean_pass()
        self._logits = None

    def _clean_pass(self) -> None:
        self._batch = self.batches(self._number)
        with torch.set_grad_enabled(self.table.clean_gradients):
            logits = self.model(self._batch.inputs)
        labels = self._batch.labels if self.table.against == "labels" else None
        self._target = logits.detach() if labels is None else labels

    def _train(self) -> None:
        """Train the model on the perturbed batch."""
        if self._optimizer is None:
            return
        self._thaw()
        self._optimizer.zero_grad()
        self._loss(self.model(self._batch.inputs), self._target).mean().backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()

    def _thaw(self) -> None:
        for parameter, flag in zip(self.model.parameters(), self._flags, strict=True):
            parameter.requires_grad_(flag)

    def _reduce(self, losses: Tensor) -> Tensor:
        return losses.sum() if self.table.reduction == "sum" else losses.mean()


class Learning:
    """For each batch a clean pass, the learner's loss, a backward and a step of the optimizer."""

    def __init__(self, scenario: Scenario, built: Built) -> None:
        """Prepare; nothing is run yet."""
        self._model, self._layer, self._batches = built.model, built.layer, built.batches
        self._loss = scenario.loop.loss
        self._learner = AdversarialLearner(built.model, [built.layer])
        self._optimizer = _optimizer(scenario, built.model)

    def run(self, calls: int) -> None:
        """Make this many update calls: two a batch; of an odd number the last is a creation."""
        for number in range(calls // 2):
            self._train(number)
        if calls % 2:
            self._model(self._batches(calls // 2).inputs)
            self._layer.adversarial_(True)  # type: ignore[operator]
            self._model(self._batches(calls // 2).inputs)
            self._layer.adversarial_(False)  # type: ignore[operator]

    def _train(self, number: int) -> None:
        batch = self._batches(number)
        logits = self._model(batch.inputs)
        adversarial = self._learner.loss(logits, _logits, self._loss, batch.inputs)
        task = torch.zeros(()) if batch.labels is None else ce(logits, batch.labels).mean()
        (task + adversarial).backward()  # type: ignore[no-untyped-call]
        if self._optimizer is not None:
            self._optimizer.step()
        self._model.zero_grad()
        _say(f"batch {number + 1:3}  task {task.item():.6f}  adversarial {adversarial.item():.6f}")


def _logits(model: nn.Module, inputs: Tensor) -> Tensor:
    logits: Tensor = model(inputs)
    return logits


def _optimizer(scenario: Scenario, model: nn.Module) -> torch.optim.Optimizer | None:
    table = scenario.loop.optimizer
    if table is None:
        return None
    kinds: dict[str, Any] = {
        "sgd": torch.optim.SGD,
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
    }
    optimizer: torch.optim.Optimizer = kinds[table.kind](model.parameters(), lr=table.learning_rate)
    return optimizer


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - what a training script prints
