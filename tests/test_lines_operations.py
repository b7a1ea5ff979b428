"""What an operation and a line did: facts known from torch's own definition, and their words."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
import torch

from _lines import Layer, lines_of, recorded
from pertdbg.event import from_json, to_json


class Chain(Layer):
    def update(self) -> bool:
        self.delta = self.delta + 0
        self.delta = self.delta.float().detach().requires_grad_()
        self.perturbed = self.input.detach() + self.delta
        return True


def test_each_operation_of_a_line_stands_apart_with_what_it_did() -> None:
    (inside,) = recorded(Chain, lambda: Chain().update())
    operations = lines_of(inside)["self.delta = self.delta.float().detach().requires_grad_()"]
    cast, cut, leaf = operations.operations
    assert [cast.op, cut.op, leaf.op] == ["float", "detach", "requires_grad_"]
    assert cast.same_tensor
    assert not cast.in_place
    assert cast.says == "float: already float32, nothing done, same tensor"
    assert cut.input is not None
    assert cut.output is not None
    assert (cut.same_tensor, cut.same_storage) == (False, True)
    assert (cut.input.grad_fn, cut.output.grad_fn) == ("AddBackward0", None)
    label = cut.output.storage
    assert cut.says == (
        f"detach: same storage {label}, grad_fn AddBackward0 gone, requires_grad off"
    )
    assert leaf.same_tensor
    assert leaf.in_place
    assert leaf.says == "requires_grad_: requires_grad on"
    assert leaf.output is not None
    assert math.isclose(leaf.output.norm or 0, 0.25 * math.sqrt(24))
    assert leaf.output.max_abs == 0.25


class Clamped(Layer):
    def update(self) -> bool:
        values = torch.arange(24.0).view(2, 3, 4)
        values.clamp_(max=20)
        self.delta = values.clamp(2.5, 19.5)
        return True


def test_a_clamp_counts_what_it_moved_in_place_and_not() -> None:
    (inside,) = recorded(Clamped, lambda: Clamped().update())
    (wrote,) = lines_of(inside)["values.clamp_(max=20)"].operations
    assert (wrote.in_place, wrote.elements, wrote.changed) == (True, 24, 3)
    assert wrote.input is not None
    assert wrote.output is not None
    assert (wrote.input.version, wrote.output.version) == (0, 1)
    assert (wrote.input.max_abs, wrote.output.max_abs) == (23, 20)
    assert wrote.says.endswith("version 0 to 1, 3 of 24 values moved to the bound")
    (moved,) = lines_of(inside)["self.delta = values.clamp(2.5, 19.5)"].operations
    assert (moved.in_place, moved.changed) == (False, 3 + 4)  # 0, 1, 2 and four of 20
    assert moved.says.endswith("7 of 24 values moved to the bound")


class Halved(Layer):
    def update(self) -> bool:
        small = torch.tensor([1.0, 1.0 + 2.0**-20, 2.0, 3.0 + 2.0**-18])
        other = torch.tensor([1.0, 1.0, 2.5, 3.0], dtype=torch.bfloat16)
        cast = small.to(other)
        self.delta = cast.double()
        return True


def test_a_cast_counts_what_was_rounded_and_what_became_the_other_tensors() -> None:
    (inside,) = recorded(Halved, lambda: Halved().update())
    (cast,) = lines_of(inside)["cast = small.to(other)"].operations
    assert (cast.elements, cast.changed, cast.equal) == (4, 2, 3)
    assert "float32 to bfloat16" in cast.says
    assert "50 % of elements rounded, 75 % to what the other tensor holds there" in cast.says
    (back,) = lines_of(inside)["self.delta = cast.double()"].operations
    assert back.changed == 0
    assert "bfloat16 to float64, no element rounded" in back.says


class Modes(Layer):
    def update(self) -> bool:
        with torch.no_grad():
            step = self.delta * 2
        with torch.inference_mode():
            seen = self.input * 1
        del step
        self.delta.grad = None
        self.delta.data = self.delta.data + 1
        self.delta.requires_grad_(True)
        return bool((seen > 100).any())


def drive_modes() -> None:
    layer = Modes()
    layer.delta.sum().backward()
    layer.update()


def test_modes_gradients_data_and_values_that_python_reads_are_seen() -> None:
    (inside,) = recorded(Modes, drive_modes)
    lines = lines_of(inside)
    first, *_ = inside.events
    assert (first.gradients_before, first.gradients) == ("on", "off")
    assert first.says == "operations are not recorded for a backward from here"
    assert lines["step = self.delta * 2"].gradients == "off"
    (product,) = lines["step = self.delta * 2"].operations
    assert product.says.endswith("not recorded for a backward")
    seen = lines["seen = self.input * 1"]
    assert seen.gradients == "inference"
    assert seen.tensors["seen"].version is None
    assert ("tensors.seen.version", "inference") in [(u.field, u.reason) for u in seen.unknown]
    assert lines["del step"].gone == ("step",)
    (cleared,) = lines["self.delta.grad = None"].operations
    assert cleared.says == ".grad =: .grad gone"
    assert cleared.input is not None
    assert cleared.output is not None
    assert (cleared.input.has_grad, cleared.output.has_grad) == (True, False)
    *_, replaced = lines["self.delta.data = self.delta.data + 1"].operations
    assert (replaced.same_tensor, replaced.same_storage) == (True, False)
    assert (replaced.changed, replaced.elements) == (24, 24)
    assert lines["self.delta.data = self.delta.data + 1"].tensors.keys() == {"self.delta"}
    (unchanged,) = lines["self.delta.requires_grad_(True)"].operations
    assert unchanged.says == "requires_grad_: same tensor, requires_grad stays on"
    *_, read = lines["return bool((seen > 100).any())"].operations
    assert (read.op, read.value, read.says) == ("bool", False, "bool: False")


class Sharing(Layer):
    def update(self) -> bool:
        view = self.input[0]
        same = self.input
        view.mul_(2)
        copy = view.clone()
        self.perturbed = copy
        del same
        return True


def test_a_line_says_what_shares_a_storage_and_what_is_the_same_tensor() -> None:
    (inside,) = recorded(Sharing, lambda: Sharing().update())
    lines = lines_of(inside)
    assert lines["view = self.input[0]"].shared == (("view", "self.input"),)
    assert lines["view = self.input[0]"].tensors["view"].shares == ("self.input",)
    assert lines["same = self.input"].tensors["same"].same == ("self.input",)
    assert lines["same = self.input"].says == "same is the same tensor as self.input"
    wrote = lines["view.mul_(2)"]
    assert wrote.tensors.keys() == {"view", "same", "self.input"}  # one storage, one counter
    assert wrote.made == ()
    assert {t.version for t in wrote.tensors.values()} == {1}
    assert lines["copy = view.clone()"].shared == ()
    assert lines["self.perturbed = copy"].shared == (("copy", "self.perturbed"),)
    labels = {
        e.tensors[n].storage for e in inside.events for n in ("view", "copy") if n in e.tensors
    }
    assert len(labels) == 2


class Given(Layer):
    def update(self) -> bool:
        once = twice = self.delta.detach().clone()
        once.add_(1)
        torch.add(once, 1, out=self.input)
        torch.mul(once, twice, out=self.input)
        self.delta.sum().backward()
        return True


def test_a_name_of_a_tensor_that_was_told_is_not_told_again_and_out_is_no_new_storage() -> None:
    (inside,) = recorded(Given, lambda: Given().update())
    lines = lines_of(inside)
    made = lines["once = twice = self.delta.detach().clone()"].says.split("; ")
    first, second = ("once", "twice") if made[0].startswith("once") else ("twice", "once")
    assert made[0].startswith(f"{first} is a tensor without gradient float32[2, 3, 4] in storage ")
    assert made[1] == f"{second} is the same tensor as {first}"
    changed = lines["once.add_(1)"].says.split("; ")
    assert changed[1] == f"{second} changed with {first}, the same tensor"
    (product,) = lines["torch.mul(once, twice, out=self.input)"].operations
    assert product.output is not None
    assert product.output.max_abs == 1.25**2
    assert (product.in_place, product.changed) == (True, None)
    label = product.output.storage
    assert product.says == f"mul: written to a tensor that it was given in storage {label}"
    back = lines["self.delta.sum().backward()"]
    assert back.operations[-1].says == "backward: ran through the graph behind SumBackward0"
    assert back.says.startswith("self.delta changed: .grad there, a leaf that a backward fills ")


def helper(tensor: torch.Tensor) -> torch.Tensor:
    once = tensor + 1
    return once * 2


def parts(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    yield from (tensor[0] + 1, tensor[1] + 1)


class Calling(Layer):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def update(self) -> bool:
        self.perturbed = self.linear(helper(self.input).relu())
        pairs = [each * 2 for each in self.input]
        helped = [helper(each) for each in self.input]
        for part in parts(self.input):
            half = part / 2
        return len(pairs) == len(helped) == len(half)


def test_functions_and_modules_are_stepped_over_and_comprehensions_are_not() -> None:
    (inside,) = recorded(Calling, lambda: Calling().update())
    call = lines_of(inside)["self.perturbed = self.linear(helper(self.input).relu())"]
    assert call.over == ("helper", "Linear")
    assert [each.op for each in call.operations] == ["relu"]
    assert call.says.endswith("stepped over helper, Linear")
    loop = lines_of(inside)["pairs = [each * 2 for each in self.input]"]
    assert [each.op for each in loop.operations].count("mul") == 2
    helped = lines_of(inside)["helped = [helper(each) for each in self.input]"]
    assert helped.over == ("helper", "helper")
    assert {each.op for each in helped.operations} <= {"[]", "iter", "unbind"}
    assert helped.says.endswith("stepped over helper 2 times")
    halves = [event for event in inside.events if event.source == "half = part / 2"]
    assert [[each.op for each in event.operations] for event in halves] == [["div"], ["div"]]
    steps = [event.over for event in inside.events if event.source.startswith("for part")]
    assert steps == [("parts",)] * 3


class Raising(Layer):
    def update(self) -> bool:
        try:
            self.input.view(7)
        except RuntimeError:
            self.perturbed = None
        raise ValueError("as planned")


def drive_raising() -> None:
    with pytest.raises(ValueError, match="as planned"):
        Raising().update()


def test_a_line_and_an_operation_that_raise_say_so() -> None:
    (inside,) = recorded(Raising, drive_raising)
    lines = lines_of(inside)
    failed = lines["self.input.view(7)"]
    assert failed.raised == "RuntimeError"
    assert failed.says == "left by RuntimeError"
    assert [each.says for each in failed.operations] == ["view: raised RuntimeError"]
    assert lines["except RuntimeError:"].raised is None
    assert inside.events[-1].raised == "ValueError"


def test_flags_are_there_and_numbers_are_not_where_only_the_core_is_recorded() -> None:
    (inside,) = recorded(Chain, lambda: Chain().update(), facts="core")
    event = lines_of(inside)["self.perturbed = self.input.detach() + self.delta"]
    assert event.tensors["self.perturbed"].grad_fn == "AddBackward0"
    assert event.tensors["self.perturbed"].norm is None
    assert "not in --facts core" in {unknown.reason for unknown in event.unknown}


@pytest.mark.parametrize("cls", [Chain, Clamped, Halved, Sharing, Calling])
def test_an_event_is_the_same_after_json(cls: type[Layer]) -> None:
    (inside,) = recorded(cls, lambda: cls().update())  # type: ignore[attr-defined]
    assert inside.events
    assert [from_json(to_json(event)) for event in inside.events] == list(inside.events)
