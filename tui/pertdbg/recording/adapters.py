"""Which adapters matched in a run, and why not the others, as a recording keeps it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pertdbg.recording.schema import NAME_LIMIT, TEXT_LIMIT

ADAPTERS = "adapters"
"""Key of the meta table."""

_MOST = 200
"""Most adapters, and most names that one of them matched."""

_CUT = 200
"""Characters of a name or a reason, unless all together are too long."""


@dataclass(frozen=True, slots=True)
class Match:
    """What became of one adapter."""

    adapter: str
    matched: tuple[str, ...]
    """Names of layers and loops."""
    why_not: str
    """Why it matched nothing; empty where it did."""


def to_text(report: Sequence[Mapping[str, Any]]) -> str:
    """Turn what the finder reports into the text that the recording keeps."""
    length = _CUT
    while True:
        found = [_short(entry, length) for entry in report[:_MOST]]
        text = json.dumps(found, ensure_ascii=False)
        if len(text) <= TEXT_LIMIT:
            return text
        length //= 2


def of_text(text: Any) -> tuple[Match, ...]:
    """Read what `to_text` gave; nothing where it is of another form, or too long."""
    if not isinstance(text, str) or len(text) > TEXT_LIMIT:
        return ()
    try:
        found = json.loads(text)
        if not isinstance(found, list) or len(found) > _MOST:
            return ()
        return tuple(_match(*entry) for entry in found)
    except (ValueError, TypeError, RecursionError):
        return ()


def _short(entry: Mapping[str, Any], length: int) -> list[Any]:
    """Give an adapter's entry, with names and reasons cut where there are too many of them."""
    names = [_cut(name, length) for name in entry["matched"][: min(_MOST, length)]]
    return [_cut(entry["adapter"], length), names, _cut(entry["why_not"] or "", length)]


def _cut(text: Any, length: int) -> str:
    return str(text).encode("utf-8", "backslashreplace").decode()[:length]


def _match(adapter: Any, matched: Any, why_not: Any) -> Match:
    if not isinstance(matched, list) or len(matched) > _MOST:
        raise ValueError("not a list, or too long")
    return Match(_name(adapter), tuple(map(_name, matched)), _name(why_not))


def _name(text: Any) -> str:
    if not isinstance(text, str) or len(text) > NAME_LIMIT:
        raise ValueError("not a text, or too long")
    return text
