"""What the host tells the agent, as JSON.

For a scenario it is a file in the session's private folder; for a script an environment variable,
since there need not be such a folder.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from pertdbg.recording.budget import DEFAULT

Facts = Literal["core", "all"]
Durable = Literal["kill", "power"]


@dataclass(frozen=True)
class Config:
    """One run of a scenario or a script under the agent. Paths are absolute."""

    recording: str
    scenario: str = ""
    """Path of the scenario's TOML file; empty for a script."""
    steps: int | None = None
    """Number of update calls, creation included; None for what the scenario says."""
    facts: Facts = "all"
    durable: Durable = "kill"
    tensors: str = "none"
    """Which calls' tensors to store: `none`, `last`, `every:N` or `all`."""
    tensor_budget: int = DEFAULT
    """Bytes that they may take."""
    control: str | None = None
    """Private folder in which to listen for the app; None to run without one."""
    key: str = ""
    parent: int = 0
    """Process of the host that is going to connect; 0 for none."""
    began: str = ""
    """What tells the host's process from a later one; empty where it is our own parent."""
    wait: bool = False
    """Stop at the first call for an app, however late one comes."""
    seat: bool = False
    """`control` is a seat of a control point, which goes when nobody listens there any more."""
    stdout: str | None = None
    """File that file descriptor 1 was opened on, where the output is to be recorded."""
    stderr: str | None = None
    meta: dict[str, Any] = field(default_factory=dict)
    """What the recording is to say of the run: command, title, about, target."""
    adapters: list[dict[str, Any]] = field(default_factory=list)
    """For a script: what to look for, in the order in which it is tried."""
    pythonpath: str | None = None
    """For a script: the `PYTHONPATH` that it is to find; None for none."""
    first_path: str | None = None
    """For a script: what Python puts first on `sys.path`."""
    lines: bool = False
    """Record each call from inside, line by line."""
    stop_when: list[dict[str, Any]] = field(default_factory=list)
    """Conditions at which to stop, and which calls to mark where nobody is there to stop for."""

    def save(self, path: Path) -> None:
        """Write the file, readable by its owner only (it holds the key)."""
        path.touch(mode=0o600)
        path.write_text(self.text())

    def text(self) -> str:
        """Give it as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, path: Path) -> Config:
        """Read the file back."""
        return cls.of(path.read_text())

    @classmethod
    def of(cls, text: str) -> Config:
        """Read what `text` gave."""
        return cls(**json.loads(text))
