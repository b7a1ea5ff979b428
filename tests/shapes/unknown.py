"""A loop that nobody described: odd names, a delta made anew in each turn of one flat loop."""

from __future__ import annotations

import torch
from torch.nn import functional

from _shapes import Seen
from shapes.models import pictures


def harden(rounds: int, seen: Seen) -> None:
    model, images, labels = pictures()
    seen.watch(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    ceiling = 0.04
    for _ in range(rounds):
        wobble = torch.zeros_like(images)
        for channel in range(1):
            wobble[:, channel].uniform_(-ceiling, ceiling)
        seen.made(wobble)
        wobble.requires_grad_()
        functional.cross_entropy(model(images + wobble), labels).backward()  # type: ignore[no-untyped-call]
        slope = wobble.grad
        assert slope is not None
        wobble.data = torch.clamp(wobble + 0.03 * slope.sign(), -ceiling, ceiling)
        seen.moved(wobble, slope)
        optimizer.zero_grad()
        functional.cross_entropy(model(images + wobble.detach()), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        seen.result(wobble, *model.parameters())


def run(rounds: int, seen: Seen) -> None:
    harden(rounds, seen)
