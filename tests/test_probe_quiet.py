from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import threading
import warnings
import weakref
from typing import Any, Literal

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from _probe import PICTURES, Layer, both_paths, observe, reasons, with_gradient
from pertdbg.agent.probe import Probe

SIZE = 70_000  # more than one block of the numpy path


def layer(count: int = 12) -> Layer:
    generator = torch.Generator().manual_seed(5)
    delta, clean, gradient = (torch.randn(count, generator=generator) for _ in range(3))
    delta = with_gradient(delta, gradient)
    return Layer(delta, clean, clean + delta)


def update(layer: Layer) -> None:
    layer.delta = (layer.delta.detach() + 1e-3).requires_grad_()
    layer.perturbed_input = layer.input + layer.delta


class Listening(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.heard: list[object] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.heard.append(func)
        return func(*args, **(kwargs or {}))


class Dispatching(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.heard: list[object] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.heard.append(func)
        return func(*args, **(kwargs or {}))


@both_paths
@pytest.mark.parametrize("mode", [Listening, Dispatching])
def test_a_mode_of_the_user_hears_nothing_of_ours(mode: Any, use_numpy: bool) -> None:
    subject = layer()
    probe = Probe(use_numpy=use_numpy)
    with mode() as active:
        entry = probe.enter(subject.roles(), bound=0.02)
        seen = probe.leave(entry, subject.roles(), pictures=lambda count: PICTURES)
        assert active.heard == []
        torch.ones(1)
        assert len(active.heard) >= 1
    assert seen.delta.norm is not None


@both_paths
def test_default_device_dtype_autocast_and_inference_mode_have_no_influence(
    use_numpy: bool,
) -> None:
    plain = observe(layer(), use_numpy=use_numpy, pictures=PICTURES, bound=0.02)
    subject = layer()
    torch.set_default_dtype(torch.float64)
    try:
        with torch.device("meta"), torch.autocast("cpu", dtype=torch.bfloat16):
            there = observe(subject, use_numpy=use_numpy, pictures=PICTURES, bound=0.02)
        with torch.inference_mode():
            inside = observe(subject, use_numpy=use_numpy, pictures=PICTURES, bound=0.02)
    finally:
        torch.set_default_dtype(torch.float32)
    for seen in (there, inside):
        assert (seen.gradient, seen.delta, seen.effect) == (
            plain.gradient,
            plain.delta,
            plain.effect,
        )
        assert seen.picture == plain.picture


@both_paths
@pytest.mark.parametrize("count", [12, SIZE])
def test_nothing_of_the_caller_changes(count: int, use_numpy: bool) -> None:
    subject = layer(count)
    before = [subject.delta, subject.input, subject.perturbed_input, subject.delta.grad]
    values = [tensor.detach().clone() for tensor in before]
    versions = [tensor._version for tensor in before]
    made_by = subject.perturbed_input.grad_fn
    random = torch.get_rng_state()
    observe(subject, use_numpy=use_numpy, pictures=PICTURES, bound=0.02)
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.is_grad_enabled()
    assert [tensor._version for tensor in before] == versions
    assert all(map(torch.equal, before, values))
    assert subject.delta.grad is before[3]
    assert subject.perturbed_input.grad_fn is made_by
    assert subject.input.grad_fn is None
    subject.perturbed_input.sum().backward()
    assert torch.equal(subject.delta.grad, values[3] + 1)


def test_grad_mode_is_left_as_it_was() -> None:
    with torch.no_grad():
        observe(layer())
        assert not torch.is_grad_enabled()
    assert torch.autograd.forward_ad._is_fwd_grad_enabled()


def test_the_warnings_registry_and_filters_stay_as_they_are() -> None:
    product = torch.ones(3, requires_grad=True) * 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        filters, registry = list(warnings.filters), dict(globals().get("__warningregistry__", {}))
        observe(Layer(product, product, torch.full((3,), float("nan"))), pictures=PICTURES)
        assert list(warnings.filters) == filters
    assert caught == []
    assert globals().get("__warningregistry__", {}) == registry


@both_paths
@pytest.mark.parametrize("facts", ["core", "all"])
@pytest.mark.parametrize("count", [12, SIZE])
def test_no_tensor_of_the_caller_is_alive_because_of_us(
    count: int, facts: Literal["core", "all"], use_numpy: bool
) -> None:
    gc.collect()
    gc.disable()
    try:
        subject = layer(count)
        probe = Probe(facts=facts, use_numpy=use_numpy)
        entry = probe.enter(subject.roles(), bound=0.02)
        old = [subject.delta, subject.input, subject.perturbed_input, subject.delta.grad]
        update(subject)
        seen = probe.leave(entry, subject.roles(), pictures=lambda count: PICTURES)
        new = [subject.delta, subject.perturbed_input]
        references = [weakref.ref(tensor) for tensor in (*old, *new)]
        del subject, old, new
        assert [reference() for reference in references] == [None] * 6
        del entry, seen
    finally:
        gc.enable()


def test_no_tensor_is_alive_after_a_failing_look() -> None:
    gc.collect()
    gc.disable()
    try:
        subject = layer()
        reference = weakref.ref(subject.delta)

        def fail(count: int) -> frozenset[str]:
            raise RuntimeError("broken")

        probe = Probe()
        seen = probe.leave(probe.enter(subject.roles()), subject.roles(), pictures=fail)
        assert reasons(seen)["delta.histogram"] == "error: RuntimeError: broken"
        del subject
        assert reference() is None
    finally:
        gc.enable()


def test_an_observer_of_core_facts_copies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from pertdbg.agent import values

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a copy")

    subject = layer(SIZE)
    monkeypatch.setattr(values.Pool, "take", refuse)
    monkeypatch.setattr(torch.Tensor, "clone", refuse)
    monkeypatch.setattr(torch.Tensor, "contiguous", refuse)
    seen = observe(subject, update, facts="core", bound=0.02)
    assert seen.delta.max_abs > 0
    assert seen.delta.beyond > 0
    for field in ("delta.moved_max", "effect.cosine", "gradient.zero_fraction", "delta.mean"):
        reason = next(r for name, r in reasons(seen).items() if field.startswith(name))
        assert reason == "not in --facts core"


def test_core_facts_hold_the_same_numbers_as_all_facts() -> None:
    core, everything = (observe(layer(SIZE), facts=facts, bound=0.02) for facts in ("core", "all"))
    assert core.tensors.after.delta.shape == everything.tensors.after.delta.shape
    for part, names in {
        "gradient": ("norm", "max_abs", "min", "max", "nan", "inf"),
        "delta": ("max_abs", "min", "max", "nan", "inf", "beyond"),
    }.items():
        for name in names:
            assert getattr(getattr(core, part), name) == getattr(getattr(everything, part), name)


def test_hooks_are_not_called() -> None:
    subject = layer()
    called: list[object] = []
    subject.delta.register_hook(called.append)
    subject.perturbed_input.register_hook(called.append)
    subject.delta.register_post_accumulate_grad_hook(called.append)
    observe(subject, pictures=PICTURES)
    assert called == []


def test_threads_that_observe_at_once_do_not_mix_their_numbers() -> None:
    subjects = [layer(SIZE + i) for i in range(4)]
    alone = [observe(subject, update_out_of_place) for subject in subjects]
    probe, together = Probe(), {}

    def run(place: int) -> None:
        for _ in range(5):
            together[place] = observe(subjects[place], update_out_of_place, probe=probe)

    threads = [threading.Thread(target=run, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for place, seen in enumerate(alone):
        assert together[place].delta == seen.delta
        assert together[place].effect == seen.effect


def update_out_of_place(layer: Layer) -> None:
    layer = Layer(layer.delta, layer.input, layer.perturbed_input)
    update(layer)


def test_two_calls_may_be_under_way_at_once() -> None:
    probe, first, second = Probe(), layer(), layer()
    outer = probe.enter(first.roles())
    inner = probe.enter(second.roles())
    update(second)
    update(first)
    a, b = probe.leave(inner, second.roles()), probe.leave(outer, first.roles())
    assert a.delta == b.delta
    assert a.delta.moved_fraction == 1.0


def test_a_jit_trace_does_not_record_our_operations() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")

        def function(x: torch.Tensor) -> torch.Tensor:
            observe(Layer(x, x, x), use_numpy=False)
            return x * 2

        trace: Any = torch.jit.trace
        traced = trace(function, torch.ones(3), check_trace=False)
    kinds = [node.kind() for node in traced.graph.nodes()]
    assert kinds.count("aten::mul") == 1
    assert not {kind for kind in kinds if kind.startswith("aten::")} - {"aten::mul"}


def test_everything_is_measured_where_numpy_cannot_be_imported() -> None:
    code = """
    import sys, warnings
    sys.modules["numpy"] = None
    warnings.simplefilter("ignore")  # torch says that it misses numpy
    import torch
    warnings.simplefilter("error")
    from pertdbg.agent.probe import Probe, Roles
    delta, clean = torch.ones(3, requires_grad=True), torch.zeros(3)
    probe = Probe()
    entry = probe.enter(Roles(delta, clean, clean + delta), bound=0.5)
    seen = probe.leave(entry, Roles(delta * 2, clean, clean + 2 * delta),
                       pictures=lambda count: frozenset({"histogram", "map"}))
    assert seen.unknown == (), seen.unknown
    print(seen.delta.beyond, seen.delta.moved_max, seen.effect.cosine, sum(seen.delta.histogram))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    beyond, moved, cosine, counted = map(float, done.stdout.split())
    assert (beyond, moved, counted) == (3, 1.0, 3)
    assert cosine == pytest.approx(1.0)
