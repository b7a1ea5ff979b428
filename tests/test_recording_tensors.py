"""Full tensors in a recording: which are kept, what is read back, what other tools make of them.

torch, numpy and the safetensors package are the independent computations here.
"""

from __future__ import annotations

import itertools
import math
import struct
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from safetensors import safe_open

import _records
from pertdbg import PerturbationLayer
from pertdbg.agent.quiet import NotKnown
from pertdbg.agent.tensorcopy import copy_tensor
from pertdbg.errors import PertdbgError
from pertdbg.output.tensorfile import export_tensor
from pertdbg.record import CallRecord, GradientFacts
from pertdbg.recording.dtypes import DTYPES
from pertdbg.recording.reader import Recording
from pertdbg.recording.retention import Retention, TensorPolicy
from pertdbg.recording.safeopen import DamagedRecording
from pertdbg.recording.schema import PART_SIZE
from pertdbg.recording.tensormap import picture_of
from pertdbg.recording.verify import verify
from pertdbg.recording.writer import Recorder

LAYER = "encoder.pert"


def faulty(ident: int) -> CallRecord:
    return _records.healthy(ident, gradient=GradientFacts(present=True, nan=3))


def record_all(
    path: Path, calls: int, policy: str, budget: int, faults: set[int] | None = None
) -> list[int]:
    """Record calls with a tensor of 1000 bytes each; give the calls whose tensors are kept."""
    recorder = Recorder(path, {}, tensors=policy, budget=budget)
    for ident in range(1, calls + 1):
        fault = ident in (faults or set())
        recorder.write(faulty(ident) if fault else _records.healthy(ident))
        if recorder.wants_tensors(LAYER, ident, fault=fault):
            recorder.tensor(ident, "delta", "uint8", (1000,), bytes([ident % 256]) * 1000)
    recorder.close()
    with Recording.open(path) as recording:
        kept = recording.calls_with_tensors()
        for ident in kept:
            tensor = recording.tensor(ident, "delta")
            assert tensor is not None
            assert tensor.values() == [ident % 256] * 1000
    assert verify(path).sound
    return kept


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_element_type_comes_back_bit_for_bit(dtype: str, tmp_path: Path) -> None:
    kind = getattr(torch, dtype)
    raw = torch.randint(0, 256, (7, 40, 8), dtype=torch.uint8, generator=torch.manual_seed(3))
    original = raw.bool() if dtype == "bool" else raw.view(kind)
    copy = copy_tensor(original)
    assert (copy.dtype, copy.shape) == (dtype, tuple(original.shape))
    path = tmp_path / "a.pertdbg"
    recorder = Recorder(path, {}, tensors="all")
    recorder.write(_records.healthy(1))
    recorder.tensor(1, "delta", copy.dtype, copy.shape, copy.data)
    recorder.close()
    with Recording.open(path) as recording:
        tensor = recording.tensor(1, "delta")
        assert tensor is not None
        wide = original.to(torch.complex128 if kind.is_complex else torch.float64)
        whole = dtype.startswith(("int", "uint"))
        expected = (original if whole else wide).flatten().tolist()
        found = tensor.values()
        assert len(found) == len(expected)
        assert all(same(a, b) for a, b in zip(found, expected, strict=True))
        index = tuple(size - 1 for size in original.shape)
        assert same(tensor.at(*index), expected[-1])
        assert tensor.values(5, 9) == pytest.approx(expected[5:9], nan_ok=True)
    export_tensor(path, "delta", tmp_path / "t.safetensors")
    export_tensor(path, "delta", tmp_path / "t.npy")
    with safe_open(tmp_path / "t.safetensors", "pt") as file:
        loaded = file.get_tensor("delta")
        assert file.metadata() == {"pertdbg.id": "1"}
    assert loaded.dtype == kind
    assert torch.equal(loaded.view(torch.uint8), original.view(torch.uint8))
    array = np.load(tmp_path / "t.npy")
    assert array.shape == original.shape
    plain = original.float() if dtype.startswith(("bfloat", "float8")) else original
    np.testing.assert_array_equal(array, plain.numpy())


def same(a: complex, b: complex) -> bool:
    if isinstance(b, complex):
        return same(complex(a).real, b.real) and same(complex(a).imag, b.imag)
    return a == b or (a != a and b != b)


