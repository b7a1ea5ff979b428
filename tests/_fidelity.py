"""Runs scenarios, observed by the agent or not, and says bit for bit what the target came to.

``python _fidelity.py observed|lines|plain SCENARIO:CALLS...`` prints one JSON object: for each
scenario a list of digests, one a call and one at the end. A witness of our own stands in the
layer's class in all kinds of run, below the agent.
"""

from __future__ import annotations

import gc
import hashlib
import json
import sys
import tempfile
import traceback
import weakref
from pathlib import Path
from typing import Any

import torch

from pertdbg.agent.config import Config
from pertdbg.agent.run import Run
from pertdbg.scenario.library import find
from pertdbg.scenario.run import Prepared, prepare


def bits(tensor: torch.Tensor | None) -> Any:
    """Values to the bit, version, flags and grad_fn of a tensor."""
    if tensor is None:
        return None
    raw = tensor.detach().contiguous().view(torch.uint8).numpy().tobytes()
    return (
        hashlib.sha256(raw).hexdigest()[:16],
        str(tensor.dtype),
        tuple(tensor.shape),
        tensor._version,
        tensor.is_leaf,
        tensor.requires_grad,
        None if tensor.grad_fn is None else tensor.grad_fn.name(),
    )


class Witness:
    """Digests the state of layer, model and RNG after each update call."""

    def __init__(self, prepared: Prepared) -> None:
        self.prepared = prepared
        self.digests: list[Any] = []
        self.references: list[weakref.ref[torch.Tensor]] = []
        self.adapter = prepared.adapter
        self.original = getattr(prepared.layer_class, self.adapter.method)

    def install(self) -> None:
        witness, original = self, self.original

        def update(layer: Any, *args: Any, **kwargs: Any) -> Any:
            entry = witness.look(layer)
            try:
                result = original(layer, *args, **kwargs)
            except BaseException as error:
                witness.digests.append([entry, type(error).__name__, str(error)])
                raise
            witness.digests.append([entry, repr(result), witness.look(layer)])
            return result

        update.__name__, update.__qualname__ = original.__name__, original.__qualname__
        setattr(self.prepared.layer_class, self.adapter.method, update)

    def remove(self) -> None:
        setattr(self.prepared.layer_class, self.adapter.method, self.original)

    def look(self, layer: Any) -> Any:
        names = (self.adapter.delta, self.adapter.input, self.adapter.perturbed_input)
        tensors = [getattr(layer, name, None) for name in names]
        delta = tensors[0]
        if delta is not None and delta.is_leaf:
            tensors.append(delta.grad)
        self.references += [weakref.ref(t) for t in tensors if t is not None]
        parameters = list(self.prepared.built.model.parameters())
        return [
            [bits(tensor) for tensor in tensors],
            [(bits(p), bits(p.grad)) for p in parameters],
            hashlib.sha256(torch.get_rng_state().numpy().tobytes()).hexdigest()[:16],
            torch.is_grad_enabled(),
        ]

    def alive(self) -> int:
        """Tensors that were seen and still live, with nothing but reference counts to free them."""
        return len({id(t) for r in self.references if (t := r()) is not None})


def run_one(name: str, steps: int, mode: str, folder: Path) -> list[Any]:
    prepared = prepare(find(name), steps)
    witness = Witness(prepared)
    witness.install()
    agent = None
    if mode != "plain":
        path = str(folder / f"{name}.pertdbg")
        agent = Run(Config(recording=path, scenario="", lines=mode == "lines"))
        agent.ready(torch.__version__)
        agent.flow.install()
        agent.watch(prepared.layer_class, prepared.adapter)
    gc.disable()
    try:
        prepared.run()
        ended: Any = "ended"
    except Exception as error:  # noqa: BLE001 - whatever ends a run is compared
        frames = traceback.extract_tb(error.__traceback__)
        ended = [type(error).__name__, str(error), [(f.name, f.lineno) for f in frames]]
        error.__traceback__ = None
    ended = [ended, ["alive", witness.alive()]]
    gc.enable()
    if agent is not None:
        agent.end(0, "")
        agent.remove()
    witness.remove()
    return [*witness.digests, ended]


def main() -> None:
    mode, *wanted = sys.argv[1:]
    calls = dict(each.split(":") for each in wanted)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        sink = sys.stdout
        sys.stdout = sys.stderr
        runs = {name: run_one(name, int(n), mode, Path(folder)) for name, n in calls.items()}
        sys.stdout = sink
    print(json.dumps(runs))


if __name__ == "__main__":
    main()
