"""What the parts of a record that hold numbers have in common."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pertdbg.agent.quiet import Notes
from pertdbg.agent.tensors import Sight, is_tensor
from pertdbg.agent.values import Values, values_of

CORE = "not in --facts core"
"""The reason of a fact that `--facts core` leaves out."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is read, and by what."""

    core: bool
    use_numpy: bool


def read_values(
    role: object, sight: Sight | None, part: str, settings: Settings, notes: Notes
) -> Values | None:
    """Get at the values of what stands in a role, or note why not for a part of the record."""
    if not is_tensor(role):
        if role is not None:
            notes.add(part, f"not a tensor: {type(role).__name__}")
        return None
    with notes.attempting(part):
        return values_of(role, sight, use_numpy=settings.use_numpy)
    return None


def note_all(part: str, fields: Iterable[str], reason: str, notes: Notes) -> None:
    """Note one reason for several fields of a part."""
    for name in fields:
        notes.add(f"{part}.{name}", reason)


def whole(number: float | None) -> int | None:
    """Give a count as an integer."""
    return None if number is None else int(number)


def share(numbers: dict[str, float], name: str, count: int) -> float | None:
    """Give a count as a share of all elements."""
    return numbers[name] / count if name in numbers else None
