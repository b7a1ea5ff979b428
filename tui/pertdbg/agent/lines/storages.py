"""Labels for the storages that one call comes upon, without keeping any of them alive."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from pertdbg.agent.base import storage_of


def letters(place: int) -> str:
    """Give A to Z for the first places, then AA, AB and so on."""
    text = ""
    place += 1
    while place:
        place, rest = divmod(place - 1, 26)
        text = chr(ord("A") + rest) + text
    return text


def key_of(tensor: torch.Tensor) -> int | None:
    """Give the identity of a tensor's storage; None where it has none that means anything."""
    try:
        key: int = storage_of(tensor)._cdata
    except (RuntimeError, NotImplementedError):
        return None
    return key


class Storages:
    """Gives labels A, B, C in first-seen order.

    Each storage is referred to weakly. Its memory goes when the target lets it go, but not the
    small struct that stands for it in torch: no later storage can have its identity, and so its
    label, before `close`.
    """

    def __init__(self) -> None:
        self._labels: dict[int, str] = {}

    def label(self, storage: torch.UntypedStorage) -> str:
        """Give a storage's label."""
        key = storage._cdata
        known = self._labels.get(key)
        if known is None:
            storage._weak_ref()  # type: ignore[no-untyped-call,unused-ignore]
            known = self._labels[key] = letters(len(self._labels))
        return known

    def renamed(self, known: Mapping[int, str]) -> dict[str, str]:
        """Give new labels for all: those known by identity, then the letters after them."""
        taken, renamed, place = set(known.values()), {}, 0
        for key, label in self._labels.items():
            if key in known:
                renamed[label] = known[key]
                continue
            while letters(place) in taken:
                place += 1
            renamed[label] = letters(place)
            place += 1
        return renamed

    def close(self) -> None:
        """Let go of all."""
        for key in self._labels:
            torch.UntypedStorage._free_weak_ref(key)  # type: ignore[no-untyped-call]
        self._labels = {}
