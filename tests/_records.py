"""Builds records of many kinds for tests, with a seed: every field, NaN, infinity, None, faults."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from pertdbg.record import (
    HISTOGRAM_BINS,
    Caller,
    CallRecord,
    DeltaFacts,
    EffectFacts,
    GradientFacts,
    GraphFacts,
    Graphs,
    Raised,
    Reach,
    StorageFacts,
    TensorFacts,
    Tensors,
    TensorsAfter,
    TensorsBefore,
    Unknown,
    UpdateFacts,
)

LAYERS = ("encoder.pert", "decoder.pert")
TEXTS = (
    "",
    "plain",
    "two\nlines",
    "caf\u00e9 \U0001f600",
    "\x1b[31mred\x1b[0m",
    "a\x00b",
    "[bold]x[/]",
)
REASONS = ("no-delta", "nonleaf", "requires-grad-off", "no-backward", "not-filled")


def number(random: Random) -> float | None:
    """A float as tensors have them: ordinary, extreme, not finite, or missing."""
    special = (None, math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1.7e308, 1 / 3, 3.0, -1e-9)
    return random.choice(special) if random.random() < 0.4 else random.uniform(-2, 2)


def count(random: Random) -> int | None:
    return random.choice((None, 0, 1, 7, 2**31, 2**63 - 1, random.randrange(1000)))


def flag(random: Random) -> bool | None:
    return random.choice((True, False, None))


def pointer(random: Random) -> int | None:
    return random.choice((None, 0, 1, 2**63 - 1, 2**63, 2**64 - 1, random.randrange(2**64)))


def tensor(random: Random) -> TensorFacts | None:
    """A tensor's facts, or None for a tensor that is not there."""
    if random.random() < 0.2:
        return None
    shape = tuple(random.randrange(5) for _ in range(random.randrange(4)))
    return TensorFacts(
        shape=shape,
        dtype=random.choice(("float32", "bfloat16", "float16")),
        device=random.choice(("cpu", "cuda:0")),
        layout="strided",
        is_leaf=flag(random),
        requires_grad=flag(random),
        retains_grad=flag(random),
        grad_fn=random.choice((None, "AddBackward0", "ToCopyBackward0")),
        has_grad=flag(random),
        has_tangent=flag(random),
        version=count(random),
        data_ptr=pointer(random),
        storage=random.choice((None, "A", "B", "C")),
        storage_offset=random.choice((None, 0, 12)),
        stride=random.choice((None, shape[::-1])),
        nbytes=count(random),
        is_view=flag(random),
        contiguous=flag(random),
    )


def gradient(random: Random) -> GradientFacts:
    if random.random() < 0.3:
        return GradientFacts(present=False, reason=random.choice(REASONS), backwards=count(random))
    numbers: dict[str, Any] = {
        name: number(random)
        for name in ("norm", "norm_in_dtype", "max_abs", "min", "max", "zero_fraction")
    }
    return GradientFacts(
        present=True,
        **numbers,
        guard_fraction=number(random),
        nan=count(random),
        inf=count(random),
        backwards=count(random),
    )


def delta(random: Random) -> DeltaFacts:
    names = ("norm", "max_abs", "min", "max", "mean", "std", "bound", "moved_max", "moved_fraction")
    counts = [random.randrange(2 ** random.choice((3, 20, 40))) for _ in range(HISTOGRAM_BINS)]
    values: dict[str, Any] = {
        **{name: number(random) for name in names},
        **{name: count(random) for name in ("nan", "inf", "beyond", "at_bound")},
        "bound_kind": random.choice((None, "creation", "always")),
        "histogram": random.choice((None, tuple(counts))),
        "histogram_range": random.choice((None, (random.uniform(-1, 0), random.random()))),
    }
    if counts[0] % 3 == 0:
        largest = math.nan if counts[1] % 5 == 0 else counts[1] / 7
        values.update(bound_norm=1.5, bound_of="sample", norm_max=largest)
    return DeltaFacts(**values)


def update(random: Random) -> UpdateFacts:
    raised = Raised(
        random.choice(("ValueError", "torch.OutOfMemoryError")),
        random.choice(TEXTS),
        random.choice((None, 12)),
    )
    return UpdateFacts(
        created=random.random() < 0.3,
        returned=random.choice((True, True, False, None, "Tensor")),
        raised=random.choice((None, None, None, raised)),
        learning_rate=number(random),
    )


def graph(random: Random) -> GraphFacts | None:
    return random.choice((None, GraphFacts(random.randrange(1000), 3, random.random() < 0.5)))


def storages(random: Random) -> dict[str, StorageFacts]:
    return {
        label: StorageFacts(pointer(random), count(random), random.choice(((), ("delta", "input"))))
        for label in "ABCD"[: random.randrange(5)]
    }


