from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import nn

from _probe import Layer, observe
from pertdbg.agent.graph import walk
from pertdbg.agent.names import Names, layer_name
from pertdbg.record import GraphFacts, Reach


def test_a_leaf_has_no_graph_and_the_sum_of_input_and_delta_has_two_nodes() -> None:
    delta = torch.zeros(3, requires_grad=True)
    clean = torch.zeros(3)
    seen = observe(Layer(delta, clean, clean + delta))
    assert seen.graph.delta == GraphFacts(0, 0, complete=True)
    assert seen.graph.perturbed_input == GraphFacts(2, 2, complete=True)
    assert seen.backward_reaches == Reach(("delta",), complete=True)


def test_a_cast_is_a_node_more() -> None:
    delta = torch.zeros(3, requires_grad=True)
    clean = torch.zeros(3, dtype=torch.float16)
    seen = observe(Layer(delta, clean, (clean.float() + delta).half()))
    assert seen.graph.perturbed_input == GraphFacts(3, 3, complete=True)


def test_depth_is_the_longest_path_through_a_graph_with_branches() -> None:
    delta = torch.ones(3, requires_grad=True)
    long = delta.exp().exp().exp()
    # AccumulateGrad, three exp, and two additions; the short branch joins at both.
    facts = walk((long + delta) + delta).facts
    assert facts == GraphFacts(6, 6, complete=True)


def test_a_diamond_of_many_levels_is_walked_once() -> None:
    value = torch.ones(3, requires_grad=True)
    for _ in range(200):
        value = value + value  # 2**200 paths
    assert walk(value).facts == GraphFacts(201, 201, complete=True)


@pytest.mark.parametrize(("operations", "complete"), [(999, True), (1000, False), (5000, False)])
def test_a_walk_stops_at_a_thousand_nodes_and_says_so(operations: int, complete: bool) -> None:
    value = torch.ones(3, requires_grad=True)
    for _ in range(operations):
        value = value.exp()
    seen = observe(Layer(None, None, value))
    assert seen.graph.perturbed_input == GraphFacts(1000, 1000, complete)
    assert seen.backward_reaches.complete is complete


@pytest.fixture(autouse=True)
def _new_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin with a search of its own: searches that find nothing make later ones rare."""
    monkeypatch.setattr("pertdbg.agent.probe.names", Names())


def test_parameters_are_named_by_the_path_from_their_outermost_module() -> None:
    model = nn.Sequential(nn.Embedding(5, 3), nn.Sequential(nn.Linear(3, 3)))
    delta = torch.zeros(2, 3, requires_grad=True)
    arrived = model(torch.tensor([1, 2])) + delta
    seen = observe(Layer(delta, torch.zeros(2, 3), arrived))
    assert seen.backward_reaches.perturbed_input == ("delta", "0.weight", "1.0.bias", "1.0.weight")


def test_other_leaves_are_named_by_role_or_described() -> None:
    delta, clean, other = (torch.zeros(4, 16, requires_grad=True) for _ in range(3))
    seen = observe(Layer(delta, clean, clean + other + delta))
    assert seen.backward_reaches.perturbed_input == ("delta", "input", "leaf float32[4, 16]")


def test_a_perturbed_input_that_is_a_leaf_reaches_itself() -> None:
    leaf = torch.zeros(3, requires_grad=True)
    assert observe(Layer(None, None, leaf)).backward_reaches.perturbed_input == ("perturbed_input",)
    assert observe(Layer(leaf, None, leaf)).backward_reaches.perturbed_input == ("delta",)
    assert observe(Layer(None, None, leaf.detach())).backward_reaches.perturbed_input == ()


def test_the_delta_of_entry_is_told_from_the_one_at_exit() -> None:
    delta = torch.zeros(3, requires_grad=True)

    def update(layer: Layer) -> None:
        layer.delta = torch.ones(3, requires_grad=True)

    seen = observe(Layer(delta, torch.zeros(3), delta * 2), update)
    assert seen.backward_reaches.perturbed_input == ("before.delta",)


class Block(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner


def test_a_layer_is_named_by_its_path_or_by_its_class_when_it_is_alone() -> None:
    layer, alone = Block(nn.Linear(2, 2)), Block(nn.Linear(2, 2))
    model = nn.Sequential(nn.Linear(1, 1), Block(layer))
    assert layer_name(layer) == "1.inner"
    assert layer_name(alone) == "Block"
    assert layer_name(model) == "Sequential"
    assert layer_name(object()) == "object"


def test_of_several_paths_the_longest_is_kept() -> None:
    shared = nn.Linear(2, 2)
    short, long = Block(shared), nn.Sequential(Block(Block(shared)))
    assert layer_name(shared) == "0.inner.inner"
    assert isinstance(short, Block)
    assert isinstance(long, nn.Sequential)


def test_names_keep_no_module_and_no_tensor_alive() -> None:
    gc.collect()
    gc.disable()
    try:
        names, inner = Names(), nn.Linear(2, 2)
        model = nn.Sequential(inner)
        assert names.layer(inner) == "0"
        assert names.parameter(inner.weight) == "0.weight"
        stranger = torch.zeros(2, requires_grad=True)
        names.parameter(stranger)
        references = [weakref.ref(each) for each in (inner, inner.weight, stranger)]
        del model, inner, stranger
        assert [reference() for reference in references] == [None] * 3
    finally:
        gc.enable()


def test_a_loop_that_makes_new_leaves_does_not_search_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from pertdbg.agent import names

    searches = []
    original = names._live_modules

    def counted() -> list[nn.Module]:
        searches.append(1)
        return original()

    monkeypatch.setattr(names, "_live_modules", counted)
    subject = names.Names()
    for _ in range(300):
        assert subject.parameter(torch.zeros(2)) == "leaf float32[2]"
    assert len(searches) < 15


def test_foreign_objects_are_not_asked_during_a_search() -> None:
    class Proxy:
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(f"asked for {name}")

    proxies = [Proxy() for _ in range(3)]
    Names().layer(nn.Linear(1, 1))
    assert len(proxies) == 3
