"""The language of conditions, against Python's own evaluation and tables of three values."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from _expressions import FLOATS, comparison_text, truth_text
from _records import healthy, record, records
from pertdbg.conditions import (
    NAMED,
    Condition,
    ConditionError,
    Counter,
    complete,
    field_names,
    parse,
)
from pertdbg.record import (
    CallRecord,
    DeltaFacts,
    EffectFacts,
    GradientFacts,
    Raised,
    Unknown,
    UpdateFacts,
)

MATHS = ("inf", "nan", "sqrt", "log10", "isnan", "isinf", "isfinite")

numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, -0.0, 1.0, math.nan, math.inf, -math.inf, 1e308, 5e-324]),
)
counts = st.integers(0, 2**63 - 1)


def made(floats: Any, whole: Any, truths: Any) -> CallRecord:
    """A record with these values in the fields above."""
    return dataclasses.replace(
        healthy(7),
        call=whole[0],
        step=whole[1],
        gradient=GradientFacts(truths[1], norm=floats[0], nan=whole[3]),
        delta=DeltaFacts(norm=floats[1], mean=floats[2], beyond=whole[2]),
        effect=EffectFacts(cosine=floats[3]),
        update=UpdateFacts(truths[0], True, None),
    )


def names_of(record: CallRecord) -> dict[str, Any]:
    """The same values under plain Python names, for `eval`."""
    return {
        "gradient": SimpleNamespace(
            norm=record.gradient.norm, nan=record.gradient.nan, present=record.gradient.present
        ),
        "delta": SimpleNamespace(
            norm=record.delta.norm, mean=record.delta.mean, beyond=record.delta.beyond
        ),
        "effect": SimpleNamespace(cosine=record.effect.cosine),
        "update": SimpleNamespace(created=record.update.created),
        **{name: getattr(record, name) for name in ("call", "step", "layer")},
        **{name: getattr(math, name) for name in MATHS},
    }


def by_python(text: str, record: CallRecord) -> Any:
    """What Python itself makes of the text; an error of arithmetic is None."""
    try:
        return eval(text, {"__builtins__": {"abs": abs, "min": min, "max": max}}, names_of(record))
    except (ArithmeticError, ValueError):
        return None


@settings(max_examples=400, deadline=None)
@given(
    st.integers(0, 2**32),
    st.lists(numbers, min_size=4, max_size=4),
    st.lists(counts, min_size=4, max_size=4),
    st.lists(st.booleans(), min_size=2, max_size=2),
)
def test_numbers_and_comparisons_are_those_of_python(
    seed: int, floats: Any, whole: Any, truths: Any
) -> None:
    found = made(floats, whole, truths)
    text = comparison_text(Random(seed), 2)
    wanted = by_python(text, found)
    assert parse(text).value(found) == wanted or (
        # Python stops a chain at the first comparison that is false, and so never sees an error
        # behind it; nor does ours. In front of it, Python raises and ours is settled all the same.
        wanted is None and parse(text).value(found) is False and len(text.split()) > 3
    )


@settings(max_examples=400, deadline=None)
@given(
    st.integers(0, 2**32),
    st.lists(numbers, min_size=4, max_size=4),
    st.lists(counts, min_size=4, max_size=4),
    st.lists(st.booleans(), min_size=2, max_size=2),
)
def test_logic_over_known_values_is_that_of_python(
    seed: int, floats: Any, whole: Any, truths: Any
) -> None:
    found = made(floats, whole, truths)
    text = truth_text(Random(seed), 3)
    wanted = by_python(text, found)
    if wanted is not None:
        value = parse(text).value(found)
        assert type(value) is bool
        assert value == wanted


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.sets(st.sampled_from(FLOATS), min_size=1, max_size=2))
def test_what_is_said_of_unknown_values_holds_whatever_they_are(
    seed: int, unknown: set[str]
) -> None:
    random = Random(seed)
    text = truth_text(random, 2)
    if "is None" in text:
        return
    values: dict[str, Any] = {name: random.uniform(-2, 2) for name in FLOATS}
    whole, truths = [3, 2, 1, 0], [False, True]
    holes = made([None if n in unknown else values[n] for n in FLOATS], whole, truths)
    said = parse(text).value(holes)
    for filling in itertools.product([-1.0, 0.0, 1.5, math.nan, math.inf], repeat=len(unknown)):
        filled = {**values, **dict(zip(sorted(unknown), filling, strict=True))}
        wanted = by_python(text, made([filled[n] for n in FLOATS], whole, truths))
        assert said is None or wanted is None or said == wanted


THREE: dict[str, bool | None] = {
    "gradient.norm > 0": None,
    "delta.norm > 0": True,
    "delta.norm < 0": False,
}


@pytest.mark.parametrize(("a", "b"), list(itertools.product(THREE, THREE)))
def test_and_or_and_not_follow_the_tables_of_three_values(a: str, b: str) -> None:
    found = made([None, 1.0, 1.0, 1.0], [3, 2, 1, 0], [False, True])
    one, other = THREE[a], THREE[b]
    order = {False: 0, None: 1, True: 2}
    assert parse(f"{a} and {b}").value(found) is min(one, other, key=order.__getitem__)
    assert parse(f"{a} or {b}").value(found) is max(one, other, key=order.__getitem__)
    assert parse(f"not {a}").value(found) is {False: True, None: None, True: False}[one]
    assert parse(f"({a}) is None").value(found) is (one is None)
    assert parse(f"({a}) is False").value(found) is (one is False)


def test_every_field_is_the_records_own_whatever_it_holds() -> None:
    for found in records(5, 60):
        for name in field_names():
            wanted: Any = found
            for part in name.split("."):
                wanted = None if wanted is None else getattr(wanted, part)
            wanted = tuple(wanted) if isinstance(wanted, dict) else wanted
            value = parse(name).value(found)
            assert value == wanted or (value != value and wanted != wanted), name


def pair(**given: Any) -> tuple[CallRecord, CallRecord]:
    """Two calls of a layer that differ in delta's facts."""
    before, now = healthy(2), healthy(3)
    same = dataclasses.replace(now, delta=before.delta, effect=before.effect)
    return dataclasses.replace(same, delta=dataclasses.replace(same.delta, **given)), before