def record(random: Random, ident: int, **given: Any) -> CallRecord:
    """One record with facts at random (they need not agree with each other)."""
    fields: dict[str, Any] = {
        "id": ident,
        "call": max(1, ident - random.randrange(2)),
        "batch": random.randrange(100),
        "step": random.randrange(100),
        "layer": random.choice(LAYERS),
        "rank": random.choice((0, 0, 3)),
        "source_line": random.choice((None, 31)),
        "update": update(random),
        "gradient": gradient(random),
        "delta": delta(random),
        "effect": EffectFacts(number(random), number(random), number(random), number(random)),
        "tensors": Tensors(
            TensorsBefore(*(tensor(random) for _ in range(4))),
            TensorsAfter(*(tensor(random) for _ in range(3))),
        ),
        "storages": storages(random),
        "shared": random.choice(((), (("input", "perturbed_input"),), (("delta", "input"),))),
        "backward_reaches": Reach(
            random.choice(((), ("delta", "fc.weight"))), flag(random) is True
        ),
        "graph": Graphs(graph(random), graph(random)),
        "unknown": random.choice(((), (Unknown("delta.moved_max", random.choice(TEXTS)),))),
        "findings": random.choice(((), ("nan-gradient",))),
        "caller": random.choice((None, Caller("/tmp/train \u00e9.py", 12))),
        "time": random.uniform(0, 1e5),
    }
    return CallRecord(**{**fields, **given})


def records(seed: int, n: int) -> list[CallRecord]:
    """Records with the ids 1 to n, the same for the same seed."""
    random = Random(seed)
    return [record(random, ident) for ident in range(1, n + 1)]


def _facts(storage: str, address: int, **given: Any) -> TensorFacts:
    fields: dict[str, Any] = {
        "shape": (4, 16, 64),
        "dtype": "float32",
        "device": "cpu",
        "layout": "strided",
        "is_leaf": False,
        "requires_grad": True,
        "retains_grad": False,
        "grad_fn": "AddBackward0",
        "has_grad": None,
        "has_tangent": False,
        "version": 0,
        "data_ptr": address,
        "storage": storage,
        "storage_offset": 0,
        "stride": (1024, 64, 1),
        "nbytes": 16384,
        "is_view": False,
        "contiguous": True,
    }
    return TensorFacts(**{**fields, **given})


def healthy(ident: int, random: Random | None = None, **given: Any) -> CallRecord:
    """The record of a healthy update as a probe makes it; id 1 is the creation of delta."""
    random = random or Random(ident)
    created = ident == 1
    base = 0x7F00_0000_0000
    place = [base + 64 * random.randrange(1 << 30) for _ in range(6)]
    leaf = {"is_leaf": True, "grad_fn": None, "has_grad": False}
    before_delta = None if created else _facts("D", place[0], **{**leaf, "has_grad": True})
    before_input = None if created else _facts("F", place[5])
    plain = {**leaf, "requires_grad": False}
    norm = random.uniform(1e-4, 1e-2)
    values: dict[str, Any] = {
        "norm": norm,
        "norm_in_dtype": norm,
        "max_abs": norm / 7,
        "min": -norm / 7,
        "max": norm / 8,
        "nan": 0,
        "inf": 0,
        "zero_fraction": 0.0,
        "guard_fraction": 0.0,
        "backwards": 1,
    }
    if created:
        gradient_facts = GradientFacts(present=False, reason="no-delta", backwards=0)
    else:
        gradient_facts = GradientFacts(present=True, **values)
    largest = 0.02 if created else 0.02 + 1e-4 * (ident - 1)
    fields: dict[str, Any] = {
        "id": ident,
        "call": ident,
        "batch": 1,
        "step": ident - 1,
        "layer": "encoder.pert",
        "rank": 0,
        "source_line": 31,
        "update": UpdateFacts(created=created, returned=True, raised=None, learning_rate=1e-4),
        "gradient": gradient_facts,
        "delta": DeltaFacts(
            norm=random.uniform(0.5, 0.6),
            max_abs=largest,
            min=-0.02,
            max=largest,
            mean=random.uniform(-1e-5, 1e-5),
            std=random.uniform(0.009, 0.01),
            nan=0,
            inf=0,
            bound=0.02,
            bound_kind="creation",
            beyond=0 if created else 3,
            at_bound=188 if created else 0,
            moved_max=None if created else 1e-4,
            moved_fraction=None if created else 1.0,
        ),
        "effect": EffectFacts(
            visible_fraction=1.0,
            changed_fraction=None if created else random.uniform(0.99, 1),
            cosine=None if created else random.uniform(0.99, 1),
            gap_max=largest,
        ),
        "tensors": Tensors(
            TensorsBefore(
                before_delta,
                None if created else _facts("E", place[4], **plain),
                _facts("A", place[1]),
                before_input,
            ),
            TensorsAfter(
                _facts("B", place[2], **leaf), _facts("A", place[1]), _facts("C", place[3])
            ),
        ),
        "storages": {
            "A": StorageFacts(place[1], 16384, ("input",)),
            "B": StorageFacts(place[2], 16384, ("delta",)),
            "C": StorageFacts(place[3], 16384, ("perturbed_input",)),
            **({} if created else {"D": StorageFacts(place[0], 16384, ("before.delta",))}),
        },
        "shared": (),
        "backward_reaches": Reach(("delta",), True),
        "graph": Graphs(GraphFacts(0, 0, True), GraphFacts(2, 2, True)),
        "unknown": tuple(
            Unknown(field, "created")
            for field in ("delta.moved_max", "delta.moved_fraction", "effect.cosine")
            if created
        ),
        "caller": Caller("/home/me/train.py", 57),
        "time": ident * 0.01 + random.random() * 1e-3,
    }
    return CallRecord(**{**fields, **given})


def same(a: CallRecord, b: CallRecord) -> bool:
    """Whether two records agree in every field, NaN being equal to NaN."""
    return repr(a).replace("-0.0", "0.0") == repr(b).replace("-0.0", "0.0")
