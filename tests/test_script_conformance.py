"""Each thing that scripts do, run by plain Python, by `pertdbg record` and under the app."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from _scripts import EXITS, NAMING, PLAIN, TORCH, live, plain, recorded, write

WITHOUT_TORCH = PLAIN | EXITS

LIVE = [
    "argparse",
    "a subprocess of the same Python",
    "a thread that outlives the module",
    "an exception in a thread",
    "chained exceptions",
    "ended by a signal",
    "exit functions",
    "file descriptors",
    "interrupted",
    "multiprocessing",
    "os._exit",
    "progress in one line",
    "raw writes and buffers",
    "stacks seen from inside",
    "sys.exit('a reason')",
    "sys.exit(3)",
    "an update that raises",
    "the watched model copied, pickled and saved",
]
"""Those whose output, signals or end the app could disturb."""

SINCE = {
    "how deep one can go": (3, 12),
}
"""Where an older Python does not allow it.

Until 3.11 functions are followed by `sys.settrace`, which takes two levels at the recursion limit.
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    path.mkdir()
    return path


def words(name: str) -> list[str]:
    return ["train.py", "--lr", "2e-5", "a b"] if name == "argparse" else ["train.py"]


@pytest.mark.parametrize("name", [*WITHOUT_TORCH, *TORCH])
def test_a_script_does_what_it_does_by_python(folder: Path, name: str) -> None:
    if sys.version_info < SINCE.get(name, (3, 10)):
        pytest.skip(f"Python {SINCE[name][0]}.{SINCE[name][1]} or later")
    write(folder, (WITHOUT_TORCH | TORCH)[name])
    without = plain(folder, words(name))
    assert recorded(folder, words(name)) == without
    if name in LIVE:
        assert live(folder, words(name)) == without


@pytest.mark.parametrize("given", NAMING)
def test_a_script_is_found_as_python_finds_it(folder: Path, given: str) -> None:
    source = write(folder, PLAIN["what __main__ holds"]).read_bytes()
    write(folder, PLAIN["chained exceptions"], "broken.py")
    (folder / "link.py").symlink_to(folder / "package" / "part.py")
    without = plain(folder, given.split(), stdin=source)
    assert recorded(folder, given.split(), stdin=source) == without


GIVEN_TO_PYTHON = [
    *(("-I", given) for given in ("train.py a", "-", "package", "broken.py", "bad.py")),
    *(("-E", given) for given in ("train.py a", "-m package.part", "broken.py")),
    *(("-O -W error", given) for given in ("train.py a", "-")),
    ("-Xdev -u", "train.py"),
]


@pytest.mark.parametrize(("flags", "given"), GIVEN_TO_PYTHON)
def test_the_options_of_the_interpreter_are_the_scripts(
    folder: Path, flags: str, given: str
) -> None:
    shown = PLAIN["what __main__ holds"].replace("sys.orig_argv, ", "")
    source = write(folder, shown).read_bytes()
    write(folder, PLAIN["an exception"], "broken.py")
    write(folder, PLAIN["a syntax error"], "bad.py")
    without = plain(folder, given.split(), stdin=source, flags=flags.split())
    assert recorded(folder, given.split(), stdin=source, flags=flags.split()) == without


def test_a_sitecustomize_of_the_persons_own_still_runs(folder: Path) -> None:
    site = folder.parent / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import builtins\nbuiltins.theirs = __file__\n")
    write(folder, "import sys\nprint(theirs, sys.modules['sitecustomize'], sys.path)\n")
    env = {"PYTHONPATH": f"{site}::/no/such"}
    assert recorded(folder, ["train.py"], env=env) == plain(folder, ["train.py"], env=env)
