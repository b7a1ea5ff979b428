"""The reference layer's ablation, held against layers from which guards were removed by hand."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from _guards import SWITCHES, Seen, run_by_hand, write_scenario
from pertdbg.ablation.ablate import ablate
from pertdbg.ablation.compare import compare
from pertdbg.ablation.host import Runs
from pertdbg.ablation.report import Report, Result
from pertdbg.ablation.says import says
from pertdbg.ablation.variant import Target, Variant
from pertdbg.output.ablation import as_json, explain, json_lines, table

Config = tuple[str, bool, bool]
ALL: list[Config] = list(
    itertools.product(("float32", "bfloat16", "float16", "float64"), (True, False), (True, False))
)
"""Type, whether the clean pass has gradients, whether the parameters are frozen."""
USUAL: Config = ("float32", True, True)
WITHOUT: Config = ("float32", False, False)
WIDE: Config = ("float64", True, False)
FEW = (USUAL, WITHOUT, WIDE)
"""Those of which other tests need the ablation too."""


def disagreements(whole: Seen, hand: Seen, found: Result, dtype: str) -> list[str]:
    """Compare what was found without some guards with what the layer made by hand showed."""
    calls = min(len(whole.leaf), len(hand.leaf))
    expected: dict[str, object] = {
        "same": _same(whole, hand),
        "raised": hand.raised and (hand.raised[0], hand.raised[2]),
        "leaf-lost": _first(calls, lambda k: whole.leaf[k] and not hand.leaf[k]),
        "requires-grad-lost": _first(calls, lambda k: whole.asked[k] and not hand.asked[k]),
        "graph-deeper": _depths(whole, hand, calls),
        "gradient-leaks": _leaks(whole, hand),
        "dtype": _first(calls, lambda k: whole.dtypes[k][0] != hand.dtypes[k][0]),
    }
    observed: dict[str, object] = {
        "same": found.same,
        "raised": found.raised and (found.raised.type, found.raised.call),
        "leaf-lost": _call(found, "leaf-lost"),
        "requires-grad-lost": _call(found, "requires-grad-lost"),
        "graph-deeper": _found_depths(found),
        "gradient-leaks": _found_leaks(found),
        "dtype": _found_dtype(found),
    }
    return [
        f"{found.without} in {dtype}: {key} is {observed[key]}, by hand {expected[key]}"
        for key in expected
        if observed[key] != expected[key]
    ]


def _same(whole: Seen, hand: Seen) -> bool:
    a, b = vars(whole), vars(hand)
    return all(a[key] == b[key] for key in a)


def _first(calls: int, differs: object) -> int | None:
    assert callable(differs)
    return next((k + 1 for k in range(calls) if differs(k)), None)


def _depths(whole: Seen, hand: Seen, calls: int) -> tuple[int, int, int] | None:
    for k in range(calls):
        if whole.depth[k] != hand.depth[k]:
            return k + 1, whole.depth[k], hand.depth[k]
    return None


def _leaks(whole: Seen, hand: Seen) -> set[str]:
    pairs = zip(whole.filled, hand.filled, strict=False)
    return set().union(*(b - a for a, b in pairs))


def _call(found: Result, kind: str) -> int | None:
    return next((change.call for change in found.changes if change.kind == kind), None)


def _found_depths(found: Result) -> tuple[int, int, int] | None:
    for change in found.changes:
        data = change.data
        of_input = change.kind == "graph-deeper" and data["role"] == "perturbed_input"
        if of_input and data["depth"] != data["whole"]:
            return change.call, data["whole"], data["depth"]
    return None


def _found_leaks(found: Result) -> set[str]:
    change = found.has("gradient-leaks")
    names = set() if change is None else set(change.data["norms"])
    return {name for name in names if not name.startswith("delta of")}


def _found_dtype(found: Result) -> int | None:
    kinds = [c for c in found.changes if c.kind in ("dtype", "precision-lost")]
    return next((c.call for c in kinds if c.data["role"] == "delta"), None)


@pytest.fixture(scope="module")
def ablated(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Callable[[Config], Report]:
    """Give the ablation of a configuration, which is made when it is first asked for."""
    whole = request.config.getoption("--whole")

    @functools.cache
    def made(config: Config) -> Report:
        dtype, clean, freeze = config
        folder = tmp_path_factory.mktemp("ablated")
        scenario = write_scenario(folder, dtype, clean_gradients=clean, freeze=freeze)
        pairs, conditions = whole or config == USUAL, config in (USUAL, WITHOUT)
        return ablate(scenario, pairs=pairs, conditions=conditions)

    return made


@pytest.fixture
def plain(ablated: Callable[[Config], Report]) -> Report:
    """Give the ablation of the most usual configuration, pairs included."""
    return ablated(USUAL)


def named(report: Report) -> dict[str, str]:
    """Tell which guard is which switch: both are in the order of the source."""
    assert len(report.guards) == len(SWITCHES)
    return {guard.id: name for guard, name in zip(report.guards, SWITCHES, strict=True)}


@pytest.mark.parametrize("config", ALL, ids=str)
def test_singles_and_pairs_are_as_the_layers_made_by_hand_show_them(
    config: Config, ablated: Callable[[Config], Report], whole: bool
) -> None:
    if not whole and config not in FEW:
        pytest.skip("with --whole")
    dtype, clean, freeze = config
    report = ablated(config)
    names = named(report)
    untouched = run_by_hand((), dtype, clean_gradients=clean, freeze=freeze)
    assert untouched.raised is None
    wrong: list[str] = []
    for result in (*report.singles, *report.pairs):
        off = [names[ident] for ident in result.without]
        hand = run_by_hand(off, dtype, clean_gradients=clean, freeze=freeze)
        wrong += disagreements(untouched, hand, result, dtype)
    assert wrong == []


def test_the_messages_are_those_that_people_meet(plain: Report) -> None:
    report = plain
    ids = {name: ident for ident, name in named(report).items()}
    attached = report.single(ids["input_detach"]).raised
    assert attached is not None
    assert attached.message.startswith("Trying to backward through the graph a second time")
    assert (attached.call, attached.during) == (3, "backward")
    (both,) = [p for p in report.pairs if set(p.without) == {ids["no_grad"], ids["detach"]}]
    assert both.raised is not None
    assert both.raised.message == "'NoneType' object has no attribute 'norm'"
    assert both.raised.during == "update"
    asked = report.single(ids["requires_grad"]).raised
    assert asked is not None
    assert asked.message.startswith("element 0 of tensors does not require grad")


def test_no_grad_and_the_first_detach_cover_for_each_other_and_one_of_them_suffices(
    plain: Report,
) -> None:
    report, names = plain, named(plain)
    covering = [
        {names[ident] for ident in pair.without}
        for guard in report.guards
        for pair in report.covers(guard.id)
    ]
    assert covering == [{"no_grad", "detach"}, {"no_grad", "detach"}]
    sets = [{names[ident] for ident in found} for found in report.sufficient]
    always = {"clamp", "eps", "requires_grad", "input_detach"}
    assert sorted(map(sorted, sets)) == sorted(
        [sorted(always | {"no_grad"}), sorted(always | {"detach"})]
    )


def test_after_one_nan_a_gradient_that_is_not_cleared_refuses_every_later_update(
    tmp_path: Path,
) -> None:
    fault = '[[fault]]\nkind = "nan-gradient"\ncall = 3\n'
    scenario = write_scenario(tmp_path, "float32", clean_gradients=True, freeze=True, extra=fault)
    report = ablate(scenario, conditions=False)
    ids = {name: ident for ident, name in named(report).items()}
    refused = report.single(ids["clear"]).has("refused")
    assert refused is not None
    assert refused.data["calls"] == [4, 5, 6]
    hand = run_by_hand(["clear"], "float32", clean_gradients=True, freeze=True, nan_at=3)
    assert [returned for bits in hand.bits if type(returned := bits[1]) is bool] == [
        *(True, False, False, False, False)
    ]
    unchecked = report.single(ids["check"])
    lost = [c for c in unchecked.changes if c.kind == "not-finite" and c.data["where"] == "delta"]
    assert [c.call for c in lost] == [3]


def test_half_precision_delta_moves_in_part(tmp_path: Path) -> None:
    """Both casts to float32 have to go: the second alone undoes what the first one prevents."""
    scenario = write_scenario(tmp_path, "bfloat16", clean_gradients=True, freeze=True)
    with Runs(Target(str(scenario)), jobs=2) as runs:
        ids = {name: guard.id for name, guard in zip(SWITCHES, runs.guards, strict=True)}
        both, back = (ids["first_float"], ids["float"]), (ids["cast_back"],)
        whole, half, uncast = runs.run([Variant(), Variant(both), Variant(back)])
    lost = compare(both, whole, half).has("precision-lost")
    assert lost is not None
    assert lost.data["dtype"] == "bfloat16"
    assert 0.2 < lost.data["moved"] < 0.9 < lost.data["moved_whole"]
    raised = compare(back, whole, uncast).raised
    assert raised is not None
    assert "same dtype" in raised.message


def test_the_gradient_that_leaks_has_the_norm_that_it_has_by_hand(
    ablated: Callable[[Config], Report],
) -> None:
    """With retain_graph the run would go on; the first backward shows the same leak."""
    report = ablated(WIDE)
    ids = {name: ident for ident, name in named(report).items()}
    leak = report.single(ids["input_detach"]).has("gradient-leaks")
    assert leak is not None
    assert set(leak.data["norms"]) == {"embedding.weight"}
    assert torch.tensor(leak.data["norms"]["embedding.weight"]).isfinite().all()
    assert 1e-6 < leak.data["norms"]["embedding.weight"][0] < 10


def test_the_answer_for_the_reference_layer_is_the_one_that_was_observed(plain: Report) -> None:
    answer = says(plain)[0]
    assert answer.startswith("What does detach do here, and is it needed? ")
    assert (
        "`source.detach()` (line 97) is needed here, and only because the clean pass builds a"
        in answer
    )
    assert "`delta.detach()` (line 94) is redundant while `torch.no_grad()` (line 89) is" in answer
    whole = "\n".join(says(plain))
    assert "`torch.no_grad()` (line 89): taken out alone, it changes nothing in 6 calls." in whole
    assert "either `torch.no_grad()` (line 89) or `delta.detach()` (line 94)" in whole
    assert "With a model in bfloat16, it matters: " in whole


def test_with_a_clean_pass_without_gradients_the_answer_is_another(
    ablated: Callable[[Config], Report],
) -> None:
    answer, *rest = says(ablated(WITHOUT))
    assert "`source.detach()` (line 97) changes nothing here when it is taken out" in answer
    about_source = next(text for text in rest if text.startswith("`source.detach()`"))
    assert "With the clean pass with gradients, it matters: " in about_source
    assert "Trying to backward through the graph a second time" in about_source


def test_the_json_has_the_fields_of_the_contract(plain: Report) -> None:
    report = json.loads(json_lines(plain)[0])
    assert report == as_json(plain)
    assert {"id", "kind", "line", "text"} <= report["guards"][0].keys()
    assert {"without", "same", "first_call", "changes", "raised"} <= report["runs"][0].keys()
    assert len(report["runs"]) == 12 + 66
    raised = next(run["raised"] for run in report["runs"] if run["without"] == ["g11"])
    assert {"type", "message", "call", "line"} <= raised.keys()
    assert report["sufficient"] == [
        ["g2", "g5", "g6", "g9", "g11"],
        ["g2", "g6", "g8", "g9", "g11"],
    ]
    assert "What does detach do here" in report["says"]


def test_table_and_text_keep_to_their_width_and_name_every_guard(plain: Report) -> None:
    lines = table(plain)
    assert all(len(line) <= 100 for line in [*lines, *explain(plain)])
    for guard in plain.guards:
        assert any(line.startswith(f"{guard.id} ") and guard.text in line for line in lines)
    assert any("nothing" in line for line in lines if line.startswith("g8 "))
