"""What `torch.distributed` says of the process group: how long its collectives wait."""

from __future__ import annotations

import sys
from typing import Any

KEY = "group_timeout"
"""What the recording calls it, in seconds."""


class Group:
    """Finds the timeout of the default group, once there is one; nothing is made or changed."""

    def __init__(self) -> None:
        self._found = False

    def news(self) -> dict[str, float]:
        """Give the timeout for the recording, the first time that it is known."""
        distributed: Any = sys.modules.get("torch.distributed")
        if self._found or distributed is None:
            return {}
        try:
            if not distributed.is_initialized():
                return {}
            self._found = True
            return {KEY: min(_timeouts(distributed))}
        except Exception:  # noqa: BLE001 - another version of torch keeps it elsewhere: not known
            self._found = True
            return {}


def _timeouts(distributed: Any) -> list[float]:
    """Give that of each device's backend; torch has no public name for them."""
    group = distributed.distributed_c10d._get_default_group()
    backends = [group._get_backend(device) for device in group._device_types]
    return [backend.options._timeout.total_seconds() for backend in backends]
