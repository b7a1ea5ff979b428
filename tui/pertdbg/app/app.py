"""The app: what each key does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from pertdbg.app import goto, keymap
from pertdbg.app.files import free_name, stem
from pertdbg.app.inspector import Inspector
from pertdbg.errors import PertdbgError
from pertdbg.output.safe import printable
from pertdbg.session import State


class PertdbgApp(Inspector):
    """The time-travel debugger on a session."""

    def action_next(self) -> None:
        """Move to the next call, or the end of this one; at the head, let the target make it."""
        if self.cursor < self.store.head or self._is_inside():
            self.action_forward()
        elif self.session.state is State.RUNNING and not self.stepping and self.session.live:
            self.action_pause()
        else:
            self.run_call()

    def action_previous(self) -> None:
        """Move to the previous call."""
        self.follow = False
        if self.cursor <= 1:
            self.hint("this is the first call" if self.cursor else "there is no call yet")
            return
        self.move(self._neighbour(forward=False))

    def action_forward(self) -> None:
        """Move to the next recorded call; from inside one, to its end."""
        if self._is_inside():
            self.walk(self.cursor)
            return
        if self.cursor >= self.store.head:
            self.hint("this is the last call so far" if self.cursor else "there is no call yet")
            return
        self.move(self._neighbour(forward=True))
        self.follow = self.cursor == self.store.head

    def action_first(self) -> None:
        """Move to the first call."""
        self.follow = False
        self.move(1)

    def action_last(self) -> None:
        """Move to the last call, and stay with it."""
        self.follow = True
        self.move(*self.store.end)

    def action_goto(self) -> None:
        """Ask for a call and go there."""
        from pertdbg.app.screens.dialogs import AskLine

        self.push_screen(AskLine(goto.ASKED, "", self._asked_call), self._go_to)

    def action_panel(self, name: str) -> None:
        """Choose a panel."""
        self.main.choose(name)

    def action_enlarge(self) -> None:
        """Enlarge the chosen panel, or restore all."""
        self.main.enlarge()

    def action_restore(self) -> None:
        """End a search that goes on, else show all panels."""
        if not self.stop_seeking():
            self.main.restore()

    def action_copy(self) -> None:
        """Copy the chosen panel as text."""
        text = self.main.panels[self.main.chosen].copied()
        self.copy_to_clipboard(text)
        lines = text.count("\n") + 1
        self.notify(
            f"{self.main.chosen}: {lines} lines sent to the terminal's clipboard (OSC 52)",
            markup=False,
        )

    def action_export(self) -> None:
        """Save the screen as SVG and the call as text, in the working folder."""
        try:
            self.notify(f"saved {', '.join(self._export())}", markup=False)
        except OSError as error:
            self.notify(f"not saved: {printable(str(error))}", severity="error", markup=False)

    def action_about(self) -> None:
        """Say again what the scenario shows."""
        from pertdbg.app.panels.about import about
        from pertdbg.app.screens.dialogs import Page

        title = self.session.title or self.session.target_name
        text = self.session.about or "This target comes without a description."
        wrong = "; ".join(self.store.notices())
        self.push_screen(Page("what to look for", lambda width: about(title, text, wrong, width)))

    def action_help(self) -> None:
        """Show all keys."""
        from pertdbg.app.screens.dialogs import Page
        from pertdbg.app.screens.help import help_page

        self.push_screen(Page("keys", help_page(self.own_keys, str(keymap.keys_file()))))

    def action_keep(self) -> None:
        """Ask for a name and keep the recording under it."""
        if self.session.state is State.REPLAY:
            self.hint("this recording is kept already")
        elif self.session.recording is None:
            self.hint("nothing is recorded yet")
        else:
            self._ask_name(self._say_kept)

    def action_interrupt(self) -> None:
        """Interrupt the target; a second time, ask to quit."""
        if len(self.screen_stack) > 1:
            self.screen.dismiss(None)
        elif self.session.live and not self.session.ends and not self.interrupted:
            self.interrupted = True
            self.hint("this target is not ours to interrupt; ctrl+c again leaves it running")
        elif self.session.live and not self.interrupted:
            self.interrupted = True
            self.owed.clear()
            self.session.interrupt()
            self.hint("interrupt sent to the target; ctrl+c again quits")
        else:
            self.ask_to_quit()

    async def action_quit(self) -> None:
        """Quit; ask first where something would be lost."""
        self.ask_to_quit()

    def ask_to_quit(self, wanted: str = "") -> None:
        """Ask before a target is ended or a recording is lost; `wanted` is opened afterwards."""
        from pertdbg.app.screens.dialogs import Ask

        self.wanted = wanted
        ends, lost = self.session.ends, self.session.temporary and self.session.kept is None
        if not ends and not lost:
            self._quit()
        elif not isinstance(self.screen, Ask):
            text = "Quitting ends the target. " if ends else ""
            keep = [("keep", "Keep…", "k")] if lost else []
            text += "The recording is temporary: keep it?" if lost else "Quit?"
            out = ("quit", "Discard" if lost else "Quit", "d" if lost else "q")
            leave = [("leave", "Leave it running", "l")] if ends else []
            answers = [*keep, *leave, out, ("cancel", "Cancel", "c")]
            self.push_screen(Ask(text, answers), self._answered)

    def _answered(self, answer: str | None) -> None:
        if answer == "quit":
            self._quit()
        elif answer == "leave":
            self._close(self.session.leave)
        elif answer == "keep":
            self._ask_name(lambda path: None if path is None else self._quit())

    def _quit(self) -> None:
        if self.session.ends:
            self.hint("ending the target…")
        self._close(self.session.end)

    def _close(self, close: Callable[[], Awaitable[None]]) -> None:
        self.run_worker(self._close_and_exit(close), group="leave", exclusive=True)

    async def _close_and_exit(self, close: Callable[[], Awaitable[None]]) -> None:
        try:
            await self.close_session(close)
        except PertdbgError as error:
            self.notify(printable(str(error)), severity="error", markup=False)
        else:
            self.exit(0)

    def _neighbour(self, *, forward: bool) -> int:
        """Give the next or previous call, among those that are walked through."""
        only, here = self.store.only, self.cursor
        if only is None:
            return here + 1 if forward else here - 1
        found = only.after(here) if forward else only.before(here)
        if found is None:
            self.hint(f"no other call {'after' if forward else 'before'} this one: {only.words}")
        return here if found is None else found

    def _is_inside(self) -> bool:
        """Say whether the cursor is at a line of a call that has come to its end."""
        return self.line is not None and self.cursor <= self.store.head

    def _asked_call(self, text: str) -> int:
        """Make an id of what was typed; beyond the head only where the target can run on."""
        store, record = self.store, self.view.record
        layer = None if record is None else record.layer

        def find(number: int) -> int | None:
            found = store.recording.find(call=number, layer=layer) if store.recording else []
            return found[0] if found else None

        id_ = goto.parse(text, self.cursor, store.head, find)
        if id_ > store.head and self.session.state is not State.STOPPED:
            raise goto.beyond(id_, store.head)
        return id_

    def _go_to(self, id_: int | None) -> None:
        if id_ is None:
            return
        if id_ > self.store.head:
            self.run_to(id_)
            return
        self.follow = id_ == self.store.head
        self.move(id_)

    def _ask_name(self, then: Callable[[Path | None], None]) -> None:
        from pertdbg.app.screens.dialogs import AskLine

        name = free_name(stem(self.session), self.session.KEPT)
        self.push_screen(AskLine("Keep the recording as", str(name), self._keep_as), then)

    def _keep_as(self, text: str) -> Path:
        if not text:
            raise PertdbgError("a name is needed")
        path = Path(text).expanduser()
        if path.suffix != self.session.KEPT:
            path = path.with_name(path.name + self.session.KEPT)
        self.session.keep(path)
        return path

    def _say_kept(self, path: Path | None) -> None:
        if path is not None:
            more = "; later calls are added at the end" if self.session.live else ""
            self.notify(f"kept as {printable(str(path))}{more}", markup=False)

    def _export(self) -> list[str]:
        from pertdbg.output.text import describe

        name = f"{stem(self.session)}-call-{self.cursor}"
        picture, text = free_name(name, ".svg"), free_name(name, ".txt")
        picture.write_text(self.export_screenshot(title="pertdbg"), encoding="utf-8")
        record = self.view.record
        if record is None:
            return [str(picture)]
        text.write_text("\n".join(describe(record)) + "\n", encoding="utf-8")
        return [str(picture), str(text)]
