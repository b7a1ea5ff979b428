"""How an exception ended the target: what is recorded of it, and where a person sees it."""

from __future__ import annotations

import asyncio
import functools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.pilot import Pilot

from _app import HOSTILE, MIDDLE, after, calls, check_lines, record_to, shown
from _scripts import LAYER, PERTDBG, plain, recorded, write
from _wait import seen
from pertdbg.app import PertdbgApp
from pertdbg.app.panels.raised import raised_page
from pertdbg.launch import live_script
from pertdbg.output.ended import ended
from pertdbg.recording.raised import (
    CHAIN_LIMIT,
    FRAMES_LIMIT,
    Earlier,
    ScriptFrame,
    ScriptRaised,
    of_text,
    to_text,
)
from pertdbg.recording.reader import Recording
from pertdbg.recording.schema import TEXT_LIMIT
from pertdbg.session import State
from pertdbg.target import Script

CHAINED = """
def look(table):
    try:
        return table["key"]
    except KeyError as error:
        raise RuntimeError("first line\\nsecond") from error

train(Layer(), 2)
for k in range(3):
    try:
        raise ValueError(k)
    except ValueError:
        pass
look({})
"""

IN_UPDATE = """
class Breaks(Layer):
    def update_delta(self, requires_grad=False):
        if self.delta is not None:
            self.delta += 1
        return super().update_delta(requires_grad)

train(Breaks(), 2)
"""

IN_BACKWARD = """
def step(layer):
    loss = layer(torch.ones(2, 4)).square().sum()
    loss.backward()
    loss.backward()

layer = Layer()
train(layer, 1)
step(layer)
"""

EXITS = "raise SystemExit('enough')"

_SHOWN_BY_PYTHON = re.compile(r'File "(.+)", line (\d+), in (.+)')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


@dataclass(frozen=True)
class Told:
    """What the recording of a script says, and where both are."""

    folder: Path
    path: Path
    raised: ScriptRaised | None
    records: int


def raised_by(
    folder: Path, source: str, words: Sequence[str] = ("train.py",), flags: Sequence[str] = ()
) -> Told:
    """Record a script, and say what the recording says ended it."""
    write(folder, f"{LAYER}\n{source}")
    recorded(folder, words, flags=flags)
    path = folder.parent / f"{folder.name}.pertdbg"
    with Recording.open(path) as recording:
        return Told(folder, path, recording.raised, len(recording))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Told]:
    """Give the recording of a source, which is made when it is first asked for."""

    @functools.cache
    def made(source: str) -> Told:
        folder = tmp_path_factory.mktemp("told") / "work"
        folder.mkdir()
        return raised_by(folder, source)

    return made


def by_python(stderr: bytes) -> list[tuple[str, int]]:
    """The frames that Python itself shows of the last exception."""
    last = stderr.decode().rpartition("Traceback (most recent call last):")[2]
    return [(file, int(line)) for file, line, _ in _SHOWN_BY_PYTHON.findall(last)]


@pytest.mark.parametrize("source", [CHAINED, IN_UPDATE, IN_BACKWARD])
@pytest.mark.parametrize(
    ("words", "flags"), [(("train.py",), ()), (("-m", "train"), ()), (("train.py",), ("-I",))]
)
def test_the_frames_are_those_that_python_shows(
    folder: Path,
    source: str,
    words: Sequence[str],
    flags: Sequence[str],
    told: Callable[[str], Told],
) -> None:
    alone = (words, flags) == (("train.py",), ())
    found = told(source) if alone else raised_by(folder, source, words, flags)
    raised = found.raised
    shown_by_python = by_python(plain(found.folder, words, flags=flags).stderr)
    assert raised is not None
    frames = [(frame.file, frame.line) for frame in raised.frames]
    # Python's own machinery runs a module below its first line; it is not of the script.
    assert frames == [f for f in shown_by_python if not f[0].startswith("<frozen")]


def test_an_exception_is_recorded_with_what_led_to_it(
    told: Callable[[str], Told],
) -> None:
    raised, head = told(CHAINED).raised, told(CHAINED).records
    assert raised is not None
    assert (raised.type, raised.message) == ("RuntimeError", "first line\nsecond")
    assert (raised.after, head) == (3, 3)
    assert raised.chain == (Earlier("KeyError", "'key'", "cause"),)
    sources = [frame.source for frame in raised.frames]
    assert sources == ["look({})", 'raise RuntimeError("first line\\nsecond") from error']
    assert not raised.interrupted


def test_an_exception_in_an_update_follows_the_record_of_that_update(
    told: Callable[[str], Told],
) -> None:
    raised = told(IN_UPDATE).raised
    with Recording.open(told(IN_UPDATE).path) as recording:
        last = recording.record(recording.head)
    assert raised is not None
    assert last.update.raised is not None
    assert last.update.raised.line == raised.frames[-1].line
    assert raised.after == last.id
    assert raised.frames[-1].source == "self.delta += 1"


