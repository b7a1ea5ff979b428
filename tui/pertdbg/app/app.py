"""The app: what each key does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pertdbg.app import goto, keymap
from pertdbg.app.files import free_name, stem
from pertdbg.app.looker import Looker
from pertdbg.errors import PertdbgError
from pertdbg.output.safe import printable
from pertdbg.session import State

_OWED = 20
"""Most calls that can be asked for ahead of a slow target."""


_WATCHED = "another process writes this recording: it is followed, not steered"


class PertdbgApp(Looker):
    """The time-travel debugger on a session."""

    def action_next(self) -> None:
        """Move to the next call; at the head, let the target make it."""
        if self.cursor < self.store.head:
            self.action_forward()
        elif self.stepping:
            self.owed = min(self.owed + 1, _OWED)
        elif self.session.state is State.RUNNING and self.session.live:
            self.action_pause()
        elif self._can_run():
            self.follow = self.stepping = True
            self.session.next()

    def action_previous(self) -> None:
        """Move to the previous call."""
        self.follow = False
        if self.cursor <= 1:
            self.hint("this is the first call" if self.cursor else "there is no call yet")
        self.move(self.cursor - 1)

    def action_forward(self) -> None:
        """Move to the next recorded call."""
        if self.cursor >= self.store.head:
            self.hint("this is the last call so far" if self.cursor else "there is no call yet")
            return
        self.move(self.cursor + 1)
        self.follow = self.cursor == self.store.head

    def action_first(self) -> None:
        """Move to the first call."""
        self.follow = False
        self.move(1)

    def action_last(self) -> None:
        """Move to the last call, and stay with it."""
        self.follow = True
        self.move(self.store.head)

    def action_go(self) -> None:
        """Let the target run to its next stop or its end."""
        if self._can_run():
            self.follow = True
            self.session.go()

    def action_pause(self) -> None:
        """Stop a running target at its next call."""
        self.owed = 0
        if self._is_watched():
            self.hint(_WATCHED)
        elif self.session.state is State.RUNNING and not self.stepping:
            self.session.pause()
            self.hint("stopping at the next call")

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
        """Show all panels."""
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
        elif self.session.live and not self.interrupted:
            self.interrupted, self.owed = True, 0
            self.session.interrupt()
            self.hint("interrupt sent to the target; ctrl+c again quits")
        else:
            self.ask_to_quit()

    async def action_quit(self) -> None:
        """Quit; ask first where something would be lost."""
        self.ask_to_quit()

    def ask_to_quit(self) -> None:
        """Ask before a target is ended or a recording is lost."""
        from pertdbg.app.screens.dialogs import Ask

        lost = self.session.temporary and self.session.kept is None
        if not self.session.live and not lost:
            self._leave()
        elif not isinstance(self.screen, Ask):
            text = "Quitting ends the target. " if self.session.live else ""
            keep = [("keep", "Keep…", "k")] if lost else []
            text += "The recording is temporary: keep it?" if lost else "Quit?"
            out = ("quit", "Discard" if lost else "Quit", "d" if lost else "q")
            answers = [*keep, out, ("cancel", "Cancel", "c")]
            self.push_screen(Ask(text, answers), self._answered)

    def _answered(self, answer: str | None) -> None:
        if answer == "quit":
            self._leave()
        elif answer == "keep":
            self._ask_name(lambda path: None if path is None else self._leave())

    def _leave(self) -> None:
        if self.session.live:
            self.hint("ending the target…")
        self.run_worker(self._close_and_exit(), group="leave", exclusive=True)

    async def _close_and_exit(self) -> None:
        await self.close_session()
        self.exit(0)

    def _is_watched(self) -> bool:
        """Say whether the target goes on, but is not ours to command."""
        return not self.session.live and self.session.state in (State.LOADING, State.RUNNING)

    def _can_run(self) -> bool:
        """Say whether the target can be sent on, and why not where it can't."""
        state = self.session.state
        if self._is_watched():
            self.hint(_WATCHED)
        elif state is State.REPLAY:
            self.hint("a recording does not run; it has no further call")
        elif state is State.ENDED:
            self.hint(self.session.ended.text if self.session.ended else "the target has ended")
        elif state is State.LOADING:
            self.hint("the target is still loading")
        elif state is State.STOPPED:
            self.interrupted = False
            return True
        return False

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
        if id_ > self.store.head and self._can_run():
            self.follow = True
            self.session.go(id_)
            return
        self.follow = id_ == self.store.head
        self.move(id_)

    def _ask_name(self, then: Callable[[Path | None], None]) -> None:
        from pertdbg.app.screens.dialogs import AskLine

        name = free_name(stem(self.session), ".pertdbg")
        self.push_screen(AskLine("Keep the recording as", str(name), self._keep_as), then)

    def _keep_as(self, text: str) -> Path:
        if not text:
            raise PertdbgError("a name is needed")
        path = Path(text).expanduser()
        if path.suffix != ".pertdbg":
            path = path.with_name(path.name + ".pertdbg")
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
