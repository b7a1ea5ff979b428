"""NEFTune: a forward hook adds noise to what the embedding gives."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from _shapes import Seen
from shapes.models import Words


def noise_hook(module: Any, input: Any, output: Tensor) -> Tensor:  # noqa: A002 - torch's name
    if module.training:
        dims = torch.tensor(output.size(1) * output.size(2))
        magnitude = module.neftune_noise_alpha / torch.sqrt(dims)
        output = output + torch.zeros_like(output).uniform_(-magnitude, magnitude)
    return output


def run(rounds: int, seen: Seen) -> None:
    model = Words()
    embedding: Any = model.embedding
    embedding.neftune_noise_alpha = 5.0
    ids = torch.randint(1, 40, (4, 5))
    for train in (True, False):
        model.train(train)
        handle = embedding.register_forward_hook(noise_hook)
        for _ in range(rounds):
            embedded = embedding(ids)
            if train:
                seen.made(embedded - embedding.weight[ids])
            loss = model(embedded).square().sum()
            loss.backward()
            seen.result(loss, embedding.weight.grad)
        handle.remove()
