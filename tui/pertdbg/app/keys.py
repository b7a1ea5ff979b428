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
    Command("ranks", "a", "ranks", "Ranks", "All ranks: what each does, and who waits"),
    Command("abreast", "B", "abreast", "Abreast", "All ranks side by side, step by step"),
    Command("zoom.in", "plus,equals_sign", "zoom_in", "Zoom in", "Fewer calls in the plots"),
    Command("zoom.out", "minus", "zoom_out", "Zoom out", "More calls in timeline and plots"),
    Command("zoom.all", "0", "zoom_all", "All calls", "All calls in timeline and plots"),
)
"""Moving the cursor and the target."""

INSIDE = (
    Command("line.next", "s,f11", "line(True)", "Line", "Next line; the target runs a new one"),
    Command("line.into", "S", "line(True, True)", "Into", "Next line, into a function it calls"),
    Command("line.previous", "P", "line(False)", "Line back", "Previous line; nothing is run"),
    Command("line.out-of", "I", "line(False, True)", "Back into", "Previous line, into a function"),
    Command("line.first", "left_square_bracket", "line_edge(False)", "In", "First line of a call"),
    Command("line.end", "right_square_bracket", "line_edge(True)", "Out", "End of the call"),
)
"""Inside a call."""

LONG = (
    Command("step.next", "u", "step(True)", "Step", "First call of the next training step"),
    Command(
        "step.previous",
        "U",
        "step(False)",
        "Step back",
        "First call of this step, or the one before",
    ),
    Command("finding.next", "f", "finding(True)", "Finding", "Next call with a finding"),
    Command("finding.previous", "F", "finding(False)", "Finding back", "Previous finding"),
    Command("mark.next", "m", "mark(True)", "Mark", "Next call with a mark"),
    Command("mark.previous", "M", "mark(False)", "Mark back", "Previous call with a mark"),
    Command(
        "holds.next", "full_stop", "holds(True)", "Holds", "Next call at which a condition holds"
    ),
    Command("holds.previous", "comma", "holds(False)", "Held", "Previous call at which one held"),
    Command("layer", "L", "layer", "Layer", "The same call of the next layer"),
    Command("only", "o", "only", "Only", "Pass over calls: of a layer, a step, or so"),
)
"""Many layers, long runs."""

QUESTIONS = (
    Command("stop-when", "b", "stop_when", "Stop when", "Conditions to stop at, or to go to"),
    Command("watch", "w", "watch", "Watch", "Expressions, and their course over calls"),
    Command("ask", "colon", "ask", "Ask", "Evaluate in the target, or over the record"),
    Command("graph", "A", "graph", "Graph", "The autograd graph behind the tensors"),
    Command("find", "slash", "find", "Find", "Search source, output, layers, values…"),
)
"""What a person asks of calls."""

PANELS = (
    Command("panel.gradient", "1", "panel('gradient')", "Gradient", "Panel: gradient norm"),
    Command("panel.delta", "2", "panel('delta')", "Delta", "Panel: clamped delta"),
    Command("panel.leaf", "3", "panel('leaf')", "Leaf", "Panel: leaf status"),
    Command("panel.storage", "4", "panel('storage')", "Storage", "Panel: storage"),
    Command("panel.map", "5", "panel('map')", "Map", "Panel: map of |delta| and histogram"),
    Command("panel.source", "6", "panel('source')", "Source", "Panel: source of the update"),
    Command("panel.output", "7", "panel('output')", "Output", "Panel: output of the target"),
    Command("panel.findings", "8", "panel('findings')", "Findings", "Panel: what is wrong"),
    Command("enlarge", "z,enter", "enlarge", "Enlarge", "Enlarge the panel, or restore all", True),
    Command("restore", "escape", "restore", "Restore", "Show all panels again"),
)
"""Choosing and enlarging a panel."""

RANKS = (
    Command("ranks.up", "up,k", "choose(-1)", "Up", "Ranks: the one above"),
    Command("ranks.down", "down,j", "choose(1)", "Down", "Ranks: the one below"),
    Command("ranks.others", "o", "others", "Others", "Ranks: what the others do at a step"),
    Command("ranks.close", "escape,q,a,enter", "dismiss", "Close", "Ranks: back, to this rank"),
)
"""In the list of ranks."""

