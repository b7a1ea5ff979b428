"""The help page, made from the bindings themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from textual.keys import format_key

from pertdbg.app.keys import GROUPS, SCREENS, Command
from pertdbg.app.lines import Line, padded, wrap

_KEYS = 12
"""Cells for the keys of an action."""

_IDS = 17
"""Cells for the names that `keys.toml` uses, with the blank before them."""

_ALSO = (
    "Also: ctrl+p all actions and themes, tab next panel. The mouse: a click in the timeline goes "
    "to a call, two on a panel enlarge it, the wheel scrolls a panel and zooms timeline and plots."
)


def help_page(keymap: Mapping[str, str], keys_file: str) -> Callable[[int], list[Line]]:
    """Give the page's text for a width.

    Args:
        keymap: A person's own keys by id.
        keys_file: Where these stand.
    """

    def write(width: int) -> list[Line]:
        lines: list[Line] = []
        for title, commands in (*GROUPS.items(), *SCREENS.items()):
            lines += [[(title, "head")]]
            for command in commands:
                lines += _command(command, keymap.get(command.id, command.keys), width)
            lines.append([])
        lines += wrap(_ALSO, width)
        return lines + wrap(
            f'Own keys: {keys_file}, lines such as  next = "f9"  with the names at the right.',
            width,
            "dim",
        )

    return write


def _command(command: Command, keys: str, width: int) -> list[Line]:
    shown = " ".join(_shown(key) for key in keys.split(","))
    wide = width > 60
    room = width - _KEYS - 1 - (_IDS if wide else 0)
    says = wrap(command.says, room)
    name = (command.id, "dim") if wide else ("", "")
    first: Line = [
        (padded(shown, _KEYS) + " ", "mark"),
        (padded(says[0][0][0], room) + " ", ""),
        name,
    ]
    return [first, *([(" " * (_KEYS + 1), ""), *line] for line in says[1:])]


def _shown(key: str) -> str:
    *modifiers, last = key.strip().split("+")
    return "+".join([*modifiers, format_key(last)])
