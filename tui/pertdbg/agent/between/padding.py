"""Padding positions, as embeddings with a padding index are given them."""

from __future__ import annotations

from typing import Any

import torch

from pertdbg.agent.base import shape_of
from pertdbg.agent.between.samples import at_hand

_SHAPES = 16
"""Shapes of batches that are remembered."""


class Padding:
    """Where the newest batch of each shape is padded."""

    def __init__(self) -> None:
        self._masks: dict[tuple[int, ...], tuple[int, torch.Tensor | None]] = {}

    def seen(self, embedding: Any, ids: Any, at: int) -> None:
        """An embedding is given ids, at a place in the journal."""
        index = getattr(embedding, "__dict__", {}).get("padding_idx")
        if type(index) is not int or not at_hand(ids):
            return
        shape = tuple(shape_of(ids))
        mask = torch.eq(ids, index)
        self._masks.pop(shape, None)
        self._masks[shape] = at, mask if bool(mask.any()) else None
        if len(self._masks) > _SHAPES:
            del self._masks[next(iter(self._masks))]

    def perturbed(self, delta: Any, since: int) -> bool | None:
        """Say whether delta is non-zero where the batch is padded; None where none is known.

        Args:
            delta: The tensor.
            since: Place in the journal from which on the batch must have been seen.
        """
        if not at_hand(delta):
            return None
        at, mask = self._masks.get(tuple(shape_of(delta))[:-1], (0, None))
        if mask is None or at < since:
            return None
        return bool(torch.count_nonzero(delta.detach()[mask]))
