"""The reference layer with each guard under a switch, written by hand, and a loop around it.

This is the independent side of the ablation's tests: nothing here looks at a source or rewrites
one. `SWITCHES` names the guards in the order in which they stand in the reference layer.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

SWITCHES = (
    *("first_float", "clamp", "clear", "check", "no_grad", "eps"),
    *("float", "detach", "requires_grad", "to_delta", "input_detach", "cast_back"),
)
WIDTH = 16
CALLS = 6


class Switched(nn.Module):
    """Takes the names of the guards that are missing."""

    input: Tensor
    perturbed: Tensor

    def __init__(self, off: Collection[str]) -> None:
        super().__init__()
        self.off = set(off)
        self.norm = nn.LayerNorm(WIDTH, eps=1e-7, elementwise_affine=False)
        self.adversarial = False
        self.delta: Any = None

    def forward(self, hidden: Tensor) -> Tensor:
        if not self.adversarial:
            self.input = self.norm(hidden)
            return self.input
        if self.delta is None:
            self.update()
        return self.perturbed

    def update(self) -> bool:
        on = {name: name not in self.off for name in SWITCHES}
        if self.delta is None:
            delta = torch.empty_like(self.input, requires_grad=False).normal_(0, 1e-2)
            delta = delta.float() if on["first_float"] else delta
            delta = delta.clamp(-2e-2, 2e-2) if on["clamp"] else delta
        else:
            grad = self.delta.grad
            if on["clear"]:
                self.delta.grad = None
            norm = grad.norm()
            if on["check"] and (torch.isnan(norm) or torch.isinf(norm)):
                return False
            with torch.set_grad_enabled(not on["no_grad"]):
                largest = grad.abs().max(-1, keepdim=True)[0]
                largest = 1e-6 + largest if on["eps"] else largest
                delta = self.delta + 1e-4 * grad / largest
        delta = delta.float() if on["float"] else delta
        delta = delta.detach() if on["detach"] else delta
        self.delta = delta.requires_grad_(True) if on["requires_grad"] else delta
        base = self.input.to(self.delta) if on["to_delta"] else self.input
        base = base.detach() if on["input_detach"] else base
        sum_ = base + self.delta
        self.perturbed = sum_.to(self.input) if on["cast_back"] else sum_
        return True


class Toy(nn.Module):
    """Embedding, layer, linear head."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, WIDTH)
        self.layer = layer
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        found: Tensor = self.head(self.layer(self.embedding(tokens)))
        return found


@dataclass
class Seen:
    """What the loop showed. Calls are counted as pertdbg does: the creation is call 1."""

    raised: tuple[str, str, int] | None = None
    leaf: list[bool] = field(default_factory=list)
    asked: list[bool] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)
    dtypes: list[tuple[torch.dtype, torch.dtype]] = field(default_factory=list)
    filled: list[set[str]] = field(default_factory=list)
    """Parameters, by backward, whose gradient appeared or changed."""
    bits: list[Any] = field(default_factory=list)


def run_by_hand(
    off: Collection[str], dtype: str, *, clean_gradients: bool, freeze: bool, nan_at: int = 0
) -> Seen:
    """Run the loop; a NaN is put into the gradient before one call, if asked."""
    torch.manual_seed(0)
    layer = Switched(off)
    model = Toy(layer).to(getattr(torch, dtype))
    tokens = torch.randint(0, 50, (4, 6))
    torch.manual_seed(1)
    with torch.set_grad_enabled(clean_gradients):
        target = model(tokens).detach()
    model.requires_grad_(not freeze)
    layer.adversarial = True
    seen = Seen()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a non-leaf's .grad is read where guards are missing
        try:
            _loop(model, layer, tokens, target, seen, nan_at)
        except (RuntimeError, AttributeError) as error:
            seen.raised = (type(error).__name__, str(error), len(seen.leaf) + 1)
    return seen


def _loop(
    model: Toy, layer: Switched, tokens: Tensor, target: Tensor, seen: Seen, nan_at: int
) -> None:
    logits: Tensor | None = None
    for call in range(1, CALLS + 1):
        if call == 1:
            layer.update()
        else:
            logits = model(tokens)
            before = {name: _bits(p.grad) for name, p in model.named_parameters()}
            loss = _divergence(logits, target)
            try:
                loss.backward()  # type: ignore[no-untyped-call]
            finally:
                now = {name: _bits(p.grad) for name, p in model.named_parameters()}
                seen.filled.append({name for name in now if now[name] != before[name]})
            if call == nan_at:
                layer.delta.grad.view(-1)[0] = float("nan")
            seen.bits.append((loss.item(), layer.update()))
        _look(layer, seen)


def _look(layer: Switched, seen: Seen) -> None:
    delta, perturbed = layer.delta, layer.perturbed
    seen.leaf.append(delta.is_leaf)
    seen.asked.append(delta.requires_grad)
    seen.depth.append(depth_of(perturbed.grad_fn))
    seen.dtypes.append((delta.dtype, perturbed.dtype))
    seen.bits.append((_bits(delta), _bits(perturbed)))


def depth_of(node: Any) -> int:
    """Count the nodes on the longest way to a leaf."""
    if node is None:
        return 0
    return 1 + max((depth_of(child) for child, _ in node.next_functions), default=0)


def _bits(tensor: Tensor | None) -> bytes | None:
    if tensor is None:
        return None
    return tensor.detach().double().numpy().tobytes()


def _divergence(logits: Tensor, target: Tensor) -> Tensor:
    return functional.kl_div(
        functional.log_softmax(logits.float(), -1),
        functional.softmax(target.float(), -1),
        reduction="sum",
    )


SCENARIO = """
title = "The reference layer between an embedding and a head"
about = "For the tests of the ablation."
[model]
build = "toy.py:build"
dtype = "{dtype}"
[layer]
arguments = {{ hidden_size = {width} }}
[input]
distribution = "integers"
high = 50
shape = [4, 6]
[loop]
calls = {calls}
loss = "kl"
clean_gradients = {clean}
freeze = {freeze}
"""
BUILD = """
import sys
sys.path.insert(0, {tests!r})
from _guards import Toy
def build(layer):
    return Toy(layer)
"""


def write_scenario(
    folder: Path, dtype: str, *, clean_gradients: bool, freeze: bool, extra: str = ""
) -> Path:
    """Write the same run as a scenario with the layer that ships."""
    tests = str(Path(__file__).parent)
    (folder / "toy.py").write_text(BUILD.format(tests=tests))
    flags = {"clean": str(clean_gradients).lower(), "freeze": str(freeze).lower()}
    text = SCENARIO.format(width=WIDTH, calls=CALLS, dtype=dtype, **flags) + extra
    path = folder / "toy.toml"
    path.write_text(text)
    return path
