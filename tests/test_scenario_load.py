"""A scenario file is read whole: each error has its place, its key and what is allowed there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pertdbg.agent.adapter import SIFT, Adapter
from pertdbg.errors import PertdbgError
from pertdbg.scenario.load import load
from pertdbg.scenario.model import Scenario

GOOD = """\
title = "A title"
about = "What to see."

[input]
distribution = "normal"
shape = [2, 3, 4]
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def errors(folder: Path, text: str) -> list[str]:
    """Load a text that has errors and give them, without the file's path."""
    path = write(folder, text)
    with pytest.raises(PertdbgError) as caught:
        load(path)
    lines = str(caught.value).splitlines()
    assert all(line.startswith(f"{path}:") for line in lines)
    return [line.removeprefix(f"{path}:") for line in lines]


def test_what_is_not_said_has_its_default(tmp_path: Path) -> None:
    scenario = load(write(tmp_path, GOOD))
    assert scenario.path == tmp_path / "mine.toml"
    assert (scenario.loop.calls, scenario.loop.loss, scenario.model.width) == (
        20,
        "symmetric-kl",
        64,
    )
    assert scenario.input.shape == (2, 3, 4)
    assert scenario.layer.observed == SIFT
    public = GOOD + '[layer]\nclass = "pertdbg:PerturbationLayer"\n'
    assert load(write(tmp_path, public)).layer.observed == SIFT
    assert scenario.python_files == []


def test_the_layer_says_how_it_is_observed(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("")
    text = GOOD + '[layer]\nclass = "own.py:Layer"\n[layer.adapter]\ndelta = "noise"\n'
    scenario = load(write(tmp_path, text))
    assert scenario.layer.observed == Adapter(delta="noise")
    assert scenario.python_files == [tmp_path / "own.py"]


def test_a_model_may_be_named_by_its_place_alone(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("")
    assert load(write(tmp_path, 'model = "own.py:build"\n' + GOOD)).model.build == "own.py:build"
    assert errors(tmp_path, 'model = "other.py:build"\n' + GOOD) == [
        f"1:1: model: there is no file {tmp_path / 'other.py'}"
    ]


def test_every_error_of_a_file_is_listed_with_line_and_column(tmp_path: Path) -> None:
    text = """\
titel = "A title"
about = 3

[input]
distribution = "normal"
shape = [2, "three", 0]

[loop]
  calls = 2.5
loss = "huber"

[[fault]]
kind = "nan-gradients"
call = 5

[[fault]]
call = 1

[[expect]]
call = 3
field = "gradient.nrm"
above = "0"
"""
    assert errors(tmp_path, text) == [
        "1:1: titel: unknown key; did you mean title? allowed: title, about, guards_removed, "
        "lines, breakpoints, watches, seed, layer, model, input, loop, fault, expect",
        "1:1: title: is missing; it is what it shows, in a line",
        "2:1: about: needs text in quotes, not 3",
        '6:13: input.shape[2]: needs a whole number, not "three"',
        "6:22: input.shape[3]: 0 is not allowed; it must be at least 1",
        "9:3: loop.calls: needs a whole number, not 2.5",
        '10:1: loop.loss: "huber" is not allowed; allowed: symmetric-kl, kl, mse, ce',
        '13:1: fault[1].kind: "nan-gradients" is not allowed; did you mean nan-gradient? '
        "allowed: nan-gradient, inf-gradient, zero-gradient, skip-backward, other-batch, "
        "write-input-in-place, write-through-data",
        "16:3: fault[2].kind: is missing; it is what goes wrong",
        "17:1: fault[2].call: 1 is not allowed; it must be at least 2",
        '21:1: expect[1].field: "gradient.nrm" is no field; did you mean gradient.norm? allowed: '
        "gradient.present, gradient.reason, gradient.norm, gradient.norm_in_dtype, "
        "gradient.max_abs, gradient.min, gradient.max, gradient.nan, gradient.inf, "
        "gradient.zero_fraction, gradient.guard_fraction, gradient.backwards",
        '22:1: expect[1].above: needs a number, not "0"',
    ]


@pytest.mark.parametrize(
    ("extra", "error"),
    [
        ("[layer]\nclass = 'nowhere'", "8:1: layer.class: 'nowhere' is no place in Python"),
        ("[layer.adapter]\nbound = 'self.b'", "7:2: layer.adapter: bound and bound_kind go tog"),
        (
            "[layer.adapter]\nbound = 'self.b ** 2'\nbound_kind = 'always'",
            "8:1: layer.adapter.bound: self.b ** 2 is neither a number nor an attribute of self",
        ),
        ("[layer.adapter]\ndelta = 'a b'", "8:1: layer.adapter.delta: 'a b' is not the name of"),
        ("[model]\nheads = 5", "8:1: model.heads: 5 does not divide the width, 64"),
        ("[model]\narguments = {a = 1}", "8:1: model.arguments: only has a meaning with build"),
        ("[loop]\nagainst = 'labels'\nloss = 'ce'", "8:1: loop.against: labels needs an input"),
        ("[loop]\nrhythm = 'learner'\nfreeze = true", "9:1: loop.freeze: has no meaning with the"),
        (
            "[[fault]]\nkind = 'nan-gradient'\ncall = 21",
            "9:1: fault[1].call: 21 never comes; the loop makes 20 calls",
        ),
        (
            "[loop]\nupdates = 2\n[[fault]]\nkind = 'nan-gradient'\ncall = 4",
            "11:1: fault[1].call: 4 makes a new delta; a fault needs an update",
        ),
        ("[[expect]]\ncall = 1\nfield = 'step'", "7:3: expect[1]: says nothing of the field"),
        ("[[expect]]\nfield = 'step'\nequals = 0", "7:3: expect[1]: needs one of call and calls"),
        (
            "[[expect]]\ncall = 30\nfield = 'step'\nequals = 0",
            "8:1: expect[1].call: 30 never comes",
        ),
        ("[[watches]]\na = 1", "7:3: watches[1]: needs text in quotes, not a table"),
        ("[breakpoints]", "7:2: breakpoints: needs an array, not a table"),
        ("[guards_removed]", "7:2: guards_removed: needs an array, not a table"),
        (
            "[[guards_removed]]\nkind = 'detatch'\nline = 3",
            '8:1: guards_removed[1].kind: "detatch" is not allowed; did you mean detach?',
        ),
        (
            "[[guards_removed]]\nkind = 'detach'\nline = 3\n"
            "[[lines]]\nline = 3\nwas = 'a'\nnow = 'b'",
            "10:3: lines: can't stand beside guards_removed",
        ),
    ],
)
def test_what_does_not_fit_together_is_an_error_at_its_place(
    tmp_path: Path, extra: str, error: str
) -> None:
    (found,) = errors(tmp_path, GOOD + extra)
    assert found.startswith(error)


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("", "3:2: input: needs one of file, build and distribution; there is none"),
        ("file = 'a.npy'\ndistribution = 'normal'\nshape = [2]", "3:2: input: needs one of file, "),
        ("distribution = 'normal'", "3:2: input.shape: is missing; text and random numbers need"),
        ("distribution = 'normal'\nshape = []", "5:1: input.shape: is empty"),
        ("distribution = 'normal'\nshape = [2]\nlow = 1.0", "6:1: input.low: only has a meaning"),
        (
            "distribution = 'uniform'\nshape = [2]\nlow = 2.0\nhigh = 1.0",
            "7:1: input.high: must be greater than low, 2.0",
        ),
        ("distribution = 'normal'\nshape = [2]\nlabels = 'next'", "6:1: input.labels: next only"),
        ("distribution = 'normal'\nshape = [2]\ndevice = 'tpu'", "6:1: input.device: 'tpu' is no"),
        ("file = 'a.doc'", "4:1: input.file: a.doc is of no known kind; allowed: .txt, .npy,"),
        ("file = 'gone.npy'", "4:1: input.file: there is no file"),
        ("file = 'there.txt'\nshape = [3]", "5:1: input.shape: of text is two numbers"),
        ("file = 'there.txt'\nshape = [3, 4]\nkey = 'x'", "6:1: input.key: only has a meaning"),
        ("build = 'a.py'", "4:1: input.build: 'a.py' is no place in Python"),
    ],
)
def test_an_input_that_can_not_be_is_an_error(tmp_path: Path, source: str, error: str) -> None:
    (tmp_path / "there.txt").write_text("some text")
    found = errors(tmp_path, f'title = "t"\nabout = "a"\n[input]\n{source}')
    assert found[0].startswith(error)


