"""Which record a person means by a call number and a layer."""

from __future__ import annotations

from pertdbg.errors import PertdbgError
from pertdbg.output.safe import printable
from pertdbg.recording.reader import Recording


def _why(recording: Recording) -> str:
    """Say why there may be none."""
    if recording.meta.clean_close:
        return ""
    return ": its target was killed, or left by os._exit, before the first one; or it still runs"


def chosen(recording: Recording, call: int | None, layer: str | None) -> int:
    """Give the id of the record of a call of a layer; of the last one where none is given.

    Raises:
        PertdbgError: There is no such record, or more than one.
    """
    names = [known.name for known in recording.layers]
    listed = ", ".join(map(printable, names))
    if not recording.head:
        raise PertdbgError(f"{recording.path} holds no call{_why(recording)}")
    if layer is not None and layer not in names:
        raise PertdbgError(f"no layer is called {layer!r}; there are: {listed}")
    if call is None and layer is None:
        return recording.head
    found = recording.find(call=call, layer=layer)
    if not found:
        raise PertdbgError(f"there is no call {call}; the last record is {recording.head}")
    if call is not None and len(found) > 1:
        raise PertdbgError(f"several layers have a call {call}: add --layer, one of {listed}")
    return found[-1]