ABREAST = (
    Command("abreast.next", "n,right,l", "move(1)", "Next", "Side by side: next step"),
    Command("abreast.previous", "p,left,h", "move(-1)", "Back", "Side by side: previous step"),
    Command("abreast.later", "f", "difference(True)", "Later", "Side by side: next parting"),
    Command("abreast.earlier", "F", "difference(False)", "Earlier", "Side by side: parting before"),
    Command("abreast.first", "home", "edge(True)", "First", "Side by side: the first step"),
    Command("abreast.last", "G,end", "edge(False)", "Last", "Side by side: the last step"),
    Command("abreast.up", "up,k", "choose(-1)", "Up", "Side by side: the rank above"),
    Command("abreast.down", "down,j", "choose(1)", "Down", "Side by side: the rank below"),
    Command("abreast.page-up", "pageup", "page(-1)", "Page up", "Side by side: a page of ranks up"),
    Command("abreast.page-down", "pagedown", "page(1)", "Page down", "Side by side: a page down"),
    Command("abreast.strips", "t", "strips", "Timelines", "Side by side: timelines, or facts"),
    Command("abreast.open", "enter", "open", "Open", "Side by side: open the rank at this step"),
    Command("abreast.close", "escape,q,B", "dismiss", "Close", "Side by side: back to the panels"),
)
"""Where all ranks stand side by side."""

COMPARE = (
    Command("compare.next", "n", "move(1)", "Next", "Compare: next call"),
    Command("compare.previous", "p", "move(-1)", "Back", "Compare: previous call"),
    Command("compare.later", "f", "difference(True)", "Later", "Compare: next difference"),
    Command("compare.earlier", "F", "difference(False)", "Earlier", "Compare: previous difference"),
    Command("compare.first", "g", "first", "First", "Compare: first difference"),
    Command("compare.close", "escape,q,d", "leave", "Close", "Compare: back, to this call"),
)
"""Beside another recording."""

TRIALS = (
    Command("what-if", "W", "whatif", "What if", "Take out a guard or change a value; see"),
    Command("browse", "O", "browse", "Scenarios", "Browse the scenarios, and open one"),
)
"""Trying something."""

WHATIF = (
    Command("what-if.keep", "k", "keep", "Keep", "What if: keep the change as a scenario"),
    Command("what-if.explain", "x", "explain", "Explain", "What if: what each guard is for"),
    Command("what-if.close", "escape,q,W", "dismiss", "Close", "What if: back to the panels"),
)
"""In the list of changes."""

SIDES = (
    Command("sides.next", "n,right", "move(1)", "Next", "Both runs: next call"),
    Command("sides.previous", "p,left", "move(-1)", "Back", "Both runs: previous call"),
    Command("sides.later", "f", "difference(True)", "Later", "Both runs: next difference"),
    Command("sides.earlier", "F", "difference(False)", "Earlier", "Both runs: previous one"),
    Command("sides.first", "g", "first", "First", "Both runs: first difference"),
    Command("sides.gradient", "1", "panel('gradient')", "Gradient", "Both runs: gradient panels"),
    Command("sides.delta", "2", "panel('delta')", "Delta", "Both runs: delta panels"),
    Command("sides.leaf", "3", "panel('leaf')", "Leaf", "Both runs: leaf panels"),
    Command("sides.storage", "4", "panel('storage')", "Storage", "Both runs: storage panels"),
    Command("sides.facts", "d", "facts", "Facts", "Both runs: every fact of both"),
    Command("sides.close", "escape,q", "leave", "Close", "Both runs: back to the changes"),
)
"""Where a run and the same with a change stand side by side."""

BROWSING = (
    Command("browse.up", "up", "move(-1)", "Up", "Scenarios: the one above"),
    Command("browse.down", "down", "move(1)", "Down", "Scenarios: the one below"),
    Command("browse.close", "escape", "dismiss", "Close", "Scenarios: back to the panels"),
)
"""In the list of scenarios."""

OTHERS = (
    Command("compare", "d", "compare", "Compare", "Compare with another recording"),
    Command("copy", "y", "copy", "Copy", "Copy the panel as text to the clipboard"),
    Command("export", "e", "export", "Export", "Save the screen as SVG, the call as text"),
    Command("keep", "r", "keep", "Keep", "Keep the recording under a name"),
    Command("traceback", "T", "traceback", "Traceback", "What ended the target, and where"),
    Command("about", "i", "about", "About", "What the scenario shows, what to look for"),
    Command("help", "question_mark,f1", "help", "Help", "All keys", True),
    Command("interrupt", "ctrl+c", "interrupt", "Interrupt", "Interrupt the target, then quit"),
    Command("quit", "q", "quit", "Quit", "Quit; asks where something would be lost", True),
)
"""The rest."""

