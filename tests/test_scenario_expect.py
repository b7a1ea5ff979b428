"""Expectations are held against records."""

from __future__ import annotations

from typing import Any

import pytest

from pertdbg.record import (
    CallRecord,
    DeltaFacts,
    EffectFacts,
    GradientFacts,
    Graphs,
    Raised,
    Reach,
    Tensors,
    Unknown,
    UpdateFacts,
)
from pertdbg.scenario.expect import evaluate, fields, value_of
from pertdbg.scenario.model import Expect


def record(call: int, *, created: bool = False, layer: str = "pert", **parts: Any) -> CallRecord:
    known: dict[str, Any] = {
        "update": UpdateFacts(created=created, returned=True, raised=None),
        "gradient": GradientFacts(present=not created),
        "delta": DeltaFacts(),
        "effect": EffectFacts(),
        "shared": (),
        **parts,
    }
    return CallRecord(
        id=call,
        call=call,
        batch=1,
        step=call - 1,
        layer=layer,
        rank=0,
        source_line=None,
        tensors=Tensors(),
        storages={},
        backward_reaches=Reach(),
        graph=Graphs(),
        **known,
    )


def met(conditions: dict[str, Any], found: CallRecord) -> bool:
    expect = Expect.model_validate({"call": found.call, **conditions})
    return evaluate([expect], [found])[0].met


NAN = float("nan")


@pytest.mark.parametrize(
    ("norm", "conditions", "expected"),
    [
        (2.0, {"equals": 2.0}, True),
        (2.0, {"equals": 2}, True),
        (1.0, {"equals": True}, False),
        (2.0, {"equals": 3.0}, False),
        (NAN, {"equals": NAN}, True),
        (NAN, {"not_equals": NAN}, False),
        (None, {"equals": 2.0}, False),
        (None, {"not_equals": 2.0}, True),
        (2.0, {"above": 2.0}, False),
        (2.0, {"at_least": 2.0}, True),
        (2.0, {"below": 2.0}, False),
        (2.0, {"at_most": 2.0}, True),
        (2.0, {"above": 1.0, "below": 3.0}, True),
        (4.0, {"above": 1.0, "below": 3.0}, False),
        (NAN, {"above": 0.0}, False),
        (NAN, {"below": 0.0}, False),
        (float("inf"), {"above": 1e300}, True),
        (None, {"above": 0.0}, False),
        (None, {"null": True}, True),
        (None, {"null": False}, False),
        (0.0, {"null": False}, True),
    ],
)
def test_a_condition_on_a_number(
    norm: float | None, conditions: dict[str, Any], expected: bool
) -> None:
    found = record(2, gradient=GradientFacts(present=True, norm=norm))
    assert met({"field": "gradient.norm", **conditions}, found) is expected


def test_lists_texts_and_flags_are_compared_as_toml_writes_them() -> None:
    raised = Raised("AttributeError", "'NoneType' object has no attribute 'norm'", 7)
    update = UpdateFacts(created=False, returned=None, raised=raised)
    found = record(2, shared=(("input", "perturbed_input"),), update=update)
    assert met({"field": "shared", "equals": [["input", "perturbed_input"]]}, found)
    assert met({"field": "shared", "contains": ["input", "perturbed_input"]}, found)
    assert not met({"field": "shared", "equals": []}, found)
    assert not met({"field": "shared", "contains": "input"}, found)
    assert met({"field": "update.raised.message", "contains": "NoneType"}, found)
    assert met({"field": "update.created", "equals": False}, found)
    assert not met({"field": "update.created", "equals": 0}, found)


def test_a_reason_is_that_of_the_record_and_only_where_there_is_no_value() -> None:
    unknown = (Unknown("effect.cosine", "nothing-moved"), Unknown("delta", "created"))
    found = record(2, unknown=unknown, delta=DeltaFacts(norm=1.0))
    assert met({"field": "effect.cosine", "reason": "nothing-moved"}, found)
    assert not met({"field": "effect.cosine", "reason": "created"}, found)
    assert met({"field": "delta.moved_max", "reason": "created"}, found)
    assert not met({"field": "delta.norm", "reason": "created"}, found)


def test_a_path_through_null_is_null() -> None:
    assert value_of(record(1), "update.raised.type") is None
    assert value_of(record(1), "tensors.after.delta.shape") is None


def test_every_field_that_is_offered_can_be_looked_up() -> None:
    assert "tensors.before.perturbed_input.version" in fields()
    assert "graph.delta.depth" in fields()
    for field in fields():
        value_of(record(1), field)


def test_an_expectation_of_every_update_passes_over_creations_and_names_the_first_failure() -> None:
    records = [record(1, created=True)]
    for call, norm in ((2, 1.0), (3, 5.0), (4, 6.0)):
        records.append(record(call, gradient=GradientFacts(present=True, norm=norm)))
    expect = Expect(calls="updates", field="gradient.norm", below=2.0)
    (outcome,) = evaluate([expect], records)
    assert (outcome.met, outcome.calls) == (False, 3)
    assert outcome.text == "every update: gradient.norm below 2.0; call 3: it is 5.0"


def test_a_call_that_was_not_made_meets_nothing() -> None:
    expects = [
        Expect(call=9, field="step", equals=8),
        Expect(calls="creations", field="step", equals=0),
        Expect(call=2, field="step", layer="other", equals=1),
    ]
    outcomes = evaluate(expects, [record(2)])
    assert [outcome.met for outcome in outcomes] == [False, False, False]
    assert outcomes[0].text == "call 9: step equals 8; no such call was made"
    assert outcomes[2].text.startswith("call 2 of other: ")


def test_an_expectation_that_is_met_says_so() -> None:
    (outcome,) = evaluate([Expect(call=2, field="step", equals=1)], [record(2)])
    assert (outcome.met, outcome.calls, outcome.text) == (True, 1, "call 2: step equals 1")
