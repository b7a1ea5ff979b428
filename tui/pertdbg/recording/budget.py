"""How much room tensors may take, as a person writes it."""

from __future__ import annotations

import re

from pertdbg.errors import PertdbgError

DEFAULT = 2 * 10**9
"""Bytes that the tensors of a recording may take, unless another number is given."""

_DECIMAL = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_BINARY = {"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_UNITS = _DECIMAL | _BINARY
_MOST = 1 << 50


def parse(text: str) -> int:
    """Read a size, such as `500MB`, `2GB` or `1.5GiB`.

    Raises:
        PertdbgError: It is none.
    """
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,9})?) ?([A-Za-z]{0,3})", text.strip(), re.ASCII)
    if found is None or found[2].lower() not in _UNITS:
        raise PertdbgError(f"{text!r} is no size: give one such as 500MB, 2GB or 1.5GiB")
    size = round(float(found[1]) * _UNITS[found[2].lower()])
    if not 0 < size <= _MOST:
        raise PertdbgError(f"{text!r}: a budget is more than nothing and at most 1024TiB")
    return size


def words(nbytes: int) -> str:
    """Write a size with the largest unit that it fills."""
    value, unit = float(nbytes), "B"
    for larger in ("KB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.3g} {unit}"