def test_a_large_tensor_is_kept_in_parts_and_read_in_places(tmp_path: Path) -> None:
    path = tmp_path / "a.pertdbg"
    original = torch.randn(9, 300, 700, generator=torch.manual_seed(1))
    copy = copy_tensor(original)
    recorder = Recorder(path, {}, tensors="all")
    recorder.write(_records.healthy(1))
    recorder.tensor(1, "input", copy.dtype, copy.shape, memoryview(copy.data), why="all")
    recorder.close()
    with Recording.open(path) as recording:
        tensor = recording.tensor(1, "input")
        assert tensor is not None
        assert tensor.parts == -(-(9 * 300 * 700 * 4) // PART_SIZE)
        for place in [0, PART_SIZE // 4 - 30, 70_000, 9 * 300 * 700 - 5]:
            values = tensor.values(place, place + 60)
            assert values == original.flatten()[place : place + 60].tolist()
        assert tensor.at(8, 299, 699) == original[8, 299, 699].item()
        assert b"".join(tensor.data()) == copy.data
        with pytest.raises(IndexError):
            tensor.at(9, 0, 0)
        picture = picture_of(tensor)
        assert picture is not None
        whole = original.reshape(2700, 700).abs()
        assert (picture.rows, picture.cols) == (math.ceil(2700 / 43), math.ceil(700 / 11))
        for r, c in [(0, 0), (3, 17), (picture.rows - 1, picture.cols - 1)]:
            cell = whole[r * 43 : (r + 1) * 43, c * 11 : (c + 1) * 11].max().item()
            assert picture.values()[r * picture.cols + c] == cell
    recorded = copy_tensor(original)
    assert recorded == copy


def test_a_picture_shows_nan_where_one_element_is_nan(tmp_path: Path) -> None:
    original = torch.zeros(2, 130)
    original[1, 129], original[0, 3] = math.nan, -math.inf
    path = tmp_path / "a.pertdbg"
    recorder = Recorder(path, {}, tensors="all")
    recorder.write(_records.healthy(1))
    for role, tensor in (("delta", original), ("input", torch.tensor(-2.5)), ("x", torch.empty(0))):
        copy = copy_tensor(tensor)
        recorder.tensor(1, role, copy.dtype, copy.shape, copy.data)
    recorder.close()
    with Recording.open(path) as recording:
        delta, one, none = recording.tensors(1)
        picture = picture_of(delta)
        assert picture is not None
        assert (picture.rows, picture.cols) == (2, 44)
        cells = list(picture.values())
        assert math.isnan(cells[-1])
        assert cells[1] == math.inf
        assert set(cells[2:-1]) == {0.0}
        small = picture_of(one)
        assert small is not None
        assert list(small.values()) == [2.5]
        assert picture_of(none) is None
        assert none.values() == []


def test_a_damaged_part_is_said_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.pertdbg"
    recorder = Recorder(path, {}, tensors="all")
    recorder.write(_records.healthy(1))
    recorder.tensor(1, "delta", "uint8", (3 * PART_SIZE,), bytes(range(256)) * 3 * 1024)
    recorder.close()
    data = bytearray(path.read_bytes())
    found, pattern = -1, bytes(range(250))
    for _ in range(data.count(pattern) // 2):
        found = data.index(pattern, found + 1)
    data[found] ^= 1
    path.write_bytes(data)
    assert not verify(path).sound
    with Recording.open(path) as recording:
        tensor = recording.tensor(1, "delta")
        assert tensor is not None
        assert tensor.values(0, 3) == [0, 1, 2]
        with pytest.raises(DamagedRecording, match="part 2 of 4 is missing or damaged"):
            tensor.values()
    with pytest.raises(PertdbgError):
        export_tensor(path, "delta", tmp_path / "t.npy")
    assert [file.name for file in tmp_path.iterdir()] == ["a.pertdbg"]


def test_nothing_is_kept_unless_asked_for(tmp_path: Path) -> None:
    assert record_all(tmp_path / "a", 10, "none", 10**9, faults={4}) == []


def test_last_keeps_the_first_the_last_and_those_around_the_first_fault(tmp_path: Path) -> None:
    assert record_all(tmp_path / "a", 60, "last", 10**9) == [1, 59, 60]
    kept = record_all(tmp_path / "b", 60, "last", 10**9, faults={20})
    assert kept == [1, 19, 20, 21, 59, 60]


def test_every_nth_call_is_kept_and_faults_with_it(tmp_path: Path) -> None:
    kept = record_all(tmp_path / "a", 40, "every:10", 10**9, faults={25})
    assert kept == [1, 11, 21, 25, 26, 31]


def test_all_keeps_within_the_budget_and_thins_the_old_ones(tmp_path: Path) -> None:
    path = tmp_path / "a"
    kept = record_all(path, 1000, "all", 60_000, faults={400, 700})
    assert 40 <= len(kept) <= 54  # 60,000 bytes hold 54 tensors of 1000 bytes and their headers
    assert {1, 399, 400, 401, 699, 700, 701, 999, 1000} <= set(kept)
    plain = [k for k in kept if not 398 < k < 402 and not 698 < k < 702]
    gaps = [(1000 - a, b - a) for a, b in itertools.pairwise(plain)]
    assert all(gap <= max(2, age) for age, gap in gaps)  # what is old may stand far apart
    assert all(gap <= 8 for age, gap in gaps if age < 20)  # what is new may not
    assert path.stat().st_size < 1_300_000


def test_what_was_pinned_stays_and_what_does_not_fit_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.pertdbg"
    recorder = Recorder(path, {}, tensors="all", budget=8_000)
    for ident in range(1, 101):
        recorder.write(_records.healthy(ident))
        recorder.tensor(ident, "delta", "uint8", (1000,), bytes(1000))
        if ident == 30:
            recorder.pin(30)
    recorder.pin(99_999)
    recorder.tensor(100, "input", "uint8", (9000,), bytes(9000))
    recorder.close()
    with Recording.open(path) as recording:
        kept = recording.calls_with_tensors()
        assert {1, 30, 99, 100} <= set(kept)
        pinned = recording.tensor(30, "delta")
        assert pinned is not None
        assert pinned.pinned
        assert recording.tensor(100, "input") is None
        meta = recording.meta
        assert meta.tensors_left_out == 1
        assert (meta.tensors, meta.tensor_budget) == ("all", 8_000)
        assert meta.tensors_dropped == 100 - len(kept)
        said = f"the tensors of {100 - len(kept)} calls were dropped to stay within the budget"
        assert any(said in notice for notice in recording.notices())
    assert verify(path).sound


def test_each_layer_keeps_its_first_and_last(tmp_path: Path) -> None:
    path = tmp_path / "a.pertdbg"
    recorder = Recorder(path, {}, tensors="all", budget=20_000)
    for ident in range(1, 301):
        layer = "b" if ident % 3 == 0 else "a"
        recorder.write(_records.healthy(ident, layer=layer))
        recorder.tensor(ident, "delta", "uint8", (1000,), bytes(1000))
    recorder.close()
    with Recording.open(path) as recording:
        kept = set(recording.calls_with_tensors())
    assert {1, 3, 298, 299, 297, 300} <= kept
    assert len({k for k in kept if k % 3 == 0}) >= 4


def test_when_every_call_has_a_fault_the_budget_still_holds() -> None:
    retention = Retention(TensorPolicy("all"), 50 * 100)
    kept: set[int] = set()
    for ident in range(1, 5001):
        retention.called(ident, "a", ident, fault=ident > 1)
        gone, fits = retention.room_for(ident, "a", 100)
        assert fits
        kept -= set(gone)
        retention.stored(ident, "a", 100)
        kept.add(ident)
        assert retention.nbytes == 100 * len(kept) <= 5000
    assert {1, 2, 3, 4999, 5000} <= kept


def test_a_policy_that_is_none_is_refused(tmp_path: Path) -> None:
    for text in ("some", "every:0", "every:", "every:-1", "every:2x", ""):
        with pytest.raises(PertdbgError, match="use none, last, every:N"):
            Recorder(tmp_path / "a", {}, tensors=text)
    assert list(tmp_path.iterdir()) == []


def test_wrong_bytes_and_unknown_types_are_refused(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a", {}, tensors="all")
    recorder.write(_records.healthy(1))
    for call, dtype, data in ((1, "float32", 11), (1, "qint8", 3), (2, "uint8", 3)):
        with pytest.raises(ValueError, match=r"are no|not stored|is not the last"):
            recorder.tensor(call, "delta", dtype, (3,), bytes(data))
    recorder.close()


def test_an_export_names_what_there_is(tmp_path: Path) -> None:
    path = tmp_path / "a.pertdbg"
    record_all(path, 3, "all", 10**6)
    with pytest.raises(PertdbgError, match=r"no gradient is stored of record 2 .*: delta\)"):
        export_tensor(path, "gradient", tmp_path / "t.npy", call=2)
    with pytest.raises(PertdbgError, match=r"written as .safetensors or .npy"):
        export_tensor(path, "delta", tmp_path / "t.pt")
    with pytest.raises(PertdbgError, match="there is no call 9"):
        export_tensor(path, "delta", tmp_path / "t.npy", call=9)


def test_copying_a_tensor_leaves_no_trace() -> None:
    base = torch.randn(4, 6, requires_grad=True)
    made = (base * 2).t()
    before = (made._version, made.grad_fn, torch.get_rng_state().tolist(), torch.is_grad_enabled())
    copy = copy_tensor(made)
    after = (made._version, made.grad_fn, torch.get_rng_state().tolist(), torch.is_grad_enabled())
    assert before == after
    values = struct.unpack("<24f", copy.data)
    assert list(values) == (base * 2).t().flatten().tolist()
    lazy = torch._lazy_clone(torch.ones(8))
    assert copy_tensor(lazy).data == struct.pack("<8f", *[1.0] * 8)
    assert torch._C._is_cow_tensor(lazy)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: "text", "not a tensor: str"),
        (lambda: torch.empty(3, device="meta"), "meta"),
        (lambda: torch.zeros(3, dtype=torch.complex128), "dtype: complex128"),
        (lambda: torch.nn.Parameter(torch.ones(2)).data.untyped_storage(), "not a tensor"),
    ],
)
def test_what_has_no_values_is_said(make: object, reason: str) -> None:
    with pytest.raises(NotKnown, match=reason):
        copy_tensor(make())  # type: ignore[operator]


def test_a_tensor_that_was_freed_or_is_sparse_is_handled() -> None:
    freed = torch.ones(5)
    freed.untyped_storage().resize_(0)
    with pytest.raises(NotKnown, match="not-allocated"):
        copy_tensor(freed)
    sparse = torch.eye(3).to_sparse()
    assert copy_tensor(sparse).data == struct.pack("<9f", *torch.eye(3).flatten().tolist())
    view = torch.arange(20.0)[4:9]
    assert copy_tensor(view).data == struct.pack("<5f", *range(4, 9))


def test_thinning_keeps_spacing_in_proportion_to_age() -> None:
    random = Random(2)
    retention, kept = Retention(TensorPolicy("all"), 100 * 64), set[int]()
    for ident in range(1, 20_001):
        retention.called(ident, "a", ident, fault=False)
        gone, _ = retention.room_for(ident, "a", 100)
        kept -= set(gone)
        retention.stored(ident, "a", 100)
        kept.add(ident)
        if ident > 1000 and random.random() < 0.002:
            places = sorted(kept)
            for a, b in itertools.pairwise(places[1:]):
                assert b - a <= max(2, (ident - a) / 2)


def test_the_tensors_of_a_real_run_are_those_that_the_layer_had(tmp_path: Path) -> None:
    torch.manual_seed(0)
    layer = PerturbationLayer(16)
    path, expected = tmp_path / "a.pertdbg", {}
    recorder = Recorder(path, {}, tensors="all")
    layer(torch.randn(3, 5, 16))
    layer.adversarial_(True)
    for ident in range(1, 6):
        gradient = None if layer.delta is None else layer.delta.grad
        copies = {} if gradient is None else {"gradient": copy_tensor(gradient)}
        assert layer.update_delta(requires_grad=True)
        recorder.write(_records.healthy(ident))
        for role, tensor in (("delta", layer.delta), ("input", layer.input)):
            assert tensor is not None
            copies[role] = copy_tensor(tensor)
            expected[ident, role] = tensor.detach().clone()
        for role, copy in copies.items():
            recorder.tensor(ident, role, copy.dtype, copy.shape, copy.data)
        layer(None).square().sum().backward()
        assert layer.delta is not None
        assert layer.delta.grad is not None
        expected[ident + 1, "gradient"] = layer.delta.grad.clone()
    recorder.close()
    with Recording.open(path) as recording:
        assert [t.role for t in recording.tensors(1)] == ["delta", "input"]
        for (ident, role), tensor in expected.items():
            stored = recording.tensor(ident, role) if ident < 6 else None
            if stored is not None:
                assert stored.shape == tuple(tensor.shape)
                assert stored.values() == tensor.flatten().tolist()
        assert [t.role for t in recording.tensors(5)] == ["gradient", "delta", "input"]
