"""`pertdbg.watch` and `pertdbg.stop`: what a person names in their own code."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from textual.pilot import Pilot

import pertdbg
from _app import MIDDLE, shown
from _scripts import LAYER, plain, recorded, write
from _wait import seen
from pertdbg.agent import api
from pertdbg.app import PertdbgApp
from pertdbg.errors import PertdbgError
from pertdbg.launch import live_script
from pertdbg.session import State
from pertdbg.target import Script

_NAMES: dict[str, Any] = {"__name__": "somebodys"}
exec(LAYER, _NAMES)
Layer: Any = _NAMES["Layer"]

STEPPER = {
    "method": "step",
    "delta": "self.shift",
    "input": "clean",
    "perturbed_input": "moved",
    "bound": "self.radius",
    "bound_kind": "always",
}


class Stepper:
    """A perturbation that no shipped adapter knows, and no module."""

    def __init__(self) -> None:
        self.clean, self.radius = torch.ones(3), 0.5
        self.shift: Any = None
        self.moved: Any = None

    def step(self) -> None:
        shift = torch.zeros(3) if self.shift is None else self.shift + 0.2
        self.shift = shift.clamp(-self.radius, self.radius)
        self.moved = self.clean + self.shift


@pytest.fixture(autouse=True)
def _asks_for_nothing_more() -> Iterator[None]:
    yield
    api._asked.clear()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.pertdbg"


def train(layer: Any, steps: int = 1) -> None:
    for _ in range(steps):
        layer(torch.ones(2, 4)).square().sum().backward()
        layer.update_delta(True)


def test_a_class_of_an_own_shape_is_watched_by_an_own_adapter(path: Path) -> None:
    assert pertdbg.watch(Stepper, adapter=STEPPER) is Stepper
    own = Stepper.__dict__["step"]
    with pertdbg.record(path):
        stepper = Stepper()
        for _ in range(4):
            stepper.step()
    assert Stepper.__dict__["step"] is own
    with pertdbg.open(path) as recording:
        assert [r.delta.max_abs for r in recording] == pytest.approx([0, 0.2, 0.4, 0.5])
        assert {(r.layer, r.delta.bound, r.delta.bound_kind) for r in recording} == {
            ("Stepper", 0.5, "always")
        }
        assert [r.effect.gap_max for r in recording] == pytest.approx([0, 0.2, 0.4, 0.5])


def test_it_is_watched_in_a_block_that_runs_already(path: Path) -> None:
    stepper = Stepper()
    with pertdbg.record(path) as block:
        stepper.step()
        pertdbg.watch(stepper, adapter=STEPPER)
        stepper.step()
        Stepper().step()
    assert block.calls == 1


def test_a_class_can_be_named_where_it_is_defined(path: Path) -> None:
    @pertdbg.watch
    class Own(Layer):  # type: ignore[misc]
        pass

    with pertdbg.record(path) as block:
        train(Own())
    assert block.calls == 2


def test_of_a_layer_that_is_named_nothing_else_of_its_class_is_seen(path: Path) -> None:
    one, other = Layer(), Layer()
    pertdbg.watch(one)
    with pertdbg.record(path) as block:
        train(one)
        train(other, 3)
    assert block.calls == 2
    pertdbg.watch(other)
    with pertdbg.record(path.with_name("both.pertdbg")) as block:
        train(one)
        train(other, 3)
    assert block.calls == 1 + 4 - 1


def test_naming_a_layer_keeps_it_no_longer_alive(path: Path) -> None:
    pertdbg.watch(Layer())
    with pertdbg.record(path) as block:
        train(Layer())
    assert block.calls == 0


@pytest.mark.parametrize("adapter", ["sift", {"method": "update_delta"}])
def test_a_shipped_adapter_can_be_named(path: Path, adapter: Any) -> None:
    pertdbg.watch(Layer, adapter=adapter)
    with pertdbg.record(path) as block:
        train(Layer())
    assert block.calls == 2


def test_an_adapter_can_be_a_file(tmp_path: Path, path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        'name = "own"\ntitle = "own"\nseam = "method"\n[match]\nmethods = ["step"]\n'
        '[roles]\ndelta = "self.shift"\ninput = "self.clean"\nperturbed_input = "self.moved"\n'
    )
    pertdbg.watch(Stepper, adapter=file)
    with pertdbg.record(path) as block:
        Stepper().step()
    assert block.calls == 1


@pytest.mark.parametrize(
    ("what", "adapter", "says"),
    [
        (Stepper, None, r"no adapter fits: Stepper has no method 'update_delta'; give one"),
        (Stepper, "sift", r"no adapter fits"),
        (Stepper, "nonsense", r"no shipped adapter is called 'nonsense'"),
        (Stepper, "freelb", r"freelb is not for a class but for a loop"),
        (Stepper, {"method": "go"}, r"Stepper has no method 'go'"),
        (Stepper, {"methode": "go"}, r"an adapter has no 'methode'; it has bound, "),
        (Stepper, {"method": 7}, r"method of an adapter is a text, not 7"),
        (Stepper, {"bound_kind": "never"}, r"'creation' or 'always'"),
        (Stepper, "missing.toml", r"missing.toml: can't be read"),
        ([], {"method": "append"}, r"list has no method|can't be referred to weakly"),
        (torch.nn.Linear(2, 2), None, r"no adapter fits: Linear has no method"),
    ],
)
def test_what_can_not_be_watched_is_said_with_the_reason(
    what: Any, adapter: Any, says: str
) -> None:
    with pytest.raises(PertdbgError, match=says):
        pertdbg.watch(what, adapter=adapter)
    assert api._asked == []


SCRIPT = """
import pertdbg