def test_an_exception_in_backward_comes_after_the_last_call(
    told: Callable[[str], Told],
) -> None:
    raised, head = told(IN_BACKWARD).raised, told(IN_BACKWARD).records
    assert raised is not None
    assert "backward through the graph a second time" in raised.message
    assert raised.after == head == 2
    assert [frame.function for frame in raised.frames][:2] == ["<module>", "step"]
    assert all("pertdbg" not in frame.file for frame in raised.frames)


@pytest.mark.parametrize(
    "end",
    [
        EXITS,
        "import sys\nsys.exit('over')",
        "try:\n    1 / 0\nexcept ZeroDivisionError:\n    pass",
        "import os\nos._exit(0)",
        "def numbers():\n    yield 1\nfor n in numbers(): pass\nnext(iter([]), None)",
    ],
)
def test_what_is_no_exception_is_not_taken_for_one(told: Callable[[str], Told], end: str) -> None:
    found = told(f"train(Layer(), 1)\n{end}\n")
    assert (found.raised, found.records) == (None, 2)


@pytest.mark.parametrize(
    "end",
    [
        "try:\n    1 / 0\nfinally:\n    print('cleaning')",
        "import contextlib\nwith contextlib.ExitStack():\n    1 / 0",
        "import sys\nsys.excepthook = print\n1 / 0",
    ],
)
def test_an_exception_that_passes_something_on_its_way_out_is_recorded(
    folder: Path, end: str
) -> None:
    raised = raised_by(folder, f"train(Layer(), 1)\n{end}\n").raised
    assert raised is not None
    assert raised.says == "ZeroDivisionError: division by zero"


def test_an_interrupt_is_no_fault(folder: Path) -> None:
    source = "import os\ntrain(Layer(), 1)\nos.kill(os.getpid(), 2)\nwhile True: pass\n"
    raised = raised_by(folder, source).raised
    assert raised is not None
    assert raised.interrupted
    with Recording.open(folder.parent / "work.pertdbg") as recording:
        assert "interrupted (Ctrl-C), after record 2" in " ".join(ended(recording))


def test_a_deep_traceback_keeps_both_ends(folder: Path) -> None:
    source = "train(Layer(), 1)\ndef deep(n):\n    return deep(n + 1)\ndeep(0)\n"
    raised = raised_by(folder, source).raised
    assert raised is not None
    assert raised.type == "RecursionError"
    assert raised.frames[0].source == "deep(0)"
    assert raised.frames[-2].source == "return deep(n + 1)"
    shown_by_python = plain(folder, ["train.py"]).stderr.decode()
    folded = re.search(r"repeated (\d+) more times", shown_by_python)
    assert folded is not None
    # Python shows the module and three calls, and says how many more there were. Before Python
    # 3.12 being told of calls takes some of the depth that there is.
    lost = 4 + int(folded[1]) - len(raised.frames) - raised.left_out
    assert 0 <= lost <= (0 if sys.version_info >= (3, 12) else 3)


