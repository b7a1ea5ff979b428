"""`pertdbg.record` around code of a person's own: what it records, and what it leaves behind."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.autograd import Variable

import pertdbg
from _scripts import LAYER, PERTDBG, PYTHON
from pertdbg.agent import active
from pertdbg.errors import PertdbgError
from pertdbg.recording.raised import ScriptRaised

_NAMES: dict[str, Any] = {"__name__": "somebodys"}
exec(LAYER, _NAMES)
Layer: Any = _NAMES["Layer"]


def train(layer: Any, steps: int = 3) -> None:
    hidden = torch.ones(2, 4)
    for _ in range(steps):
        layer(hidden).square().sum().backward()
        layer.update_delta(True)


@pytest.fixture(autouse=True)
def _one_at_a_time() -> Iterator[None]:
    """What a test left to be watched, or did not end, must not reach the next one."""
    yield
    from pertdbg.agent import api

    api._asked.clear()
    assert active.current() is None


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.pertdbg"


def hooks() -> list[object]:
    """Whatever pertdbg hangs itself onto."""
    monitoring: Any = getattr(sys, "monitoring", None)
    return [
        Layer.__dict__["update_delta"],
        torch.nn.Module.__dict__.get("__init_subclass__"),
        Variable._execution_engine,
        list(sys.meta_path),
        sys.gettrace(),
        threading.gettrace(),
        [monitoring.get_tool(tool) for tool in range(6)] if monitoring else None,
        sys.excepthook,
    ]


def test_each_update_in_the_block_is_recorded(path: Path) -> None:
    layer = Layer()
    with pertdbg.record(path) as block:
        train(layer)
    assert (block.calls, block.path) == (4, path)
    with pertdbg.open(path) as recording:
        assert [record.update.created for record in recording] == [True, False, False, False]
        # 0.01 in each element at first; a gradient of a square of 1.01 is positive.
        norms = [record.delta.norm for record in recording]
        assert norms == pytest.approx([0.01 * 8**0.5 + n * 0.001 * 8**0.5 for n in range(4)])
        meta = recording.meta
        assert (meta.state, meta.clean_close, meta.exit_text) == ("ended", True, "")
        assert meta.torch == torch.__version__
        assert recording.raised is None


def test_a_block_in_the_middle_of_a_run_numbers_from_one(path: Path) -> None:
    layer = Layer()
    train(layer, 5)
    with pertdbg.record(path):
        train(layer, 2)
    with pertdbg.open(path) as recording:
        assert [record.call for record in recording] == [1, 2]
        # Delta was there before: no creation was seen, so that batches count from none.
        assert [(r.batch, r.step, r.update.created) for r in recording] == [
            (0, 1, False),
            (0, 2, False),
        ]
        assert recording[0].tensors.before.delta is not None
        assert recording[0].gradient.present


def test_nothing_is_left_behind_in_torch_or_python(path: Path) -> None:
    layer = Layer()
    before = hooks()
    with pertdbg.record(path):
        now = active.current()
        assert now is not None
        run = weakref.ref(now.run)
        del now
        train(layer)
        assert hooks() != before
    assert hooks() == before
    delta = weakref.ref(layer.delta)
    del layer
    gc.collect()
    assert run() is None
    assert delta() is None


def test_the_numbers_are_those_without_it(path: Path) -> None:
    def numbers() -> list[bytes]:
        torch.manual_seed(3)
        layer, found = Layer(), []
        for _ in range(4):
            layer(torch.randn(2, 4)).square().sum().backward()
            layer.update_delta(True)
            found.append(layer.perturbated_input.detach().numpy().tobytes())
        return [*found, torch.get_rng_state().numpy().tobytes()]

    plain = numbers()
    with pertdbg.record(path):
        recorded = numbers()
    assert recorded == plain


def _fails(layer: Any) -> None:
    train(layer, 1)
    raise LookupError("here")


def _frames(run: Callable[[], object]) -> tuple[BaseException, list[tuple[str, int]]]:
    with pytest.raises(LookupError) as caught:
        run()
    frames = traceback.extract_tb(caught.value.__traceback__)
    return caught.value, [(f.name, f.lineno or 0) for f in frames if "contextlib" not in f.name]


def test_an_exception_is_recorded_and_goes_on_unchanged(path: Path) -> None:
    layer = Layer()
    raised: list[BaseException] = []

    def inside() -> None:
        with pertdbg.record(path):
            try:
                _fails(layer)
            except LookupError as error:
                raised.append(error)
                raise

    error, frames = _frames(inside)
    assert error is raised[0]
    assert error.__cause__ is None
    assert error.__context__ is None
    assert [name for name, _ in frames][-2:] == ["inside", "_fails"]
    assert not any("pertdbg/agent" in f.filename for f in traceback.extract_tb(error.__traceback__))
    with pertdbg.open(path) as recording:
        found = recording.raised
        assert isinstance(found, ScriptRaised)
        assert (found.says, found.after) == ("LookupError: here", 2)
        assert found.frames[-1].source == 'raise LookupError("here")'
        assert recording.meta.exit_text == "LookupError: here"


def test_an_exit_is_none(path: Path) -> None:
    with pytest.raises(SystemExit, match="3"), pertdbg.record(path):  # noqa: PT012 - both, indeed
        train(Layer(), 1)
        raise SystemExit(3)
    with pertdbg.open(path) as recording:
        assert recording.raised is None


def test_a_function_is_recorded_at_each_of_its_calls(path: Path) -> None:
    @pertdbg.record(path)
    def work(steps: int, *, answer: int = 7) -> int:
        """Says what it does."""
        train(Layer(), steps)
        return answer

    assert work(1) == 7
    assert work(2, answer=8) == 8
    assert (work.__name__, work.__doc__) == ("work", "Says what it does.")
    with pertdbg.open(path) as first, pertdbg.open(path.with_name("run-2.pertdbg")) as second:
        assert (len(first), len(second)) == (2, 3)


def test_no_frame_of_ours_is_in_the_traceback_of_a_function(path: Path) -> None:
    recorded = pertdbg.record(path)(_fails)
    error, _ = _frames(lambda: recorded(Layer()))
    files = [f.filename for f in traceback.extract_tb(error.__traceback__)]
    assert not any("pertdbg/agent" in file for file in files)


def test_what_runs_after_its_call_is_refused(path: Path) -> None:
    def numbers() -> Iterator[int]:
        yield 1

    async def later() -> None:
        pass

    for function in (numbers, later):
        with pytest.raises(PertdbgError, match=r"use `with pertdbg.record"):
            pertdbg.record(path)(function)


def test_a_block_in_a_block_is_refused_and_the_outer_one_goes_on(path: Path) -> None:
    inner = path.with_name("inner.pertdbg")
    with pertdbg.record(path) as block:
        train(Layer(), 1)
        with pytest.raises(PertdbgError, match="one at a time"), pertdbg.record(inner):
            raise AssertionError
        train(Layer(), 1)
    assert block.calls == 4
    assert not inner.exists()


def test_a_block_on_another_thread_is_refused(path: Path) -> None:
    said: list[BaseException] = []

    def other() -> None:
        try:
            with pertdbg.record(path.with_name("other.pertdbg")):
                pass
        except PertdbgError as error:
            said.append(error)

    with pertdbg.record(path):
        train(Layer(), 1)
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert "one at a time" in str(said[0])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"facts": "some"}, "facts='some'"),
        ({"durable": "stone"}, "durable='stone'"),
        ({"tensors": "every:x"}, "every:x"),
        ({"tensor_budget": "much"}, "'much' is no size"),
        ({"adapters": ["no.toml"]}, "no.toml: can't be read"),
        ({"control": "a b"}, "letters, digits"),
    ],
)
def test_a_mistake_is_said_before_anything_is_changed(
    path: Path, options: dict[str, Any], says: str
) -> None:
    before = hooks()
    with pytest.raises(PertdbgError, match=says), pertdbg.record(path, **options):
        raise AssertionError
    assert hooks() == before
    assert list(path.parent.iterdir()) == []
    with pertdbg.record(path):
        train(Layer(), 1)


def test_a_recording_is_not_written_over(path: Path) -> None:
    path.write_text("mine")
    with pytest.raises(PertdbgError, match="exists already"), pertdbg.record(path):
        raise AssertionError
    assert path.read_text() == "mine"


def test_options_are_those_of_the_command(path: Path) -> None:
    everything: dict[str, Any] = {"facts": "core", "durable": "power", "lines": True}
    with pertdbg.record(str(path), tensors="all", tensor_budget="5MB", **everything):
        train(Layer(), 1)
    with pertdbg.open(path) as recording:
        assert recording.meta.tensor_budget == 5_000_000
        assert [tensor.role for tensor in recording.tensors(2)] != []
        assert recording[1].delta.norm is None
        assert len(recording.events(2)) > 0


def test_a_block_without_an_update_says_what_was_looked_for(
    path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pertdbg.record(path) as block:
        torch.ones(2).sum()
    assert block.calls == 0
    assert not path.exists()
    said = capfd.readouterr().err
    assert "nothing is recorded: no update of a perturbation was seen" in said
    assert "pertdbg.watch()" in said


def test_a_loop_in_the_same_function_is_followed_from_the_block_on(path: Path) -> None:
    model, x = torch.nn.Linear(3, 3), torch.ones(2, 3)
    model.requires_grad_(False)
    before = hooks()
    deltas = []
    with pertdbg.record(path) as block:
        delta = torch.zeros_like(x)
        for _ in range(4):
            delta.requires_grad_()
            (grad,) = torch.autograd.grad(model(x + delta).square().sum(), delta)
            delta = (delta + 0.1 * grad.sign()).clamp(-0.25, 0.25).detach()
            deltas.append(float(delta.abs().max()))
    assert hooks() == before
    assert block.calls == 5
    assert sys._getframe().f_trace is None
    last = weakref.ref(delta)
    del delta, grad
    gc.collect()
    assert last() is None
    with pertdbg.open(path) as recording:
        assert [record.delta.max_abs for record in recording][1:] == pytest.approx(deltas)
        assert {record.delta.bound for record in recording} == {0.25}


def test_a_loop_that_raises_in_the_same_function_is_recorded_up_to_there(path: Path) -> None:
    x = torch.ones(2, 3)
    with pytest.raises(ValueError, match="enough"), pertdbg.record(path):  # noqa: PT012
        delta = torch.zeros_like(x)
        for k in range(9):
            delta.requires_grad_()
            (grad,) = torch.autograd.grad((x + delta).square().sum(), delta)
            if k == 2:
                raise ValueError("enough")
            delta = (delta + 0.1 * grad.sign()).detach()
    with pertdbg.open(path) as recording:
        assert [record.step for record in recording] == [0, 1, 2, 3]
        assert recording[3].gradient.norm == pytest.approx(2 * 1.2 * 6**0.5)
        assert recording.raised is not None
        assert recording.raised.after == 4


def test_a_forked_child_records_nothing_and_harms_nothing(path: Path) -> None:
    layer = Layer()
    with pertdbg.record(path) as block:
        train(layer, 1)
        child = os.fork()
        if child == 0:
            try:
                train(layer, 3)
                os._exit(0 if active.current() is None else 3)
            finally:
                os._exit(4)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        train(layer, 1)
    assert block.calls == 3
    done = subprocess.run([str(PERTDBG), "verify", str(path)], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stdout


CELLS = (
    LAYER,
    "import pertdbg\nlayer = Layer()\ntrain(layer, 1)\n",
    "with pertdbg.record('run.pertdbg') as block:\n    train(layer, 2)\n",
    "print('calls', block.calls, [r.call for r in pertdbg.open('run.pertdbg')])\n",
)
"""Code as it is typed into a notebook."""


def test_cells_of_a_notebook_are_recorded(tmp_path: Path) -> None:
    """A `__main__` without a file, whose code comes in pieces, as a kernel runs it."""
    runner = (
        "import sys; del sys.argv[0]; main = sys.modules['__main__'].__dict__\n"
        "main.pop('__file__', None)\n"
        f"for n, cell in enumerate({CELLS!r}):\n"
        "    exec(compile(cell, f'<cell {n}>', 'exec'), main)\n"
    )
    done = _python(tmp_path, "-c", runner)
    assert "calls 2 [1, 2]" in done.stdout, done.stderr
    with pertdbg.open(tmp_path / "run.pertdbg") as recording:
        assert recording.meta.target == "interactive"


@pytest.mark.parametrize("way", ["-c", "stdin"])
def test_code_without_a_file_is_recorded(tmp_path: Path, way: str) -> None:
    text = "".join(CELLS)
    done = _python(tmp_path, "-c", text) if way == "-c" else _python(tmp_path, "-", stdin=text)
    assert "calls 2 [1, 2]" in done.stdout, done.stderr


def test_cells_in_ipython_are_recorded(tmp_path: Path) -> None:
    pytest.importorskip("IPython")
    loop = (
        "with pertdbg.record('loop.pertdbg') as block:\n"
        "    delta = torch.zeros(2, 3)\n"
        "    for k in range(3):\n"
        "        delta.requires_grad_()\n"
        "        grad, = torch.autograd.grad((delta + 1).square().sum(), delta)\n"
        "        delta = (delta + 0.1 * grad.sign()).detach()\n"
        "print('loop', block.calls)\n"
    )
    runner = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        f"for cell in {(*CELLS, loop)!r}:\n"
        "    shell.run_cell(cell).raise_error()\n"
    )
    done = _python(tmp_path, "-c", runner)
    assert "calls 2 [1, 2]" in done.stdout, done.stderr
    assert "loop 4" in done.stdout, done.stderr


def test_under_record_the_block_is_a_part_of_the_whole(tmp_path: Path) -> None:
    source = (
        f"{LAYER}\nimport pertdbg\ntrain(Layer(), 1)\n"
        "with pertdbg.record('inner.pertdbg') as block:\n    train(Layer(), 1)\n"
    )
    (tmp_path / "train.py").write_text(source)
    done = subprocess.run(
        [str(PERTDBG), "record", "-o", "outer.pertdbg", "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "this process is recorded already, in" in done.stderr
    assert not (tmp_path / "inner.pertdbg").exists()
    with pertdbg.open(tmp_path / "outer.pertdbg") as recording:
        assert len(recording) == 4


def test_each_rank_makes_its_own(tmp_path: Path) -> None:
    source = (
        f"{LAYER}\nimport pertdbg\n"
        "with pertdbg.record('run.pertdbg') as block:\n    train(Layer(), 1)\nprint(block.path)\n"
    )
    for number in "01":
        done = _python(tmp_path, "-c", source, env={"RANK": number, "WORLD_SIZE": "2"})
        assert done.returncode == 0, done.stderr
    for rank in (0, 1):
        with pertdbg.open(tmp_path / "run.ranks" / f"rank{rank}.pertdbg") as recording:
            assert (recording.meta.rank, recording.meta.world_size) == (rank, 2)
            assert [record.rank for record in recording] == [rank, rank]


def test_a_block_that_nobody_leaves_ends_with_the_process(tmp_path: Path) -> None:
    source = (
        f"{LAYER}\nimport pertdbg, sys, weakref\n"
        "block = pertdbg.record('run.pertdbg')\nblock.__enter__()\ntrain(Layer(), 1)\n"
        # Of what Python takes apart when modules are gone already.
        "held, sys.kept = weakref.WeakValueDictionary(), train\nheld[1] = train\n"
    )
    done = _python(tmp_path, "-c", source)
    assert (done.returncode, "ignored" in done.stderr) == (0, False), done.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["run.pertdbg"]
    with pertdbg.open(tmp_path / "run.pertdbg") as recording:
        assert (len(recording), recording.meta.state) == (2, "ended")


def test_asking_to_stop_brings_nothing_where_nothing_is_recorded(tmp_path: Path) -> None:
    source = (
        "import sys, pertdbg; pertdbg.stop(); pertdbg.record('x.pertdbg')\n"
        "print(sorted({'torch', 'textual', 'rich', 'click'} & sys.modules.keys()))"
    )
    assert _python(tmp_path, "-c", source).stdout == "[]\n"


def _python(
    folder: Path, *words: str, stdin: str = "", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PYTHON, *words],
        cwd=folder,
        input=stdin,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=300,
    )
