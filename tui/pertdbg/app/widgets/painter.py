"""A widget that paints lines with the styles of the style sheet."""

from __future__ import annotations

from functools import lru_cache

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.geometry import Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from pertdbg.app.lines import Line
from pertdbg.app.plot import LEVELS

_NAMES = (
    *("ok", "note", "warn", "bad", "dim", "label", "head", "strong", "mark", "changed"),
    *("cursor", "bad-cursor", "plot", "keyword", "string", "comment", "number"),
    *("heat-low", "heat-high", "heat-beyond", "heat-nan"),
)

STYLES = {f"line--{name}" for name in _NAMES}
"""Component classes of the screen below all others, where every painter looks its colours up.

One owner, because Textual works out the component classes of a widget each time its style changes.
"""


_PAUSE = 0.01
"""Seconds that keys and pixels have between two parts of what takes long."""


class Zoomed(Message):
    """The wheel asks for fewer or more calls."""

    def __init__(self, *, closer: bool, at: int | None = None) -> None:
        super().__init__()
        self.closer, self.at = closer, at


class Painter(Widget):
    """Paints the lines that it writes for its size, when they are asked for; styles once each."""

    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002 - Textual's names
        super().__init__(id=id, classes=classes)
        self._lines: list[Line] = []
        self._top = 0
        self._written: Size | None = None
        """Size that the lines were written for; None where they are out of date."""
        self._strips: dict[int, Strip] = {}
        self._styles: dict[str | Style, Style] = {}
        self._unfinished = False

    def write(self, width: int, height: int) -> list[Line]:
        """Write the lines for a size."""
        raise NotImplementedError

    def renew(self) -> None:
        """Show what is new; where it is not seen it waits, and what is as before is not painted."""
        if self._written != self.size or not self.display:
            self._written = None
        else:
            before = (self._lines, self._top)
            self._fill()
            if before == (self._lines, self._top):
                return
        self._repaint()

    def renew_soon(self) -> None:
        """Look again before long: what was written is not all, for it would have taken too long."""
        if not self._unfinished:
            self._unfinished = True
            self.set_timer(_PAUSE, self._look_again)

    def _look_again(self) -> None:
        self._unfinished = False
        self.renew()

    def render_line(self, y: int) -> Strip:
        """Give a line of cells; the same one until the lines or the colours change."""
        if self._written != self.size:
            self._strips.clear()
            self._fill()
        strip = self._strips.get(y)
        if strip is None:
            strip = self._strips[y] = self._strip(y + self._top)
        return strip

    def _fill(self) -> None:
        self._written = self.size
        self._lines = self.write(*self.size)

    def _repaint(self) -> None:
        self._strips.clear()
        if self.is_attached:
            self.refresh()

    def notify_style_update(self) -> None:
        """Forget what was painted in the colours of another theme."""
        super().notify_style_update()
        self._strips.clear()
        self._styles.clear()

    def _strip(self, row: int) -> Strip:
        # A segment without a style would crash Textual's filter for NO_COLOR (seen in 8.2).
        base = self._style("")
        line = self._lines[row] if row < len(self._lines) else []
        segments = [Segment(text, self._style(style)) for text, style in line if text]
        return Strip(segments).adjust_cell_length(self.size.width, base).simplify()

    def _style(self, name: str | Style) -> Style:
        style = self._styles.get(name)
        if style is None:
            style = self._styles[name] = self._looked_up(name)
        return style

    def _looked_up(self, name: str | Style) -> Style:
        if isinstance(name, Style):
            return self.rich_style + name
        if name.startswith("cells"):
            return self._heat(name)
        own = self.rich_style
        if not name:
            return own
        palette = self.app.screen_stack[0]
        named = palette.get_component_rich_style(f"line--{name}")
        return own + named + Style(bgcolor=own.bgcolor)

    def _heat(self, name: str) -> Style:
        """Give the style of two cells of a heat map, as `cells3/12`; -1 is the background."""
        colours = [self._level(int(level)) for level in name.removeprefix("cells").split("/")]
        back = self.rich_style.bgcolor
        above, below = (back if colour is None else colour for colour in colours)
        return Style(color=above, bgcolor=below)

    def _level(self, level: int) -> RichColor | None:
        if level < 0:
            return None
        if level >= LEVELS:
            return self._style("heat-nan" if level > LEVELS else "heat-beyond").color or _BLACK
        low, high = self._style("heat-low").color, self._style("heat-high").color
        return _blend(low or _BLACK, high or _BLACK, level / (LEVELS - 1))


_BLACK = RichColor.from_rgb(0, 0, 0)
_RAMP_MIDDLE = Color(200, 60, 110)
"""Halfway colour of the heat map's scale, so that its ends differ in more than brightness."""


@lru_cache(maxsize=256)
def _blend(low: RichColor, high: RichColor, share: float) -> RichColor:
    first, last = Color.from_rich_color(low), Color.from_rich_color(high)
    if share < 0.5:
        return first.blend(_RAMP_MIDDLE, 2 * share).rich_color
    return _RAMP_MIDDLE.blend(last, 2 * share - 1).rich_color
