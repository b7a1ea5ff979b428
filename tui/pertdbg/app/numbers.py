"""Numbers as only the screen writes them; the rest is in `pertdbg.output.words`."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def short(value: float, digits: int = 2) -> str:
    """Write a number with two significant digits or so, for axes."""
    text = f"{value:.{digits}g}"
    return f"{value:.0f}" if "e+0" in text and abs(value) < _WHOLE else text


_WHOLE = 10_000
"""Numbers below this are written without a power of ten."""


def count(value: int | None) -> str:
    """Write a count with thousands apart."""
    return "none" if value is None else f"{value:,}"


def size(nbytes: int | None) -> str:
    """Write a number of bytes in the unit that keeps it short."""
    if nbytes is None:
        return "none"
    value, unit = float(nbytes), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{nbytes} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def yes(value: bool | None) -> str:
    """Write a flag."""
    return "?" if value is None else "yes" if value else "no"


def seconds(value: float) -> str:
    """Write a duration."""
    if value < 60:
        return f"{value:.1f} s"
    return f"{int(value) // 60}:{int(value) % 60:02d} min"
