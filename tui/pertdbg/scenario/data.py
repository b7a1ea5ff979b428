"""The batches of a scenario, from a file, a function or random numbers."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from pertdbg.errors import PertdbgError
from pertdbg.scenario.model import InputTable, Scenario
from pertdbg.scenario.python import call, find_object
from pertdbg.scenario.seeds import stream


@dataclass(frozen=True)
class Batch:
    """What the model is given, and the labels where there are any."""

    inputs: Tensor
    labels: Tensor | None


Batches = Callable[[int], Batch]
"""Gives the batch of a number, from 0; after the last row of the data comes the first again."""


def batches(scenario: Scenario) -> Batches:
    """Read or prepare the data of a scenario.

    Raises:
        PertdbgError: The data can't be had, or does not fit the shape.
    """
    table = scenario.input
    dtype: torch.dtype = getattr(torch, table.dtype or scenario.model.dtype)
    if table.distribution is not None:
        return lambda number: Batch(_random(table, number, dtype).to(table.device), None)
    rows, labels = _rows(scenario)
    if rows.is_floating_point():
        rows = rows.to(dtype)
    size = _fit(rows, table)

    def batch(number: int) -> Batch:
        chosen = torch.arange(number * size, (number + 1) * size) % len(rows)
        targets = None if labels is None else labels[chosen].to(table.device)
        return Batch(rows[chosen].to(table.device), targets)

    return batch


def _random(table: InputTable, number: int, dtype: torch.dtype) -> Tensor:
    generator = torch.Generator().manual_seed(stream(f"batch {number}", table.seed))
    shape = table.shape or ()
    if table.distribution == "normal":
        return torch.randn(shape, generator=generator).mul(table.std).add(table.mean).to(dtype)
    if table.distribution == "uniform":
        spread = table.high - table.low
        return torch.rand(shape, generator=generator).mul(spread).add(table.low).to(dtype)
    return torch.randint(int(table.low), int(table.high), shape, generator=generator)


def _rows(scenario: Scenario) -> tuple[Tensor, Tensor | None]:
    table, folder = scenario.input, scenario.path.parent
    if table.build is not None:
        return _built(scenario, table.build)
    path = folder / (table.file or "")
    if path.suffix == ".txt":
        return _text(path, (table.shape or (1, 1))[-1], labelled=table.labels == "next")
    readers: dict[str, Callable[[Path], Tensor]] = {
        ".npy": _npy,
        ".csv": _csv,
        ".safetensors": lambda path: _safetensors(path, table.key),
    }
    try:
        return readers[path.suffix](path), None
    except PertdbgError:
        raise
    except Exception as error:  # readers of damaged files raise anything
        text = " ".join(str(error).split())
        raise PertdbgError(f"{path}: can't be read: {type(error).__name__}: {text}") from error


def _built(scenario: Scenario, place: str) -> tuple[Tensor, Tensor | None]:
    key = f"{scenario.path}: input.build"
    function = find_object(place, scenario.path.parent, key)
    made = call(function, place, key, **scenario.input.arguments)
    rows, labels = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    tensors = isinstance(rows, Tensor) and (labels is None or isinstance(labels, Tensor))
    if not tensors or (labels is not None and len(labels) != len(rows)):
        raise PertdbgError(f"{key}: {place} must return a tensor of rows, or rows and their labels")
    if scenario.loop.against == "labels" and labels is None:
        raise PertdbgError(f"{key}: {place} returns no labels, and loop.against needs them")
    return rows, labels


def _text(path: Path, length: int, *, labelled: bool) -> tuple[Tensor, Tensor | None]:
    """Cut a text into rows of bytes; the labels are the bytes that follow."""
    tokens = torch.tensor(list(path.read_bytes()), dtype=torch.int64)
    whole = (len(tokens) - 1) // length * length
    if whole <= 0:
        raise PertdbgError(f"{path}: has {len(tokens)} bytes; a row takes {length} and one more")
    rows = tokens[:whole].reshape(-1, length)
    return rows, tokens[1 : whole + 1].reshape(-1, length) if labelled else None


def _npy(path: Path) -> Tensor:
    import numpy as np

    array = np.load(path, allow_pickle=False)
    return torch.from_numpy(array)


def _csv(path: Path) -> Tensor:
    """Read numbers; a first line that holds none is a header."""
    with path.open(newline="", encoding="utf-8") as file:
        lines = [line for line in csv.reader(file) if line]
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append([float(cell) for cell in line])
        except ValueError as error:
            if number > 1:
                raise PertdbgError(f"{path}:{number}: {error}") from error
    if not rows or len({len(row) for row in rows}) != 1:
        raise PertdbgError(f"{path}: needs lines of numbers, all of one length")
    return torch.tensor(rows)


def _safetensors(path: Path, key: str | None) -> Tensor:
    from safetensors.torch import load_file

    tensors: dict[str, Tensor] = load_file(path)
    if key is None and len(tensors) == 1:
        return next(iter(tensors.values()))
    if key not in tensors:
        raise PertdbgError(f"{path}: input.key names one of {', '.join(sorted(tensors))}")
    return tensors[key]


def _fit(rows: Tensor, table: InputTable) -> int:
    if table.shape is None:
        return len(rows)
    size, *rest = table.shape
    if list(rows.shape[1:]) != rest or len(rows) < size:
        raise PertdbgError(
            f"the input is {len(rows)} rows of {list(rows.shape[1:])}; "
            f"input.shape asks for {size} rows of {rest} in a batch"
        )
    return size