def test_changed_compares_with_the_call_before_and_null_is_a_value() -> None:
    for facts, wanted in (
        ({}, False),
        ({"beyond": 4}, True),
        ({"beyond": None}, True),
        ({"beyond": 3}, False),
    ):
        assert parse("changed(delta.beyond)").value(*pair(**facts)) is wanted
    now, before = pair(mean=math.nan)
    assert parse("changed(delta.mean)").value(now, before) is True
    assert parse("changed(delta.mean)").value(now, now) is False
    assert parse("changed(delta.beyond > 3)").value(*pair(beyond=4)) is True
    assert parse("changed(delta.beyond)").value(now, None) is None
    gone = dataclasses.replace(now, unknown=(Unknown("delta.mean", "why"),))
    gone = dataclasses.replace(gone, delta=dataclasses.replace(gone.delta, mean=None))
    assert parse("changed(delta.mean)").value(gone, before) is None
    assert parse("changed(delta.mean)").value(before, gone) is None


def test_shares_says_who_shares_at_exit_and_with_what_was_there_at_entry() -> None:
    plain = healthy(5)
    assert parse("shares(input, perturbed_input)").value(plain) is False
    assert parse("shares(input, before.input)").value(plain) is True
    assert parse("shares(delta, before.delta)").value(plain) is False
    both = dataclasses.replace(plain, shared=(("input", "perturbed_input"),))
    assert parse("shares(perturbed_input, input)").value(both) is True
    first = healthy(1)
    assert parse("shares(delta, before.delta)").value(first) is None
    why = parse("shares(delta, before.delta)").why_unknown(first)
    assert why == "before.delta is unknown at call 1: there is no tensors.before.delta"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("gradient.norm > 1", "gradient.norm is unknown at call 1: no-delta"),
        ("delta.moved_max > 0", "delta.moved_max is unknown at call 1: created"),
        (
            "tensors.before.delta.version > 0",
            "tensors.before.delta.version is unknown at call 1: there is no tensors.before.delta",
        ),
        ("changed(delta.norm)", "there is no earlier call of the layer to compare with"),
        ("delta.norm / 0 > 1", "the arithmetic has no result: a division by zero, or a number"),
        ("update.raised.line > 3", "update.raised.line is unknown at call 1: there is no update."),
        ("delta.norm > 0", ""),
    ],
)
def test_an_unknown_value_says_why(text: str, why: str) -> None:
    said = parse(text).why_unknown(healthy(1))
    assert said.startswith(why)
    assert bool(said) is bool(why)


