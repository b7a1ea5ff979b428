"""Copies of a call's tensors for the recording, where they were asked for (`--tensors`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pertdbg.agent.gradient import find_gradient
from pertdbg.agent.quiet import Notes, NotKnown, Quiet
from pertdbg.agent.tensorcopy import TensorCopy, copy_tensor
from pertdbg.record import DeltaFacts, GradientFacts, Unknown, UpdateFacts

Copies = dict[str, TensorCopy]


def copies(tensors: Mapping[str, object]) -> tuple[Copies, tuple[Unknown, ...]]:
    """Copy the tensors that can be copied, and say of the others why not."""
    copied: Copies = {}
    unknown = []
    for role, tensor in tensors.items():
        if tensor is None:
            continue
        try:
            copied[role] = copy_tensor(tensor)
        except NotKnown as error:
            unknown.append(Unknown(f"stored.{role}", error.reason))
    return copied, tuple(unknown)


def gradient_at_entry(delta: Any, given: Any) -> Any:
    """Give the gradient that the call finds: the one that its seam knows, else delta's own."""
    if given is not None:
        return given
    with Quiet():
        return find_gradient(delta, None, Notes())[0]


def at_fault(update: UpdateFacts, gradient: GradientFacts, delta: DeltaFacts) -> bool:
    """Say whether a call is one whose tensors a person is going to want."""
    if update.raised is not None or update.returned is False:
        return True
    return any((gradient.nan, gradient.inf, delta.nan, delta.inf))
