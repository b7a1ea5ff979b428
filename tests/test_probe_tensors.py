from __future__ import annotations

import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad

from _probe import Layer, both_paths, observe, reasons, with_gradient
from pertdbg.agent.probe import Probe


class Function(torch.Tensor):
    """A subclass that counts what it is asked through `__torch_function__`."""

    asked = 0

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.asked += 1
        answer: Any = super().__torch_function__
        return answer(func, types, args, kwargs or {})


class Wrapper(torch.Tensor):
    """A wrapper without memory of its own, of which even the shape runs code."""

    asked = 0
    policy: Any = None

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, dtype=inner.dtype, dispatch_sizes_strides_policy=cls.policy
        )

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        cls.asked += 1
        raise RuntimeError("nobody should ask")


class Secretive(Wrapper):
    policy = "sizes"


class Overriding(torch.Tensor):
    """A subclass whose attributes are code."""

    @property
    def shape(self) -> Any:  # type: ignore[override]
        raise RuntimeError("no shape")

    @property
    def grad(self) -> Any:  # type: ignore[override]
        raise RuntimeError("no gradient")

    def stride(self) -> Any:  # type: ignore[override]
        raise RuntimeError("no stride")


def loud(make: Callable[[], Any]) -> Any:
    """Make a tensor whose making warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return make()


def fake() -> torch.Tensor:
    with FakeTensorMode():
        return torch.ones(2, 3)


def inference() -> torch.Tensor:
    with torch.inference_mode():
        return torch.ones(2, 3)


def freed() -> torch.Tensor:
    tensor = torch.ones(2, 3)
    tensor.untyped_storage().resize_(0)
    return tensor


def lazy_clone() -> torch.Tensor:
    if not hasattr(torch, "_lazy_clone"):
        pytest.skip("this torch has no lazy clones")
    return torch._lazy_clone(torch.ones(2, 3))


COMPLEX = torch.complex(torch.ones(2, 3), torch.ones(2, 3))

VALUED: dict[str, Callable[[], torch.Tensor]] = {
    "plain": lambda: torch.ones(2, 3),
    "parameter": lambda: torch.nn.Parameter(torch.ones(2, 3)),
    "transposed": lambda: torch.ones(3, 2).t(),
    "expanded": lambda: torch.ones(1, 3).expand(2, 3),
    "strided": lambda: torch.ones(4, 6)[::2, ::2],
    "inference": inference,
    "sparse-coo": lambda: torch.ones(2, 3).to_sparse(),
    "sparse-hybrid": lambda: torch.ones(2, 3).to_sparse(1),
    "sparse-csr": lambda: loud(lambda: torch.ones(2, 3).to_sparse_csr()),
    "mkldnn": lambda: torch.ones(2, 3).to_mkldnn(),
    "quantized": lambda: loud(
        lambda: torch.quantize_per_tensor(torch.ones(2, 3), 0.5, 0, torch.qint8)
    ),
    "conjugate": lambda: COMPLEX.conj(),
    "negative": lambda: -(COMPLEX.conj().imag),
    "half-complex": lambda: loud(lambda: torch.ones(2, 3, dtype=torch.complex32)),
    "lazy-clone": lazy_clone,
    "function-subclass": lambda: torch.ones(2, 3).as_subclass(Function),
    "overriding-subclass": lambda: torch.ones(2, 3).as_subclass(Overriding),
    "int": lambda: torch.ones(2, 3, dtype=torch.int32),
}
"""Tensors of six ones (or of 1+1j and its kin)."""

VALUELESS: dict[str, tuple[Callable[[], torch.Tensor], str]] = {
    "meta": (lambda: torch.ones(2, 3, device="meta"), "meta"),
    "fake": (fake, "fake"),
    "freed": (freed, "not-allocated"),
    "wrapper": (lambda: Wrapper(torch.ones(2, 3)), "subclass: Wrapper"),
    "zero": (lambda: torch._efficientzerotensor(2, 3), "not-allocated"),
}
"""Tensors whose values can't be had, and why."""


@both_paths
@pytest.mark.parametrize("kind", VALUED)
def test_every_kind_of_tensor_with_values_is_measured(kind: str, use_numpy: bool) -> None:
    tensor = VALUED[kind]()
    size = 2**0.5 if tensor.is_complex() and "half" not in kind else 1.0
    seen = observe(Layer(delta=tensor), use_numpy=use_numpy)
    assert seen.delta.norm == pytest.approx(6**0.5 * size)
    assert seen.delta.max_abs == pytest.approx(size)
    facts = seen.tensors.after.delta
    assert facts.shape == (2, 3)
    assert facts.dtype == str(tensor.dtype).removeprefix("torch.")
    assert facts.layout == str(tensor.layout).removeprefix("torch.")
    assert facts.device == "cpu"