WRONG = [
    ("gradiant.norm > 1", 1, "there is no field gradiant.norm; did you mean gradient.norm?"),
    ("1 < gradient.nrm", 5, "there is no field gradient.nrm; did you mean gradient.norm?"),
    ("call > 1 and delta.nan > 'x'", 14, "a number > a text has no meaning"),
    ("update.created == 'yes'", 1, "true or false == a text has no meaning"),
    ("not (layer < 3)", 6, "a text < a number has no meaning"),
    ("layer", 1, "it is neither true nor false"),
    ("not gradient.norm", 5, "it is a number, and true or false is needed; compare it, as in > 0"),
    ("delta > 3", 1, "a group of fields > a number has no meaning; name one of its fields"),
    ("delta.norm.real > 3", 1, "there is no field delta.norm.real; did you mean delta.norm?"),
    ("open('x')", 1, "only these can be called: abs, changed"),
    ("delta.norm.hex() == 'x'", 1, "only these can be called"),
    ("sqrt(1, 2) > 0", 1, "sqrt takes 1 argument"),
    ("max(call) > 0", 1, "max takes 2 to 8 arguments"),
    ("shares(delta, call)", 15, "shares takes two of delta, input"),
    ("shares(delta)", 1, "shares takes two of delta, input"),
    ("changed(changed(call))", 9, "changed can't stand inside changed"),
    ("call = 3", 6, "to compare write =="),
    ("a := 3", 3, "`:` has no place here"),
    ("call >", 7, ""),
    ("call > 3 &", 10, "write and, or, not"),
    ("[x for x in shared]", 1, "ListComp has no place in a condition"),
    ("call if call else call", 1, "if and else has no place in a condition"),
    ("(lambda: 1)", 8, "has no place here"),
    ("f'{call}' == 'x'", 1, "a name has ASCII letters"),
    ("call > 2 ** 99", 13, "a power is a whole number of at most 16"),
    ("call ** step > 2", 9, "a power is a whole number of at most 16"),
    ("'a' * 9 == 'b'", 1, "it is a text, and a number is needed"),
    ("update.created + 1 > 0", 1, "it is true or false, and a number is needed"),
    ("call == None", 9, "None stands behind is, or is not, only"),
    ("call is 3", 9, "behind is stands None, True or False; to compare write =="),
    ("call is True", 1, "it is a number, never True"),
    ("call in (1, 'a')", 9, "a list is of numbers or of texts"),
    ("call in (1, step)", 9, "a list is of numbers or of texts"),
    ("call in layer", 1, "a number in a text has no meaning"),
    ("call in ()", 9, "a list is of numbers or of texts, written out, at least one"),
    ("findings[call] == 'x'", 10, "an item is chosen by a whole number"),
    ("findings[0:1] == 'x'", 11, "`:` has no place here"),
    ("call > 18446744073709551616", 8, "a whole number has at most 64 bits"),
    ("abs(x=1) > 0", 6, "to compare write =="),
    ("call > 1_000", 8, "a number is written like"),
    ("call > 0x10", 8, "a number is written like"),
    ("call > 3j", 8, "a number is written like"),
    ("", 1, "it is empty"),
    ("   ", 1, "it is empty"),
    ("call > 1\nand call < 3", 9, "has no place here"),
    ("d\N{CYRILLIC SMALL LETTER IE}lta.norm > 1", 1, "a name has ASCII letters"),
    ("\N{MATHEMATICAL BOLD SMALL C}all > 1", 1, "has no place here"),
    ("'\\x41' == layer", 1, "a text ends with the quote"),
    ("'abc == layer", 1, "a text ends with the quote"),
    ("nan-gradint", 1, "no condition is called that; did you mean nan-gradient?"),
]


