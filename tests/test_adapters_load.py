"""Adapter files: what ships is in order, and what is wrong with a person's own is said at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pertdbg.adapters import adapters, load, shipped
from pertdbg.agent.seams.spec import Spec
from pertdbg.errors import PertdbgError

GOOD = """\
name = "mine"
title = "My loop"
seam = "loop"

[match]
subject = "wiggle"
uses = [["backward"], ["eps", "radius"]]

[numbers]
bound = ["eps", "radius / 2"]
norm = "inf"
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text)
    return path


def test_the_generic_adapter_is_tried_last() -> None:
    names = [adapter["name"] for adapter in shipped()]
    assert names[-1] == "generic"
    assert names[0] == "sift"
    assert len(names) == len(set(names))


def test_what_is_sent_to_the_agent_is_json_that_it_understands() -> None:
    for adapter in json.loads(json.dumps(shipped())):
        spec = Spec.of(adapter)
        assert (spec.name, spec.seam) == (adapter["name"], adapter["seam"])


def test_a_persons_own_adapter_comes_first_and_takes_the_place_of_one_that_ships(
    tmp_path: Path,
) -> None:
    own = write(tmp_path, GOOD.replace('"mine"', '"vat"'))
    names = [adapter["name"] for adapter in adapters([own])]
    assert names[0] == "vat"
    assert names.count("vat") == 1


def test_one_text_stands_for_an_array_of_one(tmp_path: Path) -> None:
    spec = Spec.of(load(write(tmp_path, GOOD)))
    assert spec.subject == ("wiggle",)
    assert spec.uses == (("backward",), ("eps", "radius"))
    assert spec.bound == ("eps", "radius / 2")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('seam = "loop"', 'seam = "lop"'), '3:1: seam: "lop" is not allowed; did you mean loop?'),
        (("[match]", "[mach]"), "unknown key; did you mean match?"),
        (("subject", "subjekt"), "6:1: match.subjekt: unknown key; did you mean subject?"),
        (('"wiggle"', "3"), "match.subject: needs one text or an array of texts, not 3"),
        (("radius / 2", "radius / "), 'numbers.bound: "radius / " is not an expression'),
        (('norm = "inf"', 'norm = "max"'), 'numbers.norm: "max" is not allowed'),
        (('title = "My loop"\n', ""), "title: is missing"),
        (('"loop"', '"method"'), 'match.methods: is missing; an adapter of seam "method" needs it'),
        (("[match]", "[match"), "not TOML"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    path = write(tmp_path, GOOD.replace(*change))
    with pytest.raises(PertdbgError) as raised:
        load(path)
    assert str(path) in str(raised.value)
    assert message in str(raised.value)


def test_every_error_of_a_file_is_said_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace("subject", "subjekt").replace('"inf"', '"max"'))
    with pytest.raises(PertdbgError) as raised:
        load(path)
    assert len(str(raised.value).splitlines()) == 2


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(PertdbgError, match="can't be read"):
        load(tmp_path / "none.toml")
