"""Many ranks of one script: started by `torch.distributed.run`, each with its own recording.

The launcher is torch's own, run as it is. It starts for every rank `pertdbg.rankstart`, which
learns its rank from the launcher's environment and becomes the script. A launcher that somebody
else started, ``torchrun … -m pertdbg record train.py``, comes to the same place.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
import uuid
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from pertdbg.agent.config import Config
from pertdbg.controlpoint import claim, holds, sit_down
from pertdbg.errors import PertdbgError
from pertdbg.process import began
from pertdbg.seat import remove
from pertdbg.target import Script

VARIABLE = "PERTDBG_RANKS"
"""What the ranks are told, passed on by the launcher and taken away by each rank."""

_RUN = ".run"
"""File in the folder of a run that says which run it is."""

_LARGEST = 1 << 20
"""Ranks that a run can have, by what an environment says."""


@dataclass(frozen=True)
class Place:
    """Which of a run's ranks a process is."""

    rank: int
    size: int
    restart: int = 0

    def meta(self, run: str) -> dict[str, Any]:
        """Give what its recording says of it; a run that was begun again is another one."""
        if self.restart:
            run = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{run} {self.restart}"))
        return {"uuid": run, "rank": self.rank, "world_size": self.size}


def place_of_this_process() -> Place | None:
    """Read from the environment which rank this process is; None where there is but one."""
    values = [os.environ.get(name, "") for name in ("RANK", "WORLD_SIZE")]
    if not all(value.isdecimal() and len(value) < 9 for value in values):
        return None
    rank, size = map(int, values)
    restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "")
    if not rank < size <= _LARGEST or size == 1:
        return None
    return Place(rank, size, int(restart) if restart.isdecimal() else 0)


def run_of_this_launcher() -> str:
    """Give a name of the run that all ranks of it find, and no other run on this machine."""
    names = ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "SLURM_JOB_ID")
    parts = [os.environ.get(name, "") for name in (*names, "SLURM_STEP_ID")]
    if os.environ.get("LOCAL_WORLD_SIZE", "") == os.environ.get("WORLD_SIZE"):
        parts += [str(os.getppid()), began(os.getppid())]  # all are children of one launcher
    return str(uuid.uuid5(uuid.NAMESPACE_OID, " ".join(parts)))


