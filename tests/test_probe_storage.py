from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from _probe import Layer, observe, reasons, with_gradient


def test_labels_are_given_in_the_order_of_the_roles() -> None:
    delta = with_gradient(torch.zeros(3), torch.ones(3))
    layer = Layer(delta, torch.zeros(3), torch.zeros(3))
    old = layer.delta, layer.perturbed_input

    def update(layer: Layer) -> None:
        layer.delta, layer.perturbed_input = torch.ones(3), torch.ones(3)

    seen = observe(layer, update)
    assert {label: facts.holds for label, facts in seen.storages.items()} == {
        "A": ("input",),
        "B": ("delta",),
        "C": ("perturbed_input",),
        "D": ("before.delta",),
        "E": ("before.perturbed_input",),
        "F": ("gradient",),
    }
    assert seen.storages["D"].address == old[0].untyped_storage().data_ptr()
    assert seen.storages["A"].nbytes == 12
    assert seen.tensors.before.gradient.storage == "F"
    assert seen.tensors.before.delta.storage == "D"
    assert seen.tensors.after.delta.storage == "B"
    assert seen.shared == ()


def test_a_role_of_entry_that_lies_where_another_role_lies_at_exit_is_named_there() -> None:
    layer = Layer(torch.zeros(3), torch.zeros(3), torch.zeros(3))

    def update(layer: Layer) -> None:
        layer.input = layer.delta

    seen = observe(layer, update)
    assert seen.storages["A"].holds == ("input", "delta")
    assert seen.storages["C"].holds == ("before.input",)
    assert seen.shared == (("input", "delta"),)


@pytest.mark.parametrize(
    "alias",
    [
        lambda t: t,
        lambda t: t.view(2, 6),
        lambda t: t.detach(),
        lambda t: t.data,
        lambda t: t.float(),
        lambda t: t.t(),
        lambda t: t[2:],
        lambda t: t.expand(2, 3, 4),
        lambda t: t.view(torch.int32),
        lambda t: t.requires_grad_().view(-1),
    ],
)
def test_every_alias_is_found(alias: Callable[[torch.Tensor], torch.Tensor]) -> None:
    base = torch.zeros(3, 4)
    seen = observe(Layer(torch.zeros(3, 4), base, alias(base)))
    assert seen.shared == (("input", "perturbed_input"),)
    assert seen.storages["A"].holds == ("input", "perturbed_input")


def test_all_three_pairs_are_named_in_order() -> None:
    base = torch.zeros(3)
    assert observe(Layer(base, base, base)).shared == (
        ("input", "delta"),
        ("input", "perturbed_input"),
        ("delta", "perturbed_input"),
    )


def test_slices_that_do_not_overlap_share_a_storage_and_show_their_offsets() -> None:
    base = torch.zeros(8, 3)
    seen = observe(Layer(torch.zeros(3), base[:4], base[4:]))
    assert seen.shared == (("input", "perturbed_input"),)
    assert seen.tensors.after.input.storage_offset == 0
    assert seen.tensors.after.perturbed_input.storage_offset == 12


@pytest.mark.parametrize(
    ("device", "shape", "reason"), [("cpu", (0,), "empty"), ("meta", (3,), "meta")]
)
def test_tensors_without_memory_share_only_if_their_storage_is_one(
    device: str, shape: tuple[int, ...], reason: str
) -> None:
    a, b = torch.empty(shape, device=device), torch.empty(shape, device=device)
    apart, together = observe(Layer(None, a, b)), observe(Layer(None, a, a.view(shape)))
    assert apart.shared == ()
    assert together.shared == (("input", "perturbed_input"),)
    assert apart.storages["A"].address is None
    assert reasons(apart)["storages.A.address"] == reason
    assert reasons(apart)["tensors.after.input.data_ptr"] == reason


def test_a_gradient_that_lies_in_deltas_storage_is_named_there() -> None:
    memory = torch.zeros(6)
    delta = memory[:3].requires_grad_()
    delta.grad = memory[3:]
    seen = observe(Layer(delta, torch.zeros(3), torch.zeros(3)))
    assert seen.storages["B"].holds == ("delta", "gradient")


def test_new_memory_set_through_data_is_a_new_storage() -> None:
    layer = Layer(torch.zeros(3), torch.zeros(3), torch.zeros(3))

    def update(layer: Layer) -> None:
        layer.delta.data = torch.ones(3)

    seen = observe(layer, update)
    assert seen.storages["B"].holds == ("delta",)
    assert seen.storages["D"].holds == ("before.delta",)
    assert seen.delta.moved_max == 1.0


def test_a_thousand_calls_with_reused_addresses_never_name_a_false_pair() -> None:
    layer = Layer(torch.zeros(64), torch.zeros(64), torch.zeros(64))
    addresses = []

    def update(layer: Layer) -> None:
        layer.delta = None
        layer.delta = torch.ones(64)
        layer.perturbed_input = None
        layer.perturbed_input = layer.input + layer.delta

    for _ in range(1000):
        seen = observe(layer, update, facts="core")
        assert seen.shared == ()
        assert len(seen.storages) == 5
        addresses += [seen.storages[label].address for label in "BC"]
    assert len(set(addresses)) < 1000  # the allocator did reuse them
