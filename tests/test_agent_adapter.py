"""Reading a layer through an adapter: nothing of the layer's code runs."""

from __future__ import annotations

import pytest
import torch

from pertdbg.agent.adapter import SIFT, Absent, Missing, number, stored
from pertdbg.layer import PerturbationLayer


class Odd(torch.nn.Module):
    shared = 3

    def __init__(self) -> None:
        super().__init__()
        self.scale = 2.5
        self.flag = True
        self.inner = torch.nn.Linear(2, 2)
        self.weight = torch.nn.Parameter(torch.ones(2))
        self.register_buffer("mask", torch.zeros(2))
        self.ran = 0

    @property
    def computed(self) -> float:
        self.ran += 1
        return 1.0


class Slotted:
    __slots__ = ("empty", "full")

    def __init__(self) -> None:
        self.full = 7.0


def test_attributes_parameters_buffers_submodules_slots_and_class_attributes_are_found() -> None:
    layer = Odd()
    assert stored(layer, "scale") == 2.5
    assert stored(layer, "weight") is layer.weight
    assert stored(layer, "mask") is layer.mask
    assert stored(layer, "inner") is layer.inner
    assert stored(layer, "shared") == 3
    assert stored(Slotted(), "full") == 7.0


def test_a_property_is_refused_and_does_not_run() -> None:
    layer = Odd()
    with pytest.raises(Missing, match="'computed' is computed by a property"):
        stored(layer, "computed")
    assert layer.ran == 0


@pytest.mark.parametrize(("owner", "name"), [(Odd(), "nothing"), (Slotted(), "empty")])
def test_what_is_not_there_is_told_from_what_can_not_be_read(owner: object, name: str) -> None:
    with pytest.raises(Absent):
        stored(owner, name)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("2 * self.scale", 5.0),
        ("-self.scale + 1 / 4", -2.25),
        ("self.shared - 1e-3", 2.999),
        ("0.5", 0.5),
        (None, None),
    ],
)
def test_numbers_that_the_code_declares_are_computed(
    expression: str | None, value: float | None
) -> None:
    assert number(expression, Odd()) == value


@pytest.mark.parametrize(
    "expression",
    [
        "self.flag",
        "self.weight",
        "self.nothing",
        "self.computed",
        "scale",
        "__import__('os')",
        "self.scale ** 2",
        "self.scale if self.flag else 0",
        "self.scale / 0",
        "2 *",
    ],
)
def test_anything_else_is_refused_with_a_reason(expression: str) -> None:
    layer = Odd()
    with pytest.raises(Missing, match=r"\w"):
        number(expression, layer)
    assert layer.ran == 0


def test_the_reference_layer_declares_twice_its_init_perturbation() -> None:
    layer = PerturbationLayer(4, learning_rate=0.5, init_perturbation=0.03)
    assert number(SIFT.bound, layer) == 0.06
    assert number(SIFT.learning_rate, layer) == 0.5