def test_it_is_written_before_python_waits_for_threads_that_may_hang(folder: Path) -> None:
    write(
        folder,
        f"{LAYER}\nimport threading\ntrain(Layer(), 1)\n"
        "threading.Thread(target=threading.Event().wait).start()\n1 / 0\n",
    )
    path = folder / "x.pertdbg"
    with subprocess.Popen(
        [str(PERTDBG), "record", "-o", str(path), "train.py"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        while "ZeroDivisionError" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
    with Recording.open(path) as recording:
        assert recording.raised is not None
        assert recording.raised.says == "ZeroDivisionError: division by zero"
        assert not recording.meta.clean_close


def test_a_scenario_that_raises_is_recorded_alike(tmp_path: Path) -> None:
    path = tmp_path / "s.pertdbg"
    done = subprocess.run(
        [str(PERTDBG), "record", "leaf-in-place", "-o", str(path)], capture_output=True, timeout=300
    )
    with Recording.open(path) as recording:
        raised, head = recording.raised, len(recording)
    assert raised is not None
    assert raised.after == head == 2
    assert [(f.file, f.line) for f in raised.frames] == by_python(done.stderr)
    assert raised.frames[-1].function.endswith("update_delta")


def test_show_says_how_it_ended_unless_a_call_is_asked_for(told: Callable[[str], Told]) -> None:
    path = str(told(CHAINED).path)
    text = _show(path)
    assert "ENDED     by an exception, after record 3: RuntimeError: first line" in text
    assert "raised from KeyError: 'key'" in text
    assert text.splitlines()[-1].strip().startswith("raise RuntimeError(")
    assert "ENDED" not in _show(path, "--call", "1")
    assert json.loads(_show(path, "--json"))["id"] == 3


def test_show_says_how_a_good_run_ended(told: Callable[[str], Told]) -> None:
    path = told(f"train(Layer(), 1)\n{EXITS}\n").path
    assert "ENDED     exit status 1: enough" in _show(str(path))


def _show(*words: str) -> str:
    done = subprocess.run([str(PERTDBG), "show", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


TEXTS = st.text(max_size=60) | st.just("\udcff'\"\\\x1b") | st.just("x" * 30_000)
FRAMES = st.builds(ScriptFrame, TEXTS, st.integers(0, 1 << 40), TEXTS, TEXTS)
EARLIER = st.builds(Earlier, TEXTS, TEXTS, st.sampled_from(["cause", "context"]))


@given(
    st.builds(
        ScriptRaised,
        TEXTS,
        TEXTS,
        st.integers(0, 1 << 50),
        st.lists(FRAMES, max_size=60).map(tuple),
        st.integers(0, 9),
        st.lists(EARLIER, max_size=20).map(tuple),
    )
)
@settings(max_examples=60, deadline=None)
def test_what_is_written_is_bounded_and_read_back(raised: ScriptRaised) -> None:
    text = to_text(raised)
    assert len(text) <= TEXT_LIMIT
    text.encode()
    back = of_text(text)
    assert back is not None
    assert back.after == raised.after
    assert len(back.frames) <= FRAMES_LIMIT
    assert len(back.frames) + back.left_out == len(raised.frames) + raised.left_out
    assert len(back.chain) == min(len(raised.chain), CHAIN_LIMIT)
    if len(raised.message) < 100 and raised.message.isascii():
        assert back.message == raised.message
    if back.frames:
        assert back.frames[-1].line == raised.frames[-1].line


GOOD = ScriptRaised(
    "ValueError",
    HOSTILE,
    3,
    (ScriptFrame(HOSTILE, 7, HOSTILE, HOSTILE), ScriptFrame("/a/b.py", 8, "f", "x = 1")),
    2,
    (Earlier(HOSTILE, HOSTILE, "context"),),
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(st.sampled_from(sorted(json.loads(to_text(GOOD)))), JSON)
@settings(max_examples=100, deadline=None)
def test_a_part_of_another_form_is_refused_or_of_its_type(key: str, value: object) -> None:
    back = of_text(json.dumps({**json.loads(to_text(GOOD)), key: value}))
    if back is not None:
        assert isinstance(back.type, str)
        assert isinstance(back.message, str)
        assert type(back.after) is int
        assert all(type(frame.line) is int for frame in back.frames)
        assert all(earlier.how in ("cause", "context") for earlier in back.chain)


@pytest.mark.parametrize("text", [None, 7, "", "[]", "nonsense", "[" * 10_000, "x" * 30_000])
def test_what_is_no_such_text_counts_as_none(text: object) -> None:
    assert of_text(text) is None


@pytest.mark.parametrize("width", [20, 76, 150])
def test_the_page_fits_and_obeys_nothing(width: int) -> None:
    check_lines(raised_page(GOOD, width), width)


def test_a_replay_opens_at_the_last_call_and_shows_the_traceback(tmp_path: Path) -> None:
    path = record_to(tmp_path / "x.pertdbg", calls(4), raised=to_text(GOOD), exit_status=1)
    first = after(path, size=MIDDLE)
    assert "call 4" in first.splitlines()[0]
    assert "ValueError" in first
    page = after(path, "T", size=MIDDLE)
    assert "by an exception, after record 3" in page
    assert "/a/b.py:8  in f" in page
    assert "… 2 more frames …" in page


def test_a_replay_of_an_interrupted_or_a_good_run_opens_at_its_first_call(tmp_path: Path) -> None:
    stopped = to_text(ScriptRaised("KeyboardInterrupt", "", 4))
    path = record_to(tmp_path / "x.pertdbg", calls(4), raised=stopped)
    assert "call 1" in after(path).splitlines()[0]
    assert "interrupted (Ctrl-C)" in after(path, "T", size=MIDDLE)
    good = record_to(tmp_path / "y.pertdbg", calls(4))
    assert "no exception ended the target" in after(good, "T")


def test_the_app_stays_at_the_last_call_of_a_script_that_fell(folder: Path) -> None:
    write(folder, f"{LAYER}\n{CHAINED}")

    async def run() -> None:
        script = Script.of([str(folder / "train.py")])
        app = PertdbgApp(live_script(script, adapters=(), facts="all", command="pertdbg"))
        async with app.run_test(size=MIDDLE, notifications=True) as pilot:
            await _until(app, pilot, State.STOPPED)
            await pilot.press("c")
            await _until(app, pilot, State.ENDED)
            text = shown(app)
            assert "call 3" in text.splitlines()[0]
            assert "RuntimeError: first line  (T: where it was raised)" in text
            await pilot.press("T")
            await pilot.pause()
            assert "raised from KeyError" in shown(app)
            assert "look({})" in shown(app)

    home = {"XDG_CONFIG_HOME": str(folder / "config"), "TEXTUAL_ANIMATIONS": "none"}
    with mock.patch.dict(os.environ, home):
        asyncio.run(run())


async def _until(app: PertdbgApp, pilot: Pilot[int], state: State) -> None:
    await seen(pilot, lambda: app.session.state is state, lambda: shown(app))
