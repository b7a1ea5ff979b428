"""Actions and their keys, as data: footer, help and palette are made from one list.

Each has an id under which a person can give it other keys in `keys.toml`.
"""

from __future__ import annotations

from dataclasses import dataclass

from textual.binding import Binding, BindingType


@dataclass(frozen=True)
class Command:
    """An action, its keys, and its words."""

    id: str
    """What `keys.toml` calls it."""
    keys: str
    """Keys with commas between; the first is shown."""
    action: str
    label: str
    """A word for the footer."""
    says: str
    """A sentence for help and palette."""
    footer: bool = False

    def binding(self) -> Binding:
        """Give the binding for Textual."""
        return Binding(
            self.keys,
            self.action,
            self.label,
            show=self.footer,
            priority="ctrl+" in self.keys,  # before Textual's own use of the key
            tooltip=self.says,
            id=self.id,
        )


MOVES = (
    Command("next", "n,f10", "next", "Next", "Next call; at the head the target makes it", True),
    Command("previous", "p,left,h", "previous", "Back", "Previous call; nothing is run", True),
    Command("forward", "right,l", "forward", "Forward", "Next recorded call; nothing is run"),
    Command("go", "c,f5", "go", "Continue", "Run the target to its end or next stop", True),
    Command("pause", "space", "pause", "Pause", "Stop a running target at the next call"),
    Command("goto", "g", "goto", "Go to", "Go to a call by number or percentage", True),
    Command("first", "home", "first", "First", "Go to the first call"),
    Command("last", "G,end", "last", "Last", "Go to the last call and follow the target"),
    Command("rank", "R", "rank", "Rank", "The same call in the next rank"),
    Command("zoom.in", "plus,equals_sign", "zoom_in", "Zoom in", "Fewer calls in the plots"),
    Command("zoom.out", "minus", "zoom_out", "Zoom out", "More calls in timeline and plots"),
    Command("zoom.all", "0", "zoom_all", "All calls", "All calls in timeline and plots"),
)
"""Moving the cursor and the target."""

PANELS = (
    Command("panel.gradient", "1", "panel('gradient')", "Gradient", "Panel: gradient norm"),
    Command("panel.delta", "2", "panel('delta')", "Delta", "Panel: clamped delta"),
    Command("panel.leaf", "3", "panel('leaf')", "Leaf", "Panel: leaf status"),
    Command("panel.storage", "4", "panel('storage')", "Storage", "Panel: storage"),
    Command("panel.map", "5", "panel('map')", "Map", "Panel: map of |delta| and histogram"),
    Command("panel.source", "6", "panel('source')", "Source", "Panel: source of the update"),
    Command("panel.output", "7", "panel('output')", "Output", "Panel: output of the target"),
    Command("enlarge", "z,enter", "enlarge", "Enlarge", "Enlarge the panel, or restore all", True),
    Command("restore", "escape", "restore", "Restore", "Show all panels again"),
)
"""Choosing and enlarging a panel."""

COMPARE = (
    Command("compare.next", "n", "move(1)", "Next", "Compare: next call"),
    Command("compare.previous", "p", "move(-1)", "Back", "Compare: previous call"),
    Command("compare.later", "f", "difference(True)", "Later", "Compare: next difference"),
    Command("compare.earlier", "F", "difference(False)", "Earlier", "Compare: previous difference"),
    Command("compare.first", "g", "first", "First", "Compare: first difference"),
    Command("compare.close", "escape,q,d", "leave", "Close", "Compare: back, to this call"),
)
"""Beside another recording."""

OTHERS = (
    Command("compare", "d", "compare", "Compare", "Compare with another recording"),
    Command("copy", "y", "copy", "Copy", "Copy the panel as text to the clipboard"),
    Command("export", "e", "export", "Export", "Save the screen as SVG, the call as text"),
    Command("keep", "r", "keep", "Keep", "Keep the recording under a name"),
    Command("about", "i", "about", "About", "What the scenario shows, what to look for"),
    Command("help", "question_mark,f1", "help", "Help", "All keys", True),
    Command("interrupt", "ctrl+c", "interrupt", "Interrupt", "Interrupt the target, then quit"),
    Command("quit", "q", "quit", "Quit", "Quit; asks where something would be lost", True),
)
"""The rest."""

TENSORS = (
    Command("tensor", "t", "tensor", "Tensor", "Panel 5: next stored tensor of the call"),
    Command("values", "v", "values", "Values", "Values of a stored tensor, full size"),
)
"""Tensors that the recording holds."""

VALUES = (
    Command("values.up", "up,k", "by(-1, 0)", "Up", "Values: a row up"),
    Command("values.down", "down,j", "by(1, 0)", "Down", "Values: a row down"),
    Command("values.left", "left,h", "page(0, -1)", "Left", "Values: columns to the left"),
    Command("values.right", "right,l", "page(0, 1)", "Right", "Values: columns to the right"),
    Command("values.page-up", "pageup", "page(-1, 0)", "Page up", "Values: a page up"),
    Command("values.page-down", "pagedown", "page(1, 0)", "Page down", "Values: a page down"),
    Command("values.first", "home", "edge(-1)", "First", "Values: the first row"),
    Command("values.last", "G,end", "edge(1)", "Last", "Values: the last row"),
    Command("values.other", "t", "other", "Other", "Values: the next stored tensor"),
    Command("values.close", "escape,q,v", "dismiss", "Close", "Values: back to the panels"),
)
"""In the table of values."""

SCROLLING = (
    Command("scroll.up", "up,k", "scroll_lines(-1)", "Up", "Scroll the panel up"),
    Command("scroll.down", "down,j", "scroll_lines(1)", "Down", "Scroll the panel down"),
    Command("scroll.page-up", "pageup", "scroll_pages(-1)", "Page up", "Scroll a page up"),
    Command("scroll.page-down", "pagedown", "scroll_pages(1)", "Page down", "Scroll a page down"),
)
"""Scrolling in the panel that has the focus."""

GROUPS = {"Move": MOVES, "Panels": PANELS, "Tensors": TENSORS, "Scroll": SCROLLING, "More": OTHERS}
"""All commands of the panels as help shows them."""

SCREENS = {"In the table of values": VALUES, "In a comparison": COMPARE}
"""Those of other screens, which may use the same keys."""

APP_BINDINGS: list[BindingType] = [c.binding() for c in (*MOVES, *PANELS, *TENSORS, *OTHERS)]
COMPARE_BINDINGS: list[BindingType] = [command.binding() for command in COMPARE]
VALUES_BINDINGS: list[BindingType] = [command.binding() for command in VALUES]
PANEL_BINDINGS: list[BindingType] = [command.binding() for command in SCROLLING]
IDS = frozenset(command.id for group in (*GROUPS.values(), *SCREENS.values()) for command in group)