TENSORS = (
    Command("tensor", "t", "tensor", "Tensor", "Panel 5: next tensor of the call"),
    Command("values", "v", "values", "Values", "Values of a tensor of the call, full size"),
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
    Command("values.slice", "s", "slice", "Slice", "Values: a part by index, as 0, :, 3:10"),
    Command("values.map", "m", "map", "Map", "Values: the map of them, or the table"),
    Command("values.other", "t", "other", "Other", "Values: the next stored tensor"),
    Command("values.close", "escape,q,v", "dismiss", "Close", "Values: back to the panels"),
)
"""In the table of values."""

STOPS = (
    Command("stops.remove", "x,delete", "remove", "Remove", "Conditions: forget the one chosen"),
    Command("stops.first", "f", "seek('first')", "First", "Conditions: first call where it holds"),
    Command("stops.next", "full_stop", "seek('next')", "Next", "Conditions: next call"),
    Command("stops.previous", "comma", "seek('previous')", "Before", "Conditions: previous call"),
    Command("stops.close", "escape", "dismiss", "Close", "Conditions: back to the panels"),
)
"""In the list of conditions."""

WATCHES = (
    Command("watches.remove", "x,delete", "remove", "Remove", "Watches: forget the one chosen"),
    Command("watches.close", "escape", "dismiss", "Close", "Watches: back to the panels"),
)
"""In the list of watches."""

ASKING = (
    Command("ask.earlier", "up", "earlier", "Earlier", "Ask: the question before"),
    Command("ask.later", "down", "later", "Later", "Ask: the question after"),
    Command("ask.open", "ctrl+o", "open", "Open", "Ask: values of the tensor last answered"),
    Command("ask.close", "escape", "dismiss", "Close", "Ask: back to the panels"),
)
"""Where one asks."""

GRAPHS = (Command("graph.close", "escape,q,A", "dismiss", "Close", "Graph: back to the panels"),)
"""In the autograd graph; the arrows and enter are those of any tree."""

SCROLLING = (
    Command("scroll.up", "up,k", "scroll_lines(-1)", "Up", "Scroll the panel up"),
    Command("scroll.down", "down,j", "scroll_lines(1)", "Down", "Scroll the panel down"),
    Command("scroll.page-up", "pageup", "scroll_pages(-1)", "Page up", "Scroll a page up"),
    Command("scroll.page-down", "pagedown", "scroll_pages(1)", "Page down", "Scroll a page down"),
)
"""Scrolling in the panel that has the focus."""

GROUPS = {
    "Move": MOVES,
    "Inside a call": INSIDE,
    "Many calls": LONG,
    "Questions": QUESTIONS,
    "Panels": PANELS,
    "Tensors": TENSORS,
    "Scroll": SCROLLING,
    "Try": TRIALS,
    "More": OTHERS,
}
"""All commands of the panels as help shows them."""

SCREENS = {
    "In the table of values": VALUES,
    "In a comparison": COMPARE,
    "In the list of changes": WHATIF,
    "In two runs side by side": SIDES,
    "In the list of scenarios": BROWSING,
    "In the list of ranks": RANKS,
    "Where ranks stand side by side": ABREAST,
    "In the conditions": STOPS,
    "In the watches": WATCHES,
    "Where one asks": ASKING,
    "In the graph": GRAPHS,
}
"""Those of other screens, which may use the same keys."""

_OF_THE_APP = (*MOVES, *INSIDE, *LONG, *QUESTIONS, *PANELS, *TENSORS, *TRIALS, *OTHERS)

APP_BINDINGS: list[BindingType] = [command.binding() for command in _OF_THE_APP]
ABREAST_BINDINGS: list[BindingType] = [command.binding() for command in ABREAST]
COMPARE_BINDINGS: list[BindingType] = [command.binding() for command in COMPARE]
WHATIF_BINDINGS: list[BindingType] = [command.binding() for command in WHATIF]
SIDES_BINDINGS: list[BindingType] = [command.binding() for command in SIDES]
BROWSER_BINDINGS: list[BindingType] = [command.binding() for command in BROWSING]
RANKS_BINDINGS: list[BindingType] = [command.binding() for command in RANKS]
STOPS_BINDINGS: list[BindingType] = [command.binding() for command in STOPS]
WATCHES_BINDINGS: list[BindingType] = [command.binding() for command in WATCHES]
ASK_BINDINGS: list[BindingType] = [command.binding() for command in ASKING]
GRAPH_BINDINGS: list[BindingType] = [command.binding() for command in GRAPHS]
VALUES_BINDINGS: list[BindingType] = [command.binding() for command in VALUES]
PANEL_BINDINGS: list[BindingType] = [command.binding() for command in SCROLLING]
IDS = frozenset(command.id for group in (*GROUPS.values(), *SCREENS.values()) for command in group)
