"""A plugin for pytest: a test that asks for it is recorded, and fails with what is found.

A test that takes the fixture `pertdbg_check`, or has the marker `pertdbg`, is recorded while it
runs and then checked. It fails where something is found that is at least as pressing as `fail_on`,
or where no update of a perturbation was seen::

    def test_training_step(pertdbg_check):
        pertdbg_check.allow("random-start-dominates")
        train_step(model, batch)

    @pytest.mark.pertdbg(fail_on="error")
    def test_attack(): ...
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import pytest

from pertdbg.errors import PertdbgError

if TYPE_CHECKING:
    from pertdbg.findings.model import Finding

FailOn = Literal["error", "warning", "never"]

_SECTION = "pertdbg check"


class Check:
    """What a test asks of its check, and what that came to."""

    def __init__(self) -> None:
        self.fail_on: FailOn = "warning"
        self.findings: list[Finding] = []
        """What was found, once the test has ended."""
        self._allowed: set[str] = set()

    def allow(self, *kinds: str) -> None:
        """Let kinds of findings pass.

        Raises:
            PertdbgError: There is no such kind.
        """
        from pertdbg.findings.pages import page

        for kind in kinds:
            page(kind)
        self._allowed.update(kinds)

    def of(self, recording: Path) -> str:
        """Check a recording; gives what makes the test fail, in words, or nothing."""
        from pertdbg.findings.engine import check_paths
        from pertdbg.findings.report import Report
        from pertdbg.output.findings import as_text

        checked = check_paths([recording])
        self.findings = checked.findings
        left = [finding for finding in self.findings if finding.kind not in self._allowed]
        report = Report("the test", left, checked.calls)
        return "\n".join(as_text(report)) if report.status(self.fail_on) else ""


@pytest.fixture
def pertdbg_check() -> Check:
    """Record the test, check it when it has ended, and fail it with what is found."""
    return Check()


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        "pertdbg(fail_on='warning', allow=()): record the test, fail it with what pertdbg finds",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Record a test that asks for it, a method of `unittest` as well, and check the recording."""
    check = _check_of(item)
    if check is None:
        return (yield)
    from pertdbg.agent.api import record

    with tempfile.TemporaryDirectory(prefix="pertdbg-check-") as folder:
        path = Path(folder) / "test.pertdbg"
        try:
            with record(path) as block:
                result = yield
        except BaseException:
            if path.exists() and block.calls:
                item.add_report_section("call", _SECTION, check.of(path))
            raise
        if not block.calls:
            pytest.fail("pertdbg: no update of a perturbation was seen", pytrace=False)
        text = check.of(block.path)
    if text:
        pytest.fail(text, pytrace=False)
    return result


def _check_of(item: pytest.Item) -> Check | None:
    check = cast("Check | None", getattr(item, "funcargs", {}).get("pertdbg_check"))
    marker = item.get_closest_marker("pertdbg")
    if marker is None:
        return check
    try:
        fail_on, allow = _asked(*marker.args, **marker.kwargs)
        check = check or Check()
        check.fail_on = fail_on
        check.allow(*allow)
    except (PertdbgError, TypeError) as error:
        said = str(error).removeprefix("_asked() ")
        pytest.fail(f"pertdbg: the marker of this test: {said}", pytrace=False)
    return check


def _asked(fail_on: FailOn = "warning", allow: Iterable[str] = ()) -> tuple[FailOn, list[str]]:
    if fail_on not in get_args(FailOn):
        raise PertdbgError(f"fail_on is one of {', '.join(get_args(FailOn))}, not {fail_on!r}")
    return fail_on, [allow] if isinstance(allow, str) else list(allow)
