"""What the host tells the agent: one JSON file in the session's private folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

Facts = Literal["core", "all"]
Durable = Literal["kill", "power"]


@dataclass(frozen=True)
class Config:
    """One run of a scenario under the agent. Paths are absolute."""

    recording: str
    scenario: str
    """Path of the scenario's TOML file."""
    steps: int | None = None
    """Number of update calls, creation included; None for what the scenario says."""
    facts: Facts = "all"
    durable: Durable = "kill"
    control: str | None = None
    """Private folder in which to listen for the app; None to run without one."""
    key: str = ""
    parent: int = 0
    """Process of the host that is going to connect."""
    stdout: str | None = None
    """File that file descriptor 1 was opened on, where the output is to be recorded."""
    stderr: str | None = None
    meta: dict[str, Any] = field(default_factory=dict)
    """What the recording is to say of the run: command, title, about, target."""

    def save(self, path: Path) -> None:
        """Write the file, readable by its owner only (it holds the key)."""
        path.touch(mode=0o600)
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> Config:
        """Read the file back."""
        return cls(**json.loads(path.read_text()))
