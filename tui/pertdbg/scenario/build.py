"""Making what a scenario describes: layer, model and data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from pertdbg.errors import PertdbgError
from pertdbg.scenario.data import Batches, batches
from pertdbg.scenario.model import REFERENCES, Scenario
from pertdbg.scenario.models import Encoder, Perceptron
from pertdbg.scenario.python import call, find_object

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Built:
    """The live parts of a scenario."""

    layer: nn.Module
    model: nn.Module
    batches: Batches


def silent(text: str) -> None:
    """Report no progress."""


def build(scenario: Scenario, progress: Progress = silent) -> Built:
    """Make layer, model and data. The global random state is seeded.

    Raises:
        PertdbgError: Python that the scenario names is not there or fails, or data does not fit.
    """
    _device(scenario)
    progress("reading the input")
    data = batches(scenario)
    progress("building the model")
    torch.manual_seed(scenario.seed)
    layer = _layer(scenario)
    model = _model(scenario, layer, data)
    dtype: torch.dtype = getattr(torch, scenario.model.dtype)
    return Built(layer, model.to(device=scenario.input.device, dtype=dtype), data)


def layer_class(scenario: Scenario) -> type[nn.Module]:
    """Import the class of the scenario's layer.

    Raises:
        PertdbgError: It is not there, is no module, or lacks a method that the loop calls.
    """
    place, key = scenario.layer.class_, f"{scenario.path}: layer.class"
    found = find_object(place, scenario.path.parent, key)
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise PertdbgError(f"{key}: {place} is not a class of modules (torch.nn.Module)")
    for method in ("adversarial_", scenario.layer.observed.method):
        if not callable(getattr(found, method, None)):
            raise PertdbgError(f"{key}: {place} has no method {method!r}, which the loop calls")
    return found


def _layer(scenario: Scenario) -> nn.Module:
    arguments = dict(scenario.layer.arguments)
    if scenario.layer.class_ in REFERENCES:
        arguments.setdefault("hidden_size", scenario.model.width)
    key, place = f"{scenario.path}: layer.arguments", scenario.layer.class_
    layer: nn.Module = call(layer_class(scenario), place, key, **arguments)
    return layer


def _model(scenario: Scenario, layer: nn.Module, data: Batches) -> nn.Module:
    table = scenario.model
    if table.build is None:
        return _built_in(scenario, layer, data)
    key = f"{scenario.path}: model.build"
    function = find_object(table.build, scenario.path.parent, key)
    model = call(function, table.build, key, layer, **table.arguments)
    if not isinstance(model, nn.Module):
        kind = type(model).__name__
        raise PertdbgError(f"{key}: {table.build} returned a {kind}, not a torch.nn.Module")
    return model


def _built_in(scenario: Scenario, layer: nn.Module, data: Batches) -> nn.Module:
    example = data(0).inputs
    if scenario.model.kind == "perceptron":
        if not example.is_floating_point():
            raise PertdbgError(f"{scenario.path}: model.kind: a perceptron takes no tokens")
        return Perceptron(layer, scenario.model, example)
    if example.dim() != 2 + example.is_floating_point():
        raise PertdbgError(
            f"{scenario.path}: model.kind: an encoder takes batches of rows of tokens or of "
            f"vectors; a batch here has the shape {list(example.shape)}"
        )
    return Encoder(layer, scenario.model, example)


def _device(scenario: Scenario) -> None:
    name = scenario.input.device
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:  # a build without CUDA asserts
        text = str(error).splitlines()[0]
        raise PertdbgError(f"{scenario.path}: input.device: no {name} here: {text}") from error