@both_paths
@pytest.mark.parametrize("kind", VALUELESS)
def test_a_tensor_without_values_says_why(kind: str, use_numpy: bool) -> None:
    make, reason = VALUELESS[kind]
    tensor = make()
    seen = observe(Layer(tensor, tensor, tensor), use_numpy=use_numpy)
    assert seen.tensors.after.delta.shape == (2, 3)
    assert (seen.delta.norm, seen.effect.gap_max) == (None, None)
    assert reasons(seen)["delta"] == reason
    assert reasons(seen)["effect"] == reason


@pytest.mark.parametrize("kind", [*VALUED, *VALUELESS])
@pytest.mark.parametrize("facts", ["core", "all"])
def test_no_kind_of_tensor_raises_or_warns_or_changes_in_any_role(
    kind: str, facts: Literal["core", "all"]
) -> None:
    make = VALUED[kind] if kind in VALUED else VALUELESS[kind][0]
    tensor = make()
    version = None if tensor.is_inference() else tensor._version
    Function.asked = 0
    plain = torch.zeros(2, 3)
    for layer in (
        Layer(tensor, plain, plain),
        Layer(plain, tensor, plain),
        Layer(plain, plain, tensor),
    ):
        seen = observe(layer, facts=facts, pictures=frozenset({"histogram", "map"}), bound=0.5)
        assert "error" not in str(reasons(seen))
    assert Function.asked == 0
    assert tensor.is_inference() or tensor._version == version
    if kind == "lazy-clone":
        assert torch._C._is_cow_tensor(tensor)  # type: ignore[attr-defined]
    assert not tensor.is_leaf or tensor.grad_fn is None


@pytest.mark.parametrize("cls", [Wrapper, Secretive])
def test_a_wrapper_subclass_is_not_asked_for_anything(cls: type[Wrapper]) -> None:
    tensor = cls(torch.ones(2, 3))
    cls.asked = 0
    seen = observe(Layer(tensor, tensor, tensor))
    assert cls.asked == 0
    assert seen.storages == {}
    assert reasons(seen)["delta"] == f"subclass: {cls.__name__}"


def test_a_wrapper_that_answers_for_its_shape_by_code_has_no_facts_but_a_reason() -> None:
    seen = observe(Layer(delta=Secretive(torch.ones(2, 3))))
    assert seen.tensors.after.delta is None
    assert reasons(seen)["tensors.after.delta"].startswith("computed by __torch_dispatch__")


def test_a_batched_tensor_inside_vmap_has_flags_and_no_values() -> None:
    observed = []

    def function(x: torch.Tensor) -> torch.Tensor:
        plain = torch.ones(3)
        observed.append(observe(Layer(x, plain, x)))
        return x * 2

    torch.vmap(function)(torch.ones(2, 3))
    seen = observed[0]
    assert seen.tensors.after.delta.shape == (3,)
    assert seen.tensors.after.delta.storage is None
    assert reasons(seen)["tensors.after.delta.storage"] == "vmap"
    assert reasons(seen)["delta"] == "vmap"
    assert seen.storages["A"].holds == ("input",)


def test_a_tensor_inside_a_functorch_gradient_is_unchanged_by_the_look() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        observe(Layer(x, torch.ones(3), x))
        return (x**2).sum()

    assert torch.func.grad(function)(torch.ones(3)).tolist() == [2.0, 2.0, 2.0]


def test_a_nested_tensor_has_a_reason_in_place_of_facts() -> None:
    nested = loud(lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]))
    seen = observe(Layer(delta=nested))
    assert seen.tensors.after.delta is None
    assert reasons(seen)["delta"] == "nested"


def test_an_uninitialized_parameter_has_a_reason_in_place_of_facts() -> None:
    seen = observe(Layer(delta=torch.nn.UninitializedParameter()))
    assert reasons(seen)["tensors.after.delta"] == "uninitialized"


@pytest.mark.parametrize("value", [[1.0, 2.0], "delta", 3, torch.nn.Linear(1, 1)])
def test_a_role_that_is_no_tensor_is_named(value: Any) -> None:
    seen = observe(Layer(value, value, value))
    name = f"not a tensor: {type(value).__name__}"
    for field in ("tensors.before.delta", "tensors.after.input", "gradient", "delta", "effect"):
        assert reasons(seen)[field] == name
    assert not seen.gradient.present
    assert seen.storages == {}