@pytest.mark.parametrize(("text", "column", "problem"), WRONG, ids=[w[0] for w in WRONG])
def test_what_is_no_condition_is_refused_with_its_place(
    text: str, column: int, problem: str
) -> None:
    with pytest.raises(ConditionError) as caught:
        Condition(text)
    assert (caught.value.column, problem in caught.value.problem) == (column, True), caught.value
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("sign", ["+", "-", "*", "/", "//", "%", "**"])
def test_arithmetic_never_makes_a_number_beyond_the_limit(sign: str) -> None:
    text = "call"
    while len(text) < 900:
        text = f"({text}) ** 16" if sign == "**" else f"({text}) {sign} (call ** 16)"
        if text.count("(") > 25:
            break
    value = parse(text).value(dataclasses.replace(healthy(2), call=2**62))
    assert value is None or not isinstance(value, int) or value.bit_length() <= 1024


def test_lists_are_looked_into() -> None:
    found = dataclasses.replace(healthy(3), findings=("a", "b"))
    for text, wanted in (
        ('"delta" in backward_reaches.perturbed_input', True),
        ('"fc" not in backward_reaches.perturbed_input', True),
        ("tensors.after.delta.shape[0] == 4", True),
        ("tensors.after.delta.shape[-1] == 64", True),
        ("tensors.after.delta.shape[7] == 64", None),
        ("tensors.after.delta.shape == (4, 16, 64)", True),
        ("tensors.after.delta.shape != (4, 16)", True),
        ("64 in tensors.after.delta.shape", True),
        ("len(findings) == 2 and findings[1] == 'b'", True),
        ('"A" in storages and storages[0] == "A"', True),
        ("len(shared) > 0", False),
        ("len(layer) == 12", True),
        ("unknown is None", False),
    ):
        assert parse(text).value(found) is wanted, text


CASES: dict[str, Callable[[CallRecord], CallRecord]] = {
    "created": lambda r: dataclasses.replace(r, update=UpdateFacts(True, True, None)),
    "refused": lambda r: dataclasses.replace(r, update=UpdateFacts(False, False, None)),
    "raised": lambda r: dataclasses.replace(
        r, update=UpdateFacts(False, None, Raised("ValueError", "x", 3))
    ),
    "nan-gradient": lambda r: _gradient(r, nan=1),
    "inf-gradient": lambda r: _gradient(r, inf=2),
    "zero-gradient": lambda r: _gradient(r, max_abs=0.0),
    "no-gradient": lambda r: dataclasses.replace(r, gradient=GradientFacts(False, "nonleaf")),
    "nan-delta": lambda r: _delta(r, nan=1),
    "inf-delta": lambda r: _delta(r, inf=1),
    "leaf-lost": lambda r: _after(r, is_leaf=False),
    "flag-off": lambda r: _after(r, requires_grad=False),
    "shared": lambda r: dataclasses.replace(r, shared=(("delta", "input"),)),
    "out-of-bound": lambda r: _delta(r, beyond=1),
    "not-moved": lambda r: _delta(r, moved_max=0.0),
    "invisible": lambda r: dataclasses.replace(
        r, effect=dataclasses.replace(r.effect, visible_fraction=0.0)
    ),
    "unreached": lambda r: dataclasses.replace(
        r, backward_reaches=dataclasses.replace(r.backward_reaches, perturbed_input=("w",))
    ),
    "dtype-changed": lambda r: _after(r, dtype="float16"),
    "shape-changed": lambda r: _after(r, shape=(4, 16, 65)),
}


def _gradient(record: CallRecord, **given: Any) -> CallRecord:
    return dataclasses.replace(record, gradient=dataclasses.replace(record.gradient, **given))


def _delta(record: CallRecord, **given: Any) -> CallRecord:
    return dataclasses.replace(record, delta=dataclasses.replace(record.delta, **given))


