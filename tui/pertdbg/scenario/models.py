"""The models that are built in."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pertdbg.scenario.model import ModelTable


class Encoder(nn.Module):
    """Embedding and position, the perturbation layer, a transformer encoder and a head."""

    def __init__(self, layer: nn.Module, table: ModelTable, example: Tensor) -> None:
        """Build for inputs like the example: tokens, or rows of numbers."""
        super().__init__()
        self.pooled = table.head == "pooled"
        self.embedding: nn.Module = (
            nn.Linear(example.shape[-1], table.width)
            if example.is_floating_point()
            else nn.Embedding(table.vocabulary, table.width)
        )
        self.position = nn.Parameter(torch.randn(example.shape[1], table.width))
        self.perturbation = layer
        block = nn.TransformerEncoderLayer(
            table.width, table.heads, 4 * table.width, dropout=0.0, batch_first=True
        )
        self.encoder = nn.TransformerEncoder(block, table.layers, enable_nested_tensor=False)
        self.head = nn.Linear(table.width, table.outputs)

    def forward(self, batch: Tensor) -> Tensor:
        """Give the logits."""
        hidden = self.embedding(batch) + self.position
        hidden = self.encoder(self.perturbation(hidden))
        if self.pooled:
            hidden = hidden.mean(1)
        logits: Tensor = self.head(hidden)
        return logits


class Perceptron(nn.Sequential):
    """A linear layer, the perturbation layer, tanh and another linear layer."""

    def __init__(self, layer: nn.Module, table: ModelTable, example: Tensor) -> None:
        """Build for inputs like the example."""
        super().__init__(
            nn.Linear(example.shape[-1], table.width),
            layer,
            nn.Tanh(),
            nn.Linear(table.width, table.outputs),
        )