@pytest.mark.parametrize("shape", [(0,), (2, 0, 3)])
@both_paths
def test_an_empty_tensor_has_a_norm_of_zero_and_no_extremes(
    shape: tuple[int, ...], use_numpy: bool
) -> None:
    delta = with_gradient(torch.zeros(shape), torch.zeros(shape))
    layer = Layer(delta, torch.zeros(shape), torch.zeros(shape))
    seen = observe(layer, bound=1.0, use_numpy=use_numpy, pictures=frozenset({"histogram", "map"}))
    assert (seen.gradient.norm, seen.gradient.nan, seen.delta.norm, seen.delta.beyond) == (
        0,
        0,
        0,
        0,
    )
    for field in (
        "gradient.max_abs",
        "gradient.guard_fraction",
        "delta.mean",
        "delta.moved_max",
        "delta.histogram",
        "effect.gap_max",
        "effect.cosine",
        "tensors.after.delta.data_ptr",
        "storages.A.address",
    ):
        assert reasons(seen)[field] == "empty"


def test_the_facts_of_a_tensor_are_those_that_torch_tells() -> None:
    base = torch.zeros(4, 6)
    view = base[1:, ::2]
    product = torch.ones(3, requires_grad=True) * 2
    base.add_(1)
    seen = observe(Layer(product, base, view))
    facts = seen.tensors.after
    assert facts.delta.grad_fn == "MulBackward0"
    assert (facts.delta.is_leaf, facts.delta.requires_grad, facts.delta.retains_grad) == (
        False,
        True,
        False,
    )
    assert facts.delta.has_grad is None
    assert facts.input.version == 1
    assert facts.input.data_ptr == base.data_ptr()
    assert facts.perturbed_input.data_ptr == view.data_ptr()
    assert facts.perturbed_input.storage_offset == 6
    assert facts.perturbed_input.stride == (6, 2)
    assert facts.perturbed_input.nbytes == 3 * 3 * 4
    assert (facts.perturbed_input.is_view, facts.perturbed_input.contiguous) == (True, False)
    assert (facts.input.is_view, facts.input.contiguous) == (False, True)


def test_a_non_leaf_that_retains_its_gradient_has_it_read() -> None:
    product = torch.ones(3, requires_grad=True) * 2
    product.retain_grad()
    product.sum().backward()  # type: ignore[no-untyped-call]
    seen = observe(Layer(delta=product))
    assert seen.gradient.present
    assert seen.gradient.norm == pytest.approx(3**0.5)
    assert seen.tensors.after.delta.has_grad is True


def test_the_version_of_an_inference_tensor_is_unknown() -> None:
    seen = observe(Layer(delta=inference()))
    assert seen.tensors.after.delta.version is None
    assert reasons(seen)["tensors.after.delta.version"] == "inference"


def test_a_forward_mode_tangent_is_seen() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch compiles its decompositions at first use
        forward_ad._maybe_load_decompositions()  # type: ignore[no-untyped-call]
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(3), torch.ones(3))  # type: ignore[no-untyped-call]
        seen = observe(Layer(dual, torch.ones(3), dual.detach()))
        unpacked = forward_ad.unpack_dual(dual)  # type: ignore[no-untyped-call]
        assert unpacked.tangent.tolist() == [1.0, 1.0, 1.0]
    tangents = [
        getattr(seen.tensors.after, role).has_tangent
        for role in ("delta", "input", "perturbed_input")
    ]
    assert tangents == [True, False, False]


def test_a_sparse_gradient_is_measured_as_the_dense_one_that_it_stands_for() -> None:
    embedding = torch.nn.Embedding(5, 3, sparse=True)
    embedding(torch.tensor([1, 1, 3])).sum().backward()
    gradient = embedding.weight.grad
    assert gradient is not None
    facts = observe(Layer(delta=embedding.weight)).gradient
    assert facts.norm == pytest.approx(15**0.5)
    assert (facts.max, facts.zero_fraction) == (2.0, 9 / 15)
    assert facts.norm_in_dtype == gradient.norm().item()
    assert not gradient.is_coalesced()


def test_reading_a_tensor_leaves_its_storage_resizable() -> None:
    tensor = torch.ones(2, 3)
    observe(Layer(tensor, tensor, tensor), pictures=frozenset({"histogram", "map"}))
    tensor.resize_(100)


def test_sparse_and_other_odd_tensors_do_not_warn_in_a_fresh_interpreter() -> None:
    code = """
    import warnings
    warnings.simplefilter("error")
    import torch
    from pertdbg.agent.probe import Probe, Roles
    embedding = torch.nn.Embedding(5, 3, sparse=True)
    embedding(torch.tensor([1, 1])).sum().backward()
    product = embedding.weight * 2
    probe = Probe()
    seen = probe.leave(probe.enter(Roles(embedding.weight, product, product)), Roles(product))
    print(seen.gradient.norm)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert float(done.stdout) == pytest.approx(12**0.5)


def test_an_entry_can_be_dropped_without_leaving() -> None:
    Probe().enter(Layer(torch.ones(3)).roles())