def _after(record: CallRecord, **given: Any) -> CallRecord:
    after = record.tensors.after
    assert after.delta is not None
    changed = dataclasses.replace(after, delta=dataclasses.replace(after.delta, **given))
    return dataclasses.replace(record, tensors=dataclasses.replace(record.tensors, after=changed))


@pytest.mark.parametrize("name", list(NAMED))
def test_a_named_condition_holds_at_its_case_and_at_no_healthy_update(name: str) -> None:
    well = _delta(healthy(4), beyond=0)
    assert not Condition(name).holds(well, healthy(3))
    assert Condition(name).holds(CASES[name](well), healthy(3))
    assert NAMED[name].about


def test_hits_are_counted_and_stops_are_skipped() -> None:
    calls = [_delta(healthy(k), beyond=k % 3) for k in range(1, 40)]
    hits = [k for k in range(1, 40) if k % 3]
    for after, skip in itertools.product((1, 2, 7), (0, 1, 5)):
        counter = Counter(Condition("delta.beyond > 0", hits=after, skip=skip))
        stops = [r.id for r in calls if counter.stops(r, None)]
        assert stops == hits[after - 1 :: skip + 1]


def test_layer_and_rank_are_looked_at_before_hits_are_counted() -> None:
    random = Random(3)
    calls = [record(random, k) for k in range(1, 200)]
    counter = Counter(Condition("rank >= 0", hits=2, layer="encoder.pert", rank=3))
    fitting = [r.id for r in calls if r.layer == "encoder.pert" and r.rank == 3]
    assert [r.id for r in calls if counter.stops(r, None)] == fitting[1:]


LINES = {
    "nan-gradient": Condition("nan-gradient"),
    "call > 3; after 2 hits": Condition("call > 3", hits=2),
    "call > 3 ;after 1 hit; skip 4": Condition("call > 3", skip=4),
    "layer == 'a; skip 3'; rank 0": Condition("layer == 'a; skip 3'", rank=0),
    "call > 3; layer my layer/1": Condition("call > 3", layer="my layer/1"),
    " call > 3 ; after 9 hits; skip 1; layer x; rank 2 ": Condition("call > 3", 9, 1, "x", 2),
}


@pytest.mark.parametrize("line", list(LINES))
def test_a_condition_is_read_from_one_line_and_written_to_one(line: str) -> None:
    condition = Condition.of(line)
    assert condition == LINES[line]
    assert Condition.of(str(condition)) == condition
    assert Condition.from_json(condition.as_json()) == condition


@pytest.mark.parametrize(
    "line",
    [
        *("call > 3; afer 3", "call > 3; after x", "call > 3; after 0 hits", "call > 3; skip -1"),
        *("call > 3;", "; after 3", "call > 3; after 3; after 4", "call > 3; after 99999999999999"),
        *("call > 3; layer", "call > 3; rank 99999999999", "call > 3; skip 1 skip 2"),
    ],
)
def test_what_is_no_line_of_a_condition_is_refused(line: str) -> None:
    with pytest.raises(ConditionError):
        Condition.of(line)


@pytest.mark.parametrize(
    "data",
    [
        None,
        3,
        [],
        {},
        {"text": 3},
        {"text": "call > 1", "more": 1},
        {"text": "call > 1", "layer": 3},
    ]
    + [{"text": "call > 1", "hits": wrong} for wrong in (0, -1, True, "3", 1.5, None)],
)
def test_what_is_no_condition_in_json_is_refused(data: Any) -> None:
    with pytest.raises(ConditionError):
        Condition.from_json(data)


def test_completion_goes_on_with_fields_functions_and_roles() -> None:
    assert complete("gradient.no") == ["gradient.norm", "gradient.norm_in_dtype"]
    assert complete("call > 3 and gradient.norm > delta.be") == ["delta.beyond"]
    assert complete("tensors.") == ["tensors.before.", "tensors.after."]
    assert complete("chan") == ["changed("]
    assert "gradient." in complete("")
    assert complete("gradient.norm > 3 xyz") == []
    assert complete("delta.norm.") == []
