"""A cursor over a session's records, shown on the screen and moved as the target goes on."""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.actions import ActionParseResult
from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.dom import DOMNode
from textual.reactive import var
from textual.screen import Screen
from textual.timer import Timer

from pertdbg.app import keymap
from pertdbg.app.clock import Clock
from pertdbg.app.keys import APP_BINDINGS, GROUPS, SCROLLING
from pertdbg.app.numbers import seconds
from pertdbg.app.panels.status import Progress, has_room
from pertdbg.app.screens.main import MainScreen
from pertdbg.app.store import Store, View, look
from pertdbg.app.widgets.bars import Timeline
from pertdbg.app.widgets.painter import Zoomed
from pertdbg.errors import PertdbgError
from pertdbg.output.safe import printable
from pertdbg.session import Event, Loading, Running, Session, State, Stopped, TargetEnded

_REPAINTS = 15
"""Repaints a second while the target runs free."""

_WARNING = 15.0
"""Seconds that a warning stays, unless it is clicked away; `i` shows it again."""

_HINT = 3.0
"""Seconds that a hint stays in the status bar."""


class Viewer(App[int]):
    """Shows a session call by call; its one state is the cursor."""

    TITLE = "pertdbg"
    CSS_PATH = "app.tcss"
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - as Textual declares it
        (0, "-tiny"),
        (40, "-small"),
        (60, "-narrow"),
        (100, "-normal"),
        (160, "-wide"),
    ]
    VERTICAL_BREAKPOINTS = [  # noqa: RUF012 - as Textual declares it
        (0, "-flat"),
        (10, "-low"),
        (16, "-short"),
        (32, "-tall"),
        (50, "-grand"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [*APP_BINDINGS]

    cursor = var(0)
    """Id of the call that is shown; 0 before the first."""

    def __init__(self, session: Session) -> None:
        """Prepare the app; the target is started when the screen is there."""
        super().__init__()
        self.session = session
        self.store = Store(session)
        self.main = MainScreen(empty=not self.store.head)
        self.line: int | None = None
        """Place among the lines of the call that is shown; None for the call as a whole."""
        self.because: tuple[str, ...] = ()
        """The conditions that stopped the target where it is."""
        self.clock = Clock()
        self.follow = True
        """Whether the cursor keeps up with the head."""
        self.stepping = False
        """Whether the target was sent to its next call and has not stopped there yet."""
        self.owed: list[Callable[[], None]] = []
        """What was asked for while the target was on its way to where it was sent before."""
        self.interrupted = False
        """Whether the target was interrupted since it last went on."""
        self.own_keys: dict[str, str] = {}
        self.wanted = ""
        """Name of the scenario that is to be opened after this session."""
        self._shown_head = 0
        self._hint = ""
        self._noted = False
        """Whether the last hint is a note of its own."""
        self._hint_timer: Timer | None = None
        self._session_closed = False
        self.store.refresh()
        if session.state is State.REPLAY:
            self.follow = False
            self.set_reactive(
                Viewer.cursor, self.store.head if self._fell() else min(1, self.store.head)
            )
        else:
            self.set_reactive(Viewer.cursor, self.store.head)
        self.show()  # before there is a screen, so that its first frame is full

    def get_default_screen(self) -> Screen[None]:
        """Begin with the panels."""
        return self.main

    async def on_mount(self) -> None:
        """Take up a person's keys, show what is there, and start the target."""
        if self.no_color:
            for name in [name for name in self.available_themes if "ansi" in name]:
                self.unregister_theme(name)  # black on black without colours (seen in 8.2)
        self._take_keys()
        self._ticks = self.set_interval(1 / _REPAINTS, self._tick, pause=True)

    @on(MainScreen.Ready)
    def _begin(self) -> None:
        self._keep_time()
        self.store.opened = False
        self._warn()
        self._say_raised()
        self.run_worker(self._listen(), exclusive=True)
        self.set_timer(0.5, _settle)

    def _take_keys(self) -> None:
        self.own_keys, problems = keymap.load(keymap.keys_file())
        self.set_keymap(self.own_keys)
        for problem in problems:
            self.notify(printable(problem), severity="warning", timeout=10, markup=False)

    async def _listen(self) -> None:
        """Start the target and follow what happens to it."""
        try:
            await self.session.start()
        except PertdbgError as error:
            self.exit(return_code=2, message=Text(f"pertdbg: {error}"))
            return
        self.session.look(self.main.looks())
        async for event in self.session.events():
            self._hear(event)

    def _hear(self, event: Event) -> None:
        self.because = event.because if isinstance(event, Stopped) else ()
        if isinstance(event, Running):
            self.clock.restart()
            self._catch_up()
        elif isinstance(event, Loading):
            self._catch_up()
        else:
            self.stepping = False
            self.session.look(self.main.looks())
            self._catch_up()
            self._step_on()
            if isinstance(event, TargetEnded):
                self._say_raised()
        self._keep_time()

    def _step_on(self) -> None:
        """Send the target to where it was asked to go meanwhile."""
        if self.owed and self.session.state is State.STOPPED:
            self.owed.pop(0)()
        else:
            self.owed.clear()

    def _catch_up(self) -> None:
        """Read what is new, and move the cursor along where it follows."""
        self.store.refresh()
        if self.store.problem:
            self.hint(self.store.problem)
        if self.store.opened:
            self._opened()
        before = self.cursor
        if self.follow or not before:
            self.move(*self.store.end)
        if self.cursor == before:
            self.show()

    def _opened(self) -> None:
        """Begin with another recording: one that was begun anew under the same name."""
        self.store.opened = False
        if self.cursor and not self.session.live:
            self.follow = True
            self.set_reactive(Viewer.cursor, 0)
            self.line = None
            self.hint("a new recording was begun; this is it")
        self._warn()

    def _warn(self) -> None:
        """Say what is wrong with the recording as a whole."""
        for text in self.store.notices():
            self.notify(printable(text), severity="warning", timeout=_WARNING, markup=False)

    def _say_raised(self) -> None:
        """Say which exception ended the target: the call before it is the one to look at."""
        raised = self.store.raised
        if raised is not None and self._fell():
            key = self.own_keys.get("traceback", "T")
            text = f"{raised.says[:200]}  ({key}: where it was raised)"
            self.notify(printable(text), severity="error", timeout=_WARNING, markup=False)

    def _fell(self) -> bool:
        """Say whether an exception ended the target, rather than a person."""
        raised = self.store.raised
        return raised is not None and not raised.interrupted

    def _keep_time(self) -> None:
        """Let the clock tick only while something moves by itself."""
        moving = self.session.state in (State.LOADING, State.RUNNING)
        (self._ticks.resume if moving else self._ticks.pause)()

    def _tick(self) -> None:
        self.store.refresh()
        if self.store.opened or self.store.head != self._shown_head or not self.store.head:
            self._catch_up()
        else:
            self.main.panels["output"].renew()
            self._show_bars()
        self._keep_time()

    @property
    def view(self) -> View:
        """What there is to see at the cursor."""
        return look(self.store, self.cursor, self.line)

    def move(self, id_: int, line: int | None = None) -> None:
        """Move the cursor to a call, or to one of its lines, as far as there are calls."""
        last, newest = self.store.end
        if id_ < self.store.head:
            self.owed.clear()
        id_ = min(max(id_, min(1, last)), last)
        before = (self.cursor, self.line)
        self.line = newest if line is None and id_ > self.store.head else line
        self.cursor = id_
        if self.cursor == before[0] and self.line != before[1] and self.is_attached:
            self.show()

    def watch_cursor(self) -> None:
        """Show the call under the cursor."""
        if self.is_attached:
            self.show()

    def show(self) -> None:
        """Show the call under the cursor everywhere."""
        if self._shown_head != self.store.head:
            self._shown_head = self.store.head
            self.look_on()
        self.main.show(self.view, self._progress(), self._hint, self._loading())

    def look_on(self) -> None:
        """Take note that there are new calls."""

    def _show_bars(self) -> None:
        self.main.show_bars(self.view, self._progress(), self._hint)

    def _progress(self) -> Progress:
        return replace(self.clock.see(self.store.head), because=self.because)

    def _loading(self) -> str:
        """Say what happens, or happened, instead of a first call."""
        session = self.session
        if session.state is State.REPLAY:
            return "this recording holds no calls"
        if session.state is State.ENDED:
            how = session.ended.text if session.ended is not None else "ended"
            return f"no call was made: {how}"
        if not session.live:
            return f"{session.loading}…"
        return f"{session.loading}… {seconds(session.elapsed)}"

    def hint(self, text: str) -> None:
        """Say something for a moment: in the status bar, or below where that is too narrow."""
        self.unsay()
        if has_room(self.session, self._progress(), text, self.size.width):
            self._hint = text
        else:
            self._noted = True
            self.notify(printable(text), timeout=2 * _HINT, markup=False)
        if self._hint_timer is not None:
            self._hint_timer.stop()
        self._hint_timer = self.set_timer(_HINT, self._drop_hint)
        self._show_bars()

    def unsay(self) -> None:
        """Take back what was said for a moment."""
        if self._noted:
            self._noted = False
            self.clear_notifications()
        self._drop_hint()

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Do what a key stands for; what was said of the one before is out of date."""
        self.unsay()
        return await super().run_action(action, default_namespace, namespaces)

    def _drop_hint(self) -> None:
        if self._hint:
            self._hint = ""
            self._show_bars()

    @on(Zoomed)
    def _zoomed(self, event: Zoomed) -> None:
        self.zoom(event.closer, event.at)

    def zoom(self, closer: bool | None, at: int | None = None) -> None:
        """Show fewer or more calls in the timeline and the plots; None for all."""
        zoom, head = self.store.zoom, self.store.head
        if closer is None:
            zoom.everything()
        elif head:
            change = zoom.closer if closer else zoom.wider
            change(self.cursor if at is None else at, self.cursor, head)
        self.show()

    @on(Timeline.Chosen)
    def _chosen(self, event: Timeline.Chosen) -> None:
        self.follow = event.id == self.store.head
        self.move(event.id)

    @on(MainScreen.Rearranged)
    def _rearranged(self) -> None:
        self.session.look(self.main.looks())
        self.show()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:  # noqa: ARG002 - Textual's
        """Put every action, and the themes, into the palette."""
        panel = self.main.panels[self.main.chosen]
        for commands in GROUPS.values():
            for command in commands:
                owner = panel if commands is SCROLLING else self
                run = partial(self.run_action, command.action, owner)
                yield SystemCommand(f"{command.label}: {command.says}", command.id, run)
        yield SystemCommand("Theme", "Change the colours", self.action_change_theme)

    async def on_unmount(self) -> None:
        """Leave no process behind, however the app ends."""
        await self.close_session()

    async def close_session(self, close: Callable[[], Awaitable[None]] | None = None) -> None:
        """Let go of the recording and of the target, ended or left; once.

        Args:
            close: The session's way to do it, where a person has chosen one.

        Raises:
            PertdbgError: The target can't be left.
        """
        if self._session_closed:
            return
        self._session_closed = True
        try:
            await (close or self.session.close)()
        except PertdbgError:
            self._session_closed = False
            raise


def _settle() -> None:
    """Spare the collector what lives as long as the app: its pauses are the longest ones."""
    gc.collect()
    gc.freeze()