@dataclass(frozen=True)
class Launch:
    """What the launcher's ranks are told."""

    script: Script
    config: Config
    folder: str
    """Where the recordings go."""
    run: str
    point: str | None = None
    """Folder of the control point, if there is one."""
    wait: bool = False
    """Stop at the first call and wait for an app."""
    captured: bool = False
    """Each rank prints to files beside its recording."""

    def command(self, ranks: int) -> list[str]:
        """Give the launcher's command line."""
        own = self.script.flags if self.script.python == sys.executable else ()
        rank = [sys.executable, *own, "-u", "-m", "pertdbg.rankstart"]
        launcher = [self.script.python, "-m", "torch.distributed.run", "--standalone"]
        return [*launcher, "--nproc-per-node", str(ranks), "--no-python", *rank]

    def environment(self) -> dict[str, str]:
        """Give the launcher's environment."""
        return {**os.environ, VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def of(cls, text: str) -> Launch:
        """Read what a rank was told."""
        values = json.loads(text)
        given = values["script"]
        script = Script(tuple(given["given"]), given["python"], tuple(given["flags"]))
        return cls(**{**values, "script": script, "config": Config(**values["config"])})


def prepare(script: Script, config: Config, output: Path | None, ranks: int) -> Launch:
    """Make the folder of a run that we are going to launch.

    Raises:
        PertdbgError: It can't be made, or the script is not stored in a file.
    """
    if script.is_piped:
        raise PertdbgError(f"{script.given[0]}: a script from a pipe can't be read by each rank")
    run = str(uuid.uuid4())
    meta = {**config.meta, "uuid": run, "world_size": ranks}
    folder = folder_for(script.stem, output, run)
    return Launch(script, replace(config, meta=meta), str(folder), run)


def with_point(launch: Launch, name: str, *, wait: bool) -> Launch:
    """Let the ranks sit down at a control point that is the launcher's: we become it.

    Raises:
        PertdbgError: The name cannot be used, or another running target has it.
    """
    point = claim(name, holds(launch.config, os.getpid()))
    return replace(launch, point=str(point), wait=wait)


def launch(launch: Launch, ranks: int) -> NoReturn:
    """Become the launcher of a script's ranks.

    Raises:
        PertdbgError: The interpreter can't be run.
    """
    _become(launch.script.python, launch.command(ranks), launch.environment())


def begin(launch: Launch, place: Place) -> NoReturn:
    """Become one of the ranks.

    Raises:
        PertdbgError: There is no place to record or to sit.
    """
    path = free_in(Path(launch.folder), place.rank)
    meta = {**launch.config.meta, **place.meta(launch.run)}
    config = replace(launch.config, recording=str(path), meta=meta)
    if launch.captured:
        out, err = (str(path.with_suffix(f".{name}")) for name in ("stdout", "stderr"))
        for descriptor, name in ((1, out), (2, err)):
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
            os.dup2(file, descriptor)
            os.close(file)
        config = replace(config, stdout=out, stderr=err)
    if launch.point is not None:
        config = sit_down(Path(launch.point), config, wait=launch.wait)
    become(replace(launch.script, flags=(*launch.script.flags, "-u")), config)


def become(script: Script, config: Config) -> NoReturn:
    """Become the script's target: this process goes on as Python running the script.

    Raises:
        PertdbgError: The interpreter can't be run.
    """
    _become(script.python, script.command(), script.environment(config))


def folder_for(stem: str, output: Path | None, run: str) -> Path:
    """Give the folder for a run's recordings: the same one to all ranks of it.

    Raises:
        PertdbgError: It can't be made, or another run's recordings are in it.
    """
    if output is not None and output.suffix == ".pertdbg":
        raise PertdbgError(f"-o {output}: each rank has a recording, so -o names a folder here")
    number = 1
    while True:
        path = output or Path(f"{stem}.ranks" if number == 1 else f"{stem}-{number}.ranks")
        if _is_of_run(path, run):
            return path.resolve()
        if output is not None:
            raise PertdbgError(f"{output} is there already and is not empty: choose another folder")
        number += 1


def free_in(folder: Path, rank: int) -> Path:
    """Find a name for a rank's recording: one that began again does not write over the first."""
    path, number = folder / f"rank{rank}.pertdbg", 1
    while path.exists():
        number += 1
        path = folder / f"rank{rank}-{number}.pertdbg"
    return path


def at_point(name: str, config: Config, *, wait: bool) -> Config:
    """Let a process of a script, or one of its ranks, sit down at a control point of its own.

    Raises:
        PertdbgError: The name cannot be used, or another running target has it.
    """
    launched = config.meta.get("world_size", 1) > 1
    pid = os.getppid() if launched else os.getpid()
    return sit_down(claim(name, holds(config, pid)), config, wait=wait)


def _is_of_run(folder: Path, run: str) -> bool:
    """Say whether a folder is this run's: made or taken now, or by another rank before.

    Raises:
        PertdbgError: It can't be made.
    """
    above = folder.absolute().parent
    try:
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=above))
    except OSError as error:
        raise PertdbgError(f"cannot make the folder {folder}: {error.strerror}") from error
    try:
        draft.chmod(0o777 & ~_umask())
        (draft / _RUN).write_text(run)
        draft.rename(folder)  # takes the place of an empty folder, too
    except OSError:
        with contextlib.suppress(OSError):
            return (folder / _RUN).read_text() == run
        return False
    finally:
        remove(draft)
    return True


def _become(python: str, command: list[str], environment: dict[str, str]) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execve(python, command, environment)  # noqa: S606
    except OSError as error:
        raise PertdbgError(f"{python}: can't be run: {error.strerror}") from error


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
