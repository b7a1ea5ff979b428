"""A script as the command line names it: how Python is to run it, and with the agent inside."""

from __future__ import annotations

import itertools
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pertdbg.agent.config import Config
from pertdbg.errors import PertdbgError

_BOOT = Path(__file__).parent / "agent" / "boot"
_VARIABLE = "PERTDBG_AGENT"
_ASK = "import sys; print('python %d.%d' % sys.version_info[:2])"


def is_script(target: str) -> bool:
    """Say whether a word of the command line is a script, by its name or else its content."""
    path = Path(target)
    if target == "-" or path.suffix in (".py", ".pyw"):
        return True
    if path.suffix in (".toml", ".pertdbg") or not path.exists():
        return False
    return not _is_regular(path) or _is_program(path)


@dataclass(frozen=True)
class Script:
    """What stands behind ``python`` on the command line, with the interpreter that is to run it."""

    given: tuple[str, ...]
    """A script or ``-m`` and a module, then arguments."""
    python: str
    flags: tuple[str, ...] = ()
    """Options of the interpreter."""

    @classmethod
    def of(cls, given: Sequence[str], python: str | None = None) -> Script:
        """Take what was given on the command line.

        Args:
            given: A script or ``-m`` and a module, then arguments.
            python: The interpreter; ours if not given, with the options that it has itself.

        Raises:
            PertdbgError: The script is not there or can't be read; the interpreter is none.
        """
        if not given[0].startswith("-m"):
            _check_script(given[0])
        elif list(given) == ["-m"]:
            raise PertdbgError("-m needs the name of a module")
        if python is not None:
            return cls(tuple(given), _checked_python(python))
        return cls(tuple(given), sys.executable, _own_flags())

    @property
    def name(self) -> str:
        """What the run is called."""
        return self._module or Path(self.given[0]).name

    @property
    def kept_as(self) -> str:
        """What watches are kept for."""
        if self._module is not None:
            return f"-m {self._module}"
        return self.given[0] if self.given[0] == "-" else str(Path(self.given[0]).resolve())

    @property
    def stem(self) -> str:
        """What a recording of it is called."""
        if self._module is not None:
            return self._module.rpartition(".")[2]
        return "stdin" if self.given[0] in ("-", "/dev/stdin") else Path(self.given[0]).stem

    @property
    def is_piped(self) -> bool:
        """Whether the script's text comes from a pipe or a terminal that only we hold."""
        return self._module is None and not _is_stored(self.given[0])

    def command(self) -> list[str]:
        """Give the command line of the target."""
        runner = [str(_BOOT / "isolated.py")] if self._ignores_environment else []
        return [self.python, *self.flags, *runner, *self.given]

    def environment(self, config: Config) -> dict[str, str]:
        """Give the target's environment, in which the agent finds what it is to do."""
        own = os.environ.get("PYTHONPATH")
        path = f"{_BOOT}{os.pathsep}{own}" if own else str(_BOOT)
        config = replace(config, pythonpath=own, first_path=self._first_path())
        return {**os.environ, "PYTHONPATH": path, _VARIABLE: config.text()}

    @property
    def _module(self) -> str | None:
        if not self.given[0].startswith("-m"):
            return None
        return self.given[0][2:] or self.given[1]

    @property
    def _ignores_environment(self) -> bool:
        flags = sys.flags
        off = flags.isolated or flags.ignore_environment or flags.no_site
        return bool(self.flags) and bool(off)

    def _first_path(self) -> str:
        path = Path(self.given[0])
        if self.given[0] == "-" or self._module is not None:
            return str(Path.cwd())
        return str(path.resolve() if path.is_dir() else path.resolve().parent)


def _check_script(given: str) -> None:
    path = Path(given)
    if given == "-":
        return
    if not path.exists():
        raise PertdbgError(f"{given}: no such script")
    if path.is_dir() and not (path / "__main__.py").is_file():
        raise PertdbgError(f"{given}: is a folder; name a script in it")
    if not os.access(path, os.R_OK):
        raise PertdbgError(f"{given}: can't be read: permission denied")


def _is_program(path: Path) -> bool:
    """Say whether a file or folder that is not called ``.py`` is Python all the same."""
    import zipfile  # not needed to open the app

    if path.is_dir():
        return (path / "__main__.py").is_file()
    if path.suffix == ".pyc" or zipfile.is_zipfile(path):
        return True
    with path.open("rb") as file:
        first = file.readline(200)
    return first.startswith(b"#!") and b"python" in first


def _is_regular(path: Path) -> bool:
    mode = path.stat().st_mode
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def _is_stored(given: str) -> bool:
    try:
        return _is_regular(Path(given))
    except OSError:
        return False


def _checked_python(given: str) -> str:
    path = shutil.which(given)
    if path is None:
        raise PertdbgError(f"--python {given}: no such program, or not one that can be run")
    try:
        asked = subprocess.run(
            [path, "-c", _ASK], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise PertdbgError(f"--python {given}: can't be run: {error}") from error
    word, _, version = asked.stdout.strip().partition(" ")
    if word != "python":
        raise PertdbgError(f"--python {given}: is not a Python interpreter")
    if tuple(map(int, version.split("."))) < (3, 10):
        raise PertdbgError(f"--python {given}: is Python {version}; the agent needs 3.10 or later")
    return str(Path(path).absolute())


def _own_flags() -> tuple[str, ...]:
    """Give the options of ``python OPTIONS -m pertdbg``, which are meant for the script."""
    words = sys.orig_argv
    for place, (word, following) in enumerate(itertools.pairwise(words)):
        if following == "pertdbg" and word.startswith("-") and word.endswith("m"):
            before = [] if word == "-m" else [word[:-1]]
            return (*words[1:place], *before)
    return ()
