"""What every test has at hand."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]

# One thread each, here and in child processes, so that they don't fight for the cores; numpy
# looks at this when it is imported, which is later.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that runs the large bars whole."""
    parser.addoption("--whole", action="store_true", help="run every large bar at its full size")


def pytest_sessionstart() -> None:
    """Take Ctrl-C, which a shell's `&` has its jobs ignore, and so all that the tests start too."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


SHARES = {
    "test_check_cases": 8,
    "test_script_conformance": 10,
    "test_scenario_shipped": 8,
    "test_postmortem": 8,
    "test_torch_features": 3,
    "test_recording_hostile": 6,
    "test_recording_salvage": 2,
    "test_lines_trace": 4,
    "test_conditions_search": 4,
    "test_check_shapes": 3,
    "test_check_scenarios": 3,
    "test_findings_pages": 6,
    "test_terminal": 3,
    "test_session": 3,
    "test_app_": 3,
    "test_seams_shapes": 2,
    "test_probe_": 2,
    "test_between": 3,
    "test_api_": 3,
    "test_guards_": 2,
    "test_scenario_build": 2,
    "test_script": 3,
}
"""By the beginning of a file's name: of the cases of each of its tests, one in so many runs without
`--whole`. Which ones is drawn from the test's name, so that it is the same in every run."""

LONGEST = (
    *("style", "ablation_runs", "fidelity", "script", "ablation_facts", "terminal", "ranks_live"),
    *("postmortem", "attach", "findings_loops", "check_command", "app_inside_live", "session"),
    *("cli", "scenario_library", "cli_recordings", "check_cases", "app_whatif"),
    *("recording_salvage", "ablation_scripts", "ask_live", "app_find", "api_block"),
    *("conditions_live", "app_live", "app_screen", "between", "recording_hostile", "lines_show"),
    *("script_conformance", "torch_features", "recording_crash", "seams_shapes", "lines_control"),
)
"""Files that take long, the longest first: so short ones are left for the end, when one worker has
nothing more to do and waits for the other."""

OF_TORCH = ("torchelastic_", "torchinductor_")
"""What torch leaves in the temporary folder by itself: a launcher's logs, what it has compiled."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put long files first; leave some cases of the large tables for ``--whole``."""
    ranks = {f"test_{name}.py": rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path.name, len(ranks)))
    if config.getoption("--whole") or any("::" in word for word in config.args):
        return
    tests = Counter(_test(item) for item in items)
    seen: Counter[str] = Counter()
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        test = _test(item)
        share = next((n for name, n in SHARES.items() if item.path.name.startswith(name)), 1)
        seen[test] += 1
        drawn = (seen[test] + zlib.crc32(test.encode())) % min(share, tests[test]) == 0
        (kept if drawn else left).append(item)
    config.hook.pytest_deselected(items=left)
    items[:] = kept


def _test(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


@pytest.fixture(scope="session")
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The temporary folder of this process and all that it starts; short enough for sockets."""
    tmp_path_factory.getbasetemp()  # pytest's own stays where it is looked for
    with (
        tempfile.TemporaryDirectory(prefix="p-", ignore_cleanup_errors=True) as folder,
        mock.patch.dict(os.environ, {"TMPDIR": folder}),
        mock.patch.object(tempfile, "tempdir", folder),
    ):
        Path(folder).chmod(0o755)  # as the temporary folder: some tests are another user's
        yield Path(folder)


@pytest.fixture(autouse=True)
def _nothing_is_left(temporary: Path) -> Iterator[None]:
    """Fail a test that leaves something in the temporary folder."""
    before = set(temporary.iterdir())
    yield
    new = set(temporary.iterdir()) - before
    left = [path for path in new if not path.name.startswith(OF_TORCH)]
    for path in left:  # it is this test's fault alone
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert sorted(path.name for path in left) == []


@pytest.fixture
def whole(request: pytest.FixtureRequest) -> bool:
    """Whether the large bars run at their full size."""
    return bool(request.config.getoption("--whole"))
