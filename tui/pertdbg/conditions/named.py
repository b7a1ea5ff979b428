"""Conditions for the usual cases, by short names."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Named:
    """A condition with a name."""

    name: str
    text: str
    """The expression that it stands for."""
    about: str
    """What it means, in words."""


_SHARED = "shares(delta, input) or shares(delta, perturbed_input) or shares(input, perturbed_input)"

_ALL = (
    Named("created", "update.created", "the call made a new delta"),
    Named("refused", "update.returned is False", "the update returned False"),
    Named("raised", "update.raised is not None", "an exception left the update"),
    Named("nan-gradient", "gradient.nan > 0", "the gradient holds NaN"),
    Named("inf-gradient", "gradient.inf > 0", "the gradient holds infinite values"),
    Named("zero-gradient", "gradient.max_abs == 0", "every element of the gradient is zero"),
    Named(
        "no-gradient",
        "not update.created and not gradient.present",
        "an update found no gradient in delta",
    ),
    Named("nan-delta", "delta.nan > 0", "delta holds NaN"),
    Named("inf-delta", "delta.inf > 0", "delta holds infinite values"),
    Named("leaf-lost", "tensors.after.delta.is_leaf is False", "delta is no leaf after the call"),
    Named(
        "flag-off",
        "tensors.after.delta.requires_grad is False",
        "delta does not require a gradient after the call",
    ),
    Named("shared", _SHARED, "delta, input and perturbed input share storage"),
    Named("out-of-bound", "delta.beyond > 0", "elements of delta lie beyond its bound"),
    Named("not-moved", "delta.moved_max == 0", "the update left delta as it was"),
    Named(
        "invisible",
        "effect.visible_fraction == 0",
        "the perturbed input equals the input in value",
    ),
    Named(
        "unreached",
        'backward_reaches.complete and "delta" not in backward_reaches.perturbed_input',
        "a backward from the perturbed input would not fill delta's gradient",
    ),
    Named("dtype-changed", "changed(tensors.after.delta.dtype)", "delta's dtype is another"),
    Named("shape-changed", "changed(tensors.after.delta.shape)", "delta's shape is another"),
)

NAMED = {named.name: named for named in _ALL}
"""The named conditions, in the order in which they are shown."""
