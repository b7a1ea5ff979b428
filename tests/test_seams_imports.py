"""Being told of imports."""

from __future__ import annotations

import importlib
import sys
import traceback
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from pertdbg.agent.seams.bysettrace import BySettrace
from pertdbg.agent.seams.imports import Imports
from pertdbg.agent.seams.tracing import Untraced


@pytest.fixture
def imports() -> Iterator[Imports]:
    telling = Imports()
    telling.install()
    yield telling
    telling.remove()
    assert telling not in sys.meta_path


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "told_of.py").write_text("value = 7\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "told_of"
    sys.modules.pop("told_of", None)


def test_a_module_is_told_of_once_it_has_run(imports: Imports, module: str) -> None:
    told: list[types.ModuleType] = []
    imports.when(module, told.append)
    assert told == []
    found = importlib.import_module(module)
    assert told == [found]
    assert found.value == 7
    assert importlib.reload(found) is found
    assert len(told) == 1


def test_a_module_that_is_there_is_told_of_at_once(imports: Imports) -> None:
    told: list[types.ModuleType] = []
    imports.when("traceback", told.append)
    assert told == [traceback]


def test_what_its_loader_shows_is_as_without_us(imports: Imports, module: str) -> None:
    imports.when(module, lambda _: None)
    found = importlib.import_module(module)
    assert found.__spec__ is not None
    assert found.__spec__.loader is found.__loader__
    assert "exec_module" not in vars(found.__loader__)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="sys.monitoring calls nobody for it")
@pytest.mark.parametrize("text", ["import sys\ntrace = sys.gettrace()\n", "1 / 0\n"])
def test_a_module_runs_without_our_trace_function_where_that_is_asked_for(
    imports: Imports, module: str, tmp_path: Path, text: str
) -> None:
    (tmp_path / "told_of.py").write_text(text)
    before, ours = sys.gettrace(), BySettrace(lambda _: None)
    imports.when(module, lambda _: None, Untraced)
    sys.settrace(None)
    assert ours.install() is None
    mine = sys.gettrace()
    try:
        assert importlib.import_module(module).trace is None
    except ZeroDivisionError:
        assert text.startswith("1")
    finally:
        after = sys.gettrace()
        ours.remove()
        sys.settrace(before)
    assert after == mine


def test_a_module_that_fails_fails_as_without_us(
    imports: Imports, module: str, tmp_path: Path
) -> None:
    (tmp_path / "told_of.py").write_text("1 / 0\n")
    imports.when(module, lambda _: None)
    with pytest.raises(ZeroDivisionError) as raised:
        importlib.import_module(module)
    files = [frame.filename for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert not any("pertdbg" in file and "agent" in file for file in files)
