"""The first words of each panel follow from the record's facts, and from nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import _records
from pertdbg.output import verdict
from pertdbg.output.words import number, share
from pertdbg.record import CallRecord, GradientFacts, Raised, Reach, StorageFacts, Unknown

CREATION, UPDATE = _records.healthy(1), _records.healthy(5)
RAISED = Raised("AttributeError", "'NoneType' object has no attribute 'norm'", 43)


def with_(record: CallRecord, **parts: dict[str, Any]) -> CallRecord:
    """Change fields of the parts of a record."""
    changed = {name: replace(getattr(record, name), **fields) for name, fields in parts.items()}
    return replace(record, **changed)


def after(record: CallRecord, role: str, **fields: Any) -> CallRecord:
    """Change facts of a tensor at exit."""
    tensors = record.tensors
    tensor = replace(getattr(tensors.after, role), **fields)
    return replace(record, tensors=replace(tensors, after=replace(tensors.after, **{role: tensor})))


def without(record: CallRecord, role: str) -> CallRecord:
    tensors = record.tensors
    return replace(record, tensors=replace(tensors, after=replace(tensors.after, **{role: None})))


def refused(record: CallRecord) -> CallRecord:
    """The record of a call that left everything where it was."""
    before = record.tensors.before
    kept = replace(record.tensors.after, delta=before.delta, perturbed_input=before.perturbed_input)
    return with_(
        replace(record, tensors=replace(record.tensors, after=kept)),
        update={"returned": False},
        delta={"moved_fraction": 0.0, "moved_max": 0.0},
        effect={"changed_fraction": 0.0, "cosine": None},
    )


def no_gradient(reason: str | None) -> CallRecord:
    return replace(UPDATE, gradient=GradientFacts(present=False, reason=reason, backwards=0))


IN_PLACE = "refused: delta and perturbed input left in place, unchanged"

GRADIENT = {
    "healthy": (UPDATE, "ok", f"gradient norm {UPDATE.gradient.norm:.3g}, finite"),
    "creation": (CREATION, "ok", "no gradient yet: this call created delta"),
    "no delta": (no_gradient("no-delta"), "warn", "no gradient: there was no delta at entry"),
    "non-leaf": (
        no_gradient("nonleaf"),
        "warn",
        "no gradient: delta was not a leaf, so backward filled none",
    ),
    "requires_grad off": (
        no_gradient("requires-grad-off"),
        "warn",
        "no gradient: delta's requires_grad was off",
    ),
    "no backward": (
        no_gradient("no-backward"),
        "warn",
        "no gradient: no backward was started since the last update",
    ),
    "not filled": (
        no_gradient("not-filled"),
        "warn",
        "no gradient: a backward ran, but did not fill delta.grad",
    ),
    "no reason": (
        replace(no_gradient(None), unknown=(Unknown("gradient", "tensor of a subclass"),)),
        "warn",
        "no gradient; why is unknown: tensor of a subclass",
    ),
    "no backward, raised": (
        with_(no_gradient("no-backward"), update={"raised": RAISED, "returned": None}),
        "bad",
        "no gradient: no backward was started since the last update;"
        " the update raised AttributeError",
    ),
    "NaN, refused": (
        with_(refused(UPDATE), gradient={"nan": 3, "inf": 0, "norm": float("nan")}),
        "bad",
        f"gradient holds 3 NaN; {IN_PLACE}",
    ),
    "NaN and Inf, used": (
        with_(UPDATE, gradient={"nan": 1234, "inf": 2, "norm": float("nan")}),
        "bad",
        "gradient holds 1,234 NaN and 2 Inf",
    ),
    "NaN, refused, but delta moved": (
        with_(refused(UPDATE), gradient={"nan": 1}, delta={"moved_fraction": 0.5}),
        "bad",
        "gradient holds 1 NaN; refused: perturbed input left in place, unchanged",
    ),
    "NaN, refused, nothing proved": (
        with_(UPDATE, gradient={"nan": 1}, update={"returned": False}),
        "bad",
        "gradient holds 1 NaN; refused",
    ),
    "not finite, counts unknown": (
        with_(UPDATE, gradient={"nan": None, "inf": None, "norm": float("inf")}),
        "bad",
        "gradient norm is Inf",
    ),
    "zero": (with_(UPDATE, gradient={"norm": 0.0}), "warn", "gradient is zero everywhere"),
    "guard": (
        with_(UPDATE, gradient={"guard_fraction": 0.625, "norm": 3e-7}),
        "warn",
        "guard 1e-6 dominates: 62.5 % of rows lie below it, norm 3e-07",
    ),
    "half below the guard": (
        with_(UPDATE, gradient={"guard_fraction": 0.5, "norm": 0.25}),
        "ok",
        "gradient norm 0.25, finite",
    ),
    "overflow": (
        with_(refused(UPDATE), gradient={"norm": 1.2e20, "norm_in_dtype": float("inf")}),
        "bad",
        f"gradient is finite, but its norm 1.2e+20 overflows float32; {IN_PLACE}",
    ),
    "underflow": (
        with_(UPDATE, gradient={"norm": 1e-30, "norm_in_dtype": 0.0}),
        "warn",
        "gradient norm 1e-30 underflows to 0 in float32",
    ),
    "refused": (
        with_(UPDATE, gradient={"norm": 0.5}, update={"returned": False}),
        "warn",
        "gradient norm 0.5, finite; refused",
    ),
    "raised": (
        with_(UPDATE, gradient={"norm": 0.5}, update={"raised": RAISED}),
        "bad",
        "gradient norm 0.5, finite; the update raised AttributeError",
    ),
    "unknown": (
        replace(
            with_(UPDATE, gradient={"norm": None}),
            unknown=(Unknown("gradient", "fake tensors have no values"),),
        ),
        "warn",
        "gradient there, its norm unknown: fake tensors have no values",
    ),
}

HALF = after(UPDATE, "perturbed_input", dtype="torch.bfloat16")

DELTA = {
    "created": (
        CREATION,
        "ok",
        "delta created, clamped to its creation bound 0.02, 188 exactly at it",
    ),
    "created, none at the bound": (
        with_(CREATION, delta={"at_bound": 0}),
        "ok",
        "delta created, within its creation bound 0.02",
    ),
    "created beyond": (
        with_(CREATION, delta={"beyond": 1}),
        "bad",
        "delta created with 1 of 4,096 elements beyond its creation bound 0.02",
    ),
    "created, no bound": (
        with_(CREATION, delta={"bound": None, "bound_kind": None, "beyond": None}),
        "ok",
        "delta created, max 0.02; no bound declared",
    ),
    "left its creation bound": (
        UPDATE,
        "note",
        "creation bound 0.02: 3 of 4,096 elements beyond"
        " (creation is clamped, later updates are not)",
    ),
    "within its creation bound": (
        with_(UPDATE, delta={"beyond": 0, "max_abs": 0.015}),
        "ok",
        "within its creation bound 0.02, max 0.015",
    ),
    "left a bound that is always kept": (
        with_(UPDATE, delta={"bound_kind": "always", "bound": 0.03}),
        "bad",
        "3 of 4,096 elements beyond bound 0.03, which every update should keep",
    ),
    "within a bound that is always kept": (
        with_(UPDATE, delta={"bound_kind": "always", "beyond": 0, "max_abs": 0.02}),
        "ok",
        "within its bound 0.02, max 0.02",
    ),
    "no bound": (
        with_(UPDATE, delta={"bound": None, "bound_kind": None, "beyond": None, "max_abs": 0.5}),
        "ok",
        "max 0.5; no bound declared",
    ),
    "bound unknown": (
        replace(
            with_(UPDATE, delta={"bound": None, "beyond": None, "max_abs": 0.5}),
            unknown=(Unknown("delta.bound", "the attribute is no number"),),
        ),
        "ok",
        "max 0.5; bound unknown: the attribute is no number",
    ),
    "not counted": (
        with_(UPDATE, delta={"beyond": None, "max_abs": 0.5}),
        "note",
        "max 0.5; whether within the bound is unknown: it was not recorded",
    ),
    "NaN": (with_(UPDATE, delta={"nan": 12, "inf": 0}), "bad", "delta holds 12 NaN"),
    "Inf": (with_(UPDATE, delta={"nan": 0, "inf": 2}), "bad", "delta holds 2 Inf"),
    "did not move": (with_(UPDATE, delta={"moved_fraction": 0.0}), "warn", "delta did not move"),
    "refused": (refused(UPDATE), "warn", "delta did not move: the update was refused"),
    "zero gradient": (
        with_(UPDATE, delta={"moved_fraction": 0.0}, gradient={"norm": 0.0}),
        "warn",
        "delta did not move: the gradient is zero",
    ),
    "raised": (
        with_(UPDATE, delta={"moved_fraction": 0.0}, update={"raised": RAISED}),
        "bad",
        "delta did not move: the update raised",
    ),
    "rounded away": (
        with_(HALF, effect={"changed_fraction": 0.022}),
        "warn",
        "2.2 % of the perturbed input followed: bfloat16 rounds the step away",
    ),
    "not followed, cause unknown": (
        with_(UPDATE, effect={"changed_fraction": 0.0}),
        "warn",
        "0 % of the perturbed input followed, though 100 % of delta moved",
    ),
    "followed where delta moved": (
        with_(
            HALF,
            effect={"changed_fraction": 0.1},
            delta={"moved_fraction": 0.15, "beyond": 0, "max_abs": 0.01},
        ),
        "ok",
        "within its creation bound 0.02, max 0.01",
    ),
    "none": (without(UPDATE, "delta"), "note", "there is no delta"),
    "hidden": (
        replace(
            without(UPDATE, "delta"), unknown=(Unknown("tensors.after.delta", "no such name"),)
        ),
        "note",
        "delta unknown: no such name",
    ),
    "values hidden": (
        replace(
            with_(UPDATE, delta={"norm": None, "max_abs": None, "nan": None, "inf": None}),
            unknown=(Unknown("delta", "meta tensors have no values"),),
        ),
        "warn",
        "delta's values unknown: meta tensors have no values",
    ),
}

LEAF = {
    "leaf": (UPDATE, "ok", "delta is a leaf: backward will fill delta.grad"),
    "gradient not cleared": (
        after(UPDATE, "delta", has_grad=True),
        "note",
        "delta is a leaf: backward will add to what delta.grad holds",
    ),
    "requires_grad off": (
        after(UPDATE, "delta", requires_grad=False),
        "warn",
        "delta is a leaf, but requires_grad is off: backward will not fill delta.grad",
    ),
    "non-leaf": (
        after(UPDATE, "delta", is_leaf=False, grad_fn="AddBackward0"),
        "bad",
        "delta is not a leaf (AddBackward0): backward will not fill delta.grad",
    ),
    "non-leaf that retains": (
        after(UPDATE, "delta", is_leaf=False, grad_fn="AddBackward0", retains_grad=True),
        "note",
        "delta is not a leaf (AddBackward0), but retains its gradient: backward will fill it",
    ),
    "not reached": (
        replace(UPDATE, backward_reaches=Reach(("fc.weight",), True)),
        "warn",
        "delta is a leaf, but a backward from the perturbed input will not reach it",
    ),
    "walk not complete": (
        replace(UPDATE, backward_reaches=Reach(("fc.weight",), False)),
        "ok",
        "delta is a leaf: backward will fill delta.grad",
    ),
    "reach unknown": (
        replace(
            UPDATE, backward_reaches=Reach(), unknown=(Unknown("backward_reaches", "no graph"),)
        ),
        "ok",
        "delta is a leaf: backward will fill delta.grad",
    ),
    "unknown": (
        replace(
            after(UPDATE, "delta", is_leaf=None),
            unknown=(Unknown("tensors.after.delta.is_leaf", "it raised TypeError"),),
        ),
        "warn",
        "whether delta is a leaf is unknown: it raised TypeError",
    ),
    "none": (without(UPDATE, "delta"), "note", "there is no delta"),
}

LIVE = " (compared among live tensors only)"
ALIAS = replace(
    UPDATE,
    storages={
        "A": StorageFacts(1, 16, ("input", "perturbed_input")),
        "B": StorageFacts(2, 16, ("delta",)),
    },
    shared=(("input", "perturbed_input"),),
)

STORAGE = {
    "separate": (UPDATE, "ok", "separate storages: input A, delta B, perturbed input C" + LIVE),
    "shared": (ALIAS, "warn", "input and perturbed input share storage A" + LIVE),
    "all shared": (
        replace(
            ALIAS,
            storages={"A": StorageFacts(1, 16, ("input", "delta", "perturbed_input"))},
            shared=(("input", "delta"), ("input", "perturbed_input"), ("delta", "perturbed_input")),
        ),
        "warn",
        "input and delta share storage A; input and perturbed input share storage A;"
        " 1 more pair" + LIVE,
    ),
    "with the delta that was there at entry": (
        replace(UPDATE, shared=(("before.delta", "perturbed_input"),)),
        "warn",
        "delta at entry and perturbed input share storage D" + LIVE,
    ),
    "hidden": (
        replace(
            UPDATE,
            storages={"B": StorageFacts(2, 16, ("delta", "perturbed_input"))},
            unknown=(Unknown("tensors.after.input.storage", "sparse tensors have none"),),
        ),
        "note",
        "storage of input unknown: sparse tensors have none" + LIVE,
    ),
    "alone": (
        without(without(UPDATE, "input"), "perturbed_input"),
        "note",
        "nothing to compare: only delta is there" + LIVE,
    ),
    "not compared": (
        replace(UPDATE, unknown=(Unknown("shared", "not looked at"),)),
        "note",
        "who shares is unknown: not looked at" + LIVE,
    ),
}

UPDATES = {
    "healthy": (UPDATE, "ok", "the update returned True; delta moved by at most 0.0001"),
    "creation": (CREATION, "ok", "delta was created"),
    "refused": (
        refused(UPDATE),
        "warn",
        "the update was refused (returned False): delta and perturbed input left in place,"
        " unchanged",
    ),
    "raised": (
        with_(UPDATE, update={"raised": RAISED}),
        "bad",
        "the update raised AttributeError at line 43: 'NoneType' object has no attribute 'norm'",
    ),
    "still": (
        with_(UPDATE, delta={"moved_fraction": 0.0}),
        "note",
        "the update returned True; delta did not move",
    ),
}

CASES = [
    pytest.param(function, *case, id=f"{function.__name__}: {name}")
    for function, cases in (
        (verdict.gradient, GRADIENT),
        (verdict.delta, DELTA),
        (verdict.leaf, LEAF),
        (verdict.storage, STORAGE),
        (verdict.update, UPDATES),
    )
    for name, case in cases.items()
]


@pytest.mark.parametrize(("function", "record", "level", "text"), CASES)
def test_the_verdict_says_what_the_facts_say(
    function: Callable[[CallRecord], verdict.Verdict],
    record: CallRecord,
    level: verdict.Level,
    text: str,
) -> None:
    assert function(record) == verdict.Verdict(text, level)


def test_a_node_that_made_delta_is_named_where_there_is_no_gradient() -> None:
    before = UPDATE.tensors.before
    assert before.delta is not None
    nonleaf = replace(before, delta=replace(before.delta, is_leaf=False, grad_fn="AddBackward0"))
    record = replace(no_gradient("nonleaf"), tensors=replace(UPDATE.tensors, before=nonleaf))
    text = "no gradient: delta was not a leaf (AddBackward0), so backward filled none"
    assert verdict.gradient(record).text == text


def test_a_refused_update_is_not_called_unchanged_where_memory_or_version_differ() -> None:
    for fields in ({"data_ptr": 64}, {"version": 1}, {"storage": "Z"}, {"storage": None}):
        record = with_(after(refused(UPDATE), "delta", **fields), gradient={"nan": 1})
        assert "delta" not in verdict.gradient(record).text.split("refused")[1].split("and")[0]


def test_any_record_has_a_verdict_of_one_line_for_every_panel() -> None:
    random = Random(23)
    for ident in range(1, 400):
        record = _records.record(random, ident)
        for function in (verdict.gradient, verdict.delta, verdict.leaf, verdict.storage):
            said = function(record)
            assert said.text
            assert said.level in ("ok", "note", "warn", "bad")


def test_shares_are_0_and_100_per_cent_only_where_they_are_exactly_that() -> None:
    fractions = (0.0, 1e-9, 0.022, 0.5, 0.9994, 0.99999, 1.0, None)
    assert [share(fraction) for fraction in fractions] == [
        "0 %", "<0.1 %", "2.2 %", "50 %", ">99.9 %", ">99.9 %", "100 %", "-",
    ]  # fmt: skip


def test_numbers_are_written_short_and_say_when_they_are_not_finite() -> None:
    values = (0.00208123, 1e30, -0.0, float("nan"), float("-inf"), None)
    assert [number(value) for value in values] == ["0.00208", "1e+30", "0", "NaN", "-Inf", "-"]