class Stepper:
    def __init__(self):
        self.clean, self.shift, self.moved = torch.ones(3), None, None
    def step(self):
        self.shift = torch.zeros(3) if self.shift is None else self.shift + 0.2
        self.moved = self.clean + self.shift

pertdbg.watch(Stepper, adapter={"method": "step", "delta": "shift", "input": "clean",
                                "perturbed_input": "moved"})
stepper = Stepper()
stepper.step()
pertdbg.stop()
secret = 41
pertdbg.stop()
stepper.step()
print("over")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    write(path, f"{LAYER}\n{SCRIPT}")
    return path


def test_a_script_that_names_things_runs_as_it_does_without(folder: Path) -> None:
    alone, watched = plain(folder, ["train.py"]), recorded(folder, ["train.py"])
    assert (watched.stdout, watched.stderr, watched.status) == (
        alone.stdout,
        alone.stderr,
        alone.status,
    )
    with pertdbg.open(folder.parent / "work.pertdbg") as recording:
        assert len(recording) == 2


def test_the_app_stops_where_the_code_says(folder: Path) -> None:
    line = next(
        number
        for number, text in enumerate((folder / "train.py").read_text().splitlines(), 1)
        if text == "pertdbg.stop()"
    )

    async def run() -> None:
        script = Script.of([str(folder / "train.py")])
        app = PertdbgApp(live_script(script, adapters=(), facts="all", command="pertdbg"))
        async with app.run_test(size=MIDDLE, notifications=True) as pilot:
            await _until(app, pilot, lambda: app.session.state is State.STOPPED)
            await pilot.press("c")
            await _until(app, pilot, lambda: f"train.py:{line}" in shown(app))
            assert _state(app) is State.STOPPED
            await pilot.press("c")
            await _until(app, pilot, lambda: f"train.py:{line + 2}" in shown(app))
            await pilot.press("n")
            await _until(app, pilot, lambda: app.cursor == 2)
            await pilot.press("c")
            await _until(app, pilot, lambda: app.session.state is State.ENDED)
            assert app.session.ended is not None
            assert app.session.ended.status == 0

    home = {"XDG_CONFIG_HOME": str(folder / "config"), "TEXTUAL_ANIMATIONS": "none"}
    with mock.patch.dict(os.environ, home):
        asyncio.run(run())


def _state(app: PertdbgApp) -> State:
    return app.session.state


async def _until(app: PertdbgApp, pilot: Pilot[int], holds: Callable[[], object]) -> None:
    await seen(pilot, holds, lambda: shown(app))