def test_a_syntax_error_has_its_line_and_column(tmp_path: Path) -> None:
    assert errors(tmp_path, 'title = "t"\nabout = = 2\n')[0].startswith("2:9: not TOML: ")
    assert errors(tmp_path, 'title = "t"\nabout = [1,')[0].startswith("2:")


def test_a_key_that_stands_twice_is_named_with_both_lines(tmp_path: Path) -> None:
    text = 'title = "t"\nabout = "a"\n[input]\nshape = [1]\n\n  shape = [2]\n'
    assert errors(tmp_path, text) == [
        "6:3: input.shape: stands here for the second time; first in line 4"
    ]


def test_places_hold_in_inline_tables_quoted_and_dotted_keys_and_after_wide_characters(
    tmp_path: Path,
) -> None:
    text = """\
title = "t" # é
about = "a"
loop.optimizer = { kind = "sdg", "learning_rate" = 0 }
input = { distribution = "normal", shape = [ # a comment
  1,
  -1,
], "\\u00e9" = 2, "x y" = 3 }
"""
    found = errors(tmp_path, text)
    assert [line.split(": ")[:2] for line in found] == [
        ["3:20", "loop.optimizer.kind"],
        ["3:34", "loop.optimizer.learning_rate"],
        ["6:3", "input.shape[2]"],
        ["7:4", "input.é"],
        ["7:18", "input.x y"],
    ]


def test_a_table_within_the_last_of_several_tables_is_placed_there(tmp_path: Path) -> None:
    text = GOOD + "[[expect]]\n[[expect]]\n[expect.deep]\nx = 1\n"
    found = [line.split(": ")[:2] for line in errors(tmp_path, text)]
    assert ["9:2", "expect[2].deep"] in found


def test_a_file_that_can_not_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(PertdbgError, match=r"gone.toml: can't be read: No such file"):
        load(tmp_path / "gone.toml")
    (tmp_path / "latin.toml").write_bytes(b'title = "t"\nabout = "caf\xe9"\n')
    with pytest.raises(PertdbgError, match=r"latin.toml:2: is not UTF-8"):
        load(tmp_path / "latin.toml")


def test_every_key_is_described_in_the_schema() -> None:
    schema = Scenario.model_json_schema()
    tables = [schema, *schema["$defs"].values()]
    keys = [key for table in tables for key in table.get("properties", {}).values()]
    assert len(keys) > 50
    assert all(key.get("description") for key in keys)


def test_loading_and_evaluating_import_neither_torch_nor_numpy() -> None:
    code = (
        "import sys; from pertdbg.scenario import expect, library; library.listing();"
        "sys.exit(any(name in sys.modules for name in ('torch', 'numpy', 'textual')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
