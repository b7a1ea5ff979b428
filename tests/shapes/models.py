"""Small models for the loops."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Words(nn.Module):
    """An embedding and a head that takes embedded words."""

    def __init__(self, width: int = 12, topics: int = 3) -> None:
        super().__init__()
        self.embedding = nn.Embedding(40, width)
        self.head = nn.Sequential(nn.Linear(width, 16), nn.Tanh(), nn.Linear(16, topics))

    def forward(self, embedded: Tensor) -> Tensor:
        out: Tensor = self.head(embedded.mean(1))
        return out


def pictures(seed: int = 0) -> tuple[nn.Module, Tensor, Tensor]:
    """Give a classifier of small pictures in [0, 1], a batch and its labels."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 24), nn.ReLU(), nn.Linear(24, 4))
    return model.eval(), torch.rand(5, 1, 6, 6) * 0.6 + 0.2, torch.randint(0, 4, (5,))
