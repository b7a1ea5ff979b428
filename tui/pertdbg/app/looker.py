"""What can be looked at beside the panels: other ranks, stored tensors, another recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pertdbg.app.kept import why_not_stored
from pertdbg.app.later import later
from pertdbg.app.panels.map import HOW_TO_STORE
from pertdbg.app.viewer import Viewer
from pertdbg.errors import PertdbgError
from pertdbg.ranks import RankSession, counterpart
from pertdbg.recording.reader import Recording
from pertdbg.recording.stored import StoredTensor
from pertdbg.session import State

if TYPE_CHECKING:
    from pertdbg.app.versus import Versus


_SLOW = 0.5
"""Seconds after which it is said, again and again, that tensors are being stored."""


class Looker(Viewer):
    """Keys that only look: nothing is run by them."""

    _other: Path | None = None
    """What the session was compared with last."""

    def action_rank(self) -> None:
        """Show the same call of the next rank."""
        if not isinstance(self.session, RankSession) or len(self.session.members) < 2:
            self.hint("there is no other rank")
        else:
            self.turn_to(self.session)

    def action_ranks(self) -> None:
        """List what each rank does."""
        from pertdbg.app.screens.ranks import Ranks

        session = self.session
        if isinstance(session, RankSession) and session.members:
            self.push_screen(Ranks(session, lambda to: self.turn_to(session, to)))
        else:
            self.hint("there are no ranks")

    def action_abreast(self) -> None:
        """Show all ranks side by side, at this call's step."""
        from pertdbg.app.abreast import Abreast
        from pertdbg.app.screens.abreast import RanksAbreast

        session = self.session
        if isinstance(session, RankSession) and session.members:
            abreast = Abreast(session, self.cursor)
            self.push_screen(RanksAbreast(abreast), lambda to: self._open_rank(session, to))
        else:
            self.hint("there are no ranks")

    def _open_rank(self, session: RankSession, to: tuple[int, int] | None) -> None:
        """Show a call of a rank."""
        if to is not None:
            self.turn_to(session, to[0])
            self.follow = to[1] == self.store.head
            self.move(to[1])
            self.show()

    def turn_to(self, session: RankSession, to: int | None = None) -> None:
        """Show the same call of another rank, or of the next one."""
        record = self.view.record
        session.switch(to)
        self.stepping = False
        self.owed.clear()
        self.store.refresh()
        self.store.opened = False
        if self.store.recording is not None and record is not None and not self.follow:
            try:
                self.move(counterpart(self.store.recording, record.layer, record.call))
            except PertdbgError as error:  # it is damaged
                self.hint(str(error))
        else:
            self.move(min(self.cursor, self.store.head))
        self.show()

    def action_zoom_in(self) -> None:
        """Show fewer calls in the timeline and the plots."""
        self.zoom(True)

    def action_zoom_out(self) -> None:
        """Show more calls in the timeline and the plots."""
        self.zoom(False)

    def action_zoom_all(self) -> None:
        """Show all calls in the timeline and the plots."""
        self.zoom(None)

    def action_tensor(self) -> None:
        """Show the next stored tensor of the call in the map's panel, and its own map at last."""
        self._with_tensors(self._next_tensor)

    def action_values(self) -> None:
        """Show the values of the stored tensor that was chosen, or of the first one."""
        self._with_tensors(self._values)

    def _with_tensors(self, show: Callable[[Sequence[StoredTensor], str], None]) -> None:
        """Show something of the call's tensors; a target that is stopped there stores them first.

        Args:
            show: Takes those that are stored, and why others are not.
        """
        if self.session.state is State.STOPPED and (self.cursor, self.line) == self.store.end:
            self.run_worker(later(self._stored, show), group="store", exclusive=True)
        else:
            show(self.store.tensors(self.cursor), "")

    async def _stored(self, show: Callable[[Sequence[StoredTensor], str], None]) -> None:
        place = (self.cursor, self.line)
        slow = self.set_interval(_SLOW, lambda: self.hint("the target is storing its tensors…"))
        found = await self.session.store()
        slow.stop()
        if (self.cursor, self.line) == place:
            tensors = self.store.tensors(self.cursor)
            others = [tensor for tensor in tensors if tensor.role not in found.roles]
            show([*(tensor for tensor in tensors if tensor not in others), *others], found.why)

    def _next_tensor(self, tensors: Sequence[StoredTensor], why: str) -> None:
        roles = [tensor.role for tensor in tensors]
        if why or not (roles or self.store.role):
            self.hint(why or self._no_tensors())
        if not roles and not self.store.role:
            return
        places = ["", *roles]
        at = places.index(self.store.role) if self.store.role in places else -1
        self.store.role = places[(at + 1) % len(places)]
        if not self.main.panels["map"].display:
            self.main.choose("map")
        self.show()

    def _values(self, tensors: Sequence[StoredTensor], why: str) -> None:
        from pertdbg.app.screens.values import Values

        if why or not tensors:
            self.hint(why or self._no_tensors())
        if not tensors:
            return
        roles = [tensor.role for tensor in tensors]
        wanted = (role for role in (self.store.role, "delta") if role in roles)
        chosen = roles.index(next(wanted, roles[0]))
        self.push_screen(Values(tensors, chosen))

    def action_traceback(self) -> None:
        """Show the exception that ended the target."""
        from pertdbg.app.panels.raised import raised_page
        from pertdbg.app.screens.dialogs import Page

        raised = self.store.raised
        if raised is None:
            self.hint("no exception ended the target")
        else:
            self.push_screen(Page("traceback", lambda width: raised_page(raised, width)))

    def _no_tensors(self) -> str:
        near = self.store.near_tensors(self.cursor)
        why = why_not_stored(self.store.recording, self.view.record)
        if near is None:
            return f"no tensor is stored: {HOW_TO_STORE}"
        return f"{why or 'no tensor is stored of this call'}; g #{near} goes to one that has some"

    def action_compare(self) -> None:
        """Ask for another recording and show both side by side."""
        from pertdbg.app.screens.dialogs import AskLine

        if not self.cursor:
            self.hint("there is no call yet to compare")
            return
        before = "" if self._other is None else str(self._other)
        self.push_screen(AskLine("Compare with the recording", before, self._versus), self._compare)

    def _versus(self, text: str) -> Versus:
        """Open the other recording."""
        from pertdbg.app.versus import Versus

        if not text or self.store.recording is None:
            raise PertdbgError("the name of a recording is needed")
        path = Path(text).expanduser()
        both = Versus(self.store.recording, Recording.open(path), self.cursor)
        self._other = path
        return both

    def _compare(self, both: Versus | None) -> None:
        from pertdbg.app.screens.versus import Compare

        if both is not None:
            self.push_screen(Compare(both), self._left)

    def _left(self, ident: int | None) -> None:
        """Go to the call that was compared last."""
        if ident is not None:
            self.follow = ident == self.store.head
            self.move(ident)
