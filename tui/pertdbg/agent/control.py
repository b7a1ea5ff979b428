"""The agent's end of the control socket: when to stop, and waiting there.

There is no thread: commands are looked at when a call ends, and while stopped. Losing the app
never ends or holds the target: it runs on, and a later app can connect again.
"""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import os
import select
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pertdbg.agent.notice import say
from pertdbg.process import lives
from pertdbg.wire import ANSWERS, BadFrame, Frame, Unpacker, pack

SOCKET = "control.sock"
"""Name of the socket in the session's private folder."""

LOW_DESCRIPTORS = 200
"""So many low file descriptors are left to a script."""

_PARENT_CHECK = 0.5
"""Seconds between looks whether the app that started us still lives, while none is connected."""

_BACKLOG = 8
"""Apps that may knock while the target makes no call: those that died there, and a living one."""

_HANDSHAKE = 5.0
"""Seconds that a peer has to show the key before we take it for a stranger."""


class Control:
    """Takes the app's commands and holds the target where they say.

    Commands: ``{"do": "next"}`` run to the end of the next call; ``{"do": "go", "until": id}`` run
    to the end of that call, or to the target's end without ``until``; ``{"do": "pause"}`` stop at
    the next end of a call; ``{"do": "look", "what": [...]}`` which pictures to make at stops.
    ``{"do": "leave"}`` comes before an app hangs up on purpose. ``{"do": "break", "conditions":
    [...]}`` stop where one of these holds; ``{"do": "line"}`` run to the end of the next line of an
    update and stop inside, with ``"into": true`` also in a function that the line calls; while
    stopped, ``{"do": "ask", "number": k, "text": ..., "confirmed": bool}`` and ``{"do":
    "complete", "number": k, "text": ...}``.
    Notices: ``loading``, ``stopped`` (``because``: the conditions that hold; ``line``: inside the
    call, the place of the last event that was written), ``running``,
    ``done``, ``answer``, ``completion``, and ``refused`` where conditions can't be set.
    """

    def __init__(
        self, folder: Path, key: str, parent: int = 0, *, began: str = "", wait: bool = False
    ) -> None:
        """Listen in a folder of mode 0700; the app shows the key before anything else.

        Args:
            folder: Private folder of the session.
            key: One-time secret that the host made.
            parent: Process of the host; while it lives the first stop waits for it to connect.
                With none there is no first stop.
            began: What tells the host's process from a later one; empty if it is our parent.
            wait: Stop at the first call and wait for an app, however late one comes.
        """
        self._key = key
        self._parent, self._began, self._waits = parent, began, wait
        self._peer: socket.socket | None = None
        self._unpacker = Unpacker()
        self._stop_at: int | None = 1 if parent or wait else None
        self._was_connected = False
        self._now: Frame | None = None
        self.looking: frozenset[str] = frozenset()
        self.stop_when: Callable[[Any], str] = lambda _: "this target takes no conditions"
        """Takes the conditions at which to stop; gives why not, if it can't."""
        self.lost: Callable[[], object] = lambda: None
        """Forgets what an app has asked for, when it has gone."""
        self._by_line = self._into = False
        """Stop at the end of each line inside the call at which to stop."""
        self._inside = False
        """It is stopped inside a call."""
        self._answers: Callable[[Frame], Frame] | None = None
        """Answers questions, while the target is stopped."""
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(str(folder / SOCKET))
        self._server.listen(_BACKLOG)
        self._server.setblocking(False)

    def tell(self, notice: Frame) -> None:
        """Send a notice if somebody listens; one who comes later gets the newest."""
        self._now = notice
        if not self._accept():
            self._send(notice)

    def will_stop(self, call: int) -> bool:
        """Say whether the call with this id is one to stop at, as far as is known now."""
        self._read_waiting()
        return self._holds(call) and self._someone()

    @property
    def connected(self) -> bool:
        """Whether an app is there, so that the target may stop."""
        return self._peer is not None or self._stop_at is not None

    def at_call(
        self,
        call: int,
        held: Callable[[], list[str]] = list,
        answers: Callable[[Frame], Frame] | None = None,
    ) -> None:
        """Stop at the end of a call if asked to, until a command says to go on.

        Args:
            call: Id of the call.
            held: Gives the conditions that hold there, which stop the target as well.
            answers: Answers questions to the stopped target.
        """
        self._read_waiting()
        because = held()
        if not ((because or self._holds(call)) and self._someone()):
            if self._now is None or self._now.get("now") == "loading":
                self.tell({"now": "running"})
            return
        self._stop_at, self._answers = call, answers
        self.tell({"now": "stopped", "id": call, **({"because": because} if because else {})})
        try:
            while self._holds(call):
                self._wait(call)
        finally:  # Ctrl-C arrives here as KeyboardInterrupt and goes on into the target's code
            self._answers = None
            self.tell({"now": "running"})

    def steps(self, call: int) -> bool:
        """Say whether to stop inside a call, at the end of each line."""
        if not self._by_line:
            self._read_waiting()
        return self._by_line and self._holds(call) and self._someone()

    def at_line(self, call: int, line: int, answers: Callable[[Frame], Frame]) -> bool:
        """Stop inside a call until a command says to go on.

        Args:
            call: Id of the call that is under way.
            line: Place of the last of its events that were written.
            answers: Answers questions to the stopped target.

        Returns:
            Whether to go into the next function that is called.
        """
        self._by_line = self._into = False
        self._inside, self._answers = True, answers
        self.tell({"now": "stopped", "id": call, "line": line})
        try:
            while self._inside and self._someone():
                _readable(self._peer or self._server, _PARENT_CHECK)
                self._read_waiting(call - 1)
        finally:
            self._inside, self._answers = False, None
            self.tell({"now": "running"})
        return self._into

    def done(self, status: int | None, text: str) -> None:
        """Say that the target has come to its end, and hang up."""
        self.tell({"now": "done", "status": status, "text": text})
        self.forget()

    def forget(self) -> None:
        """Drop the sockets without a word, as a forked child must."""
        for end in (self._peer, self._server):
            if end is not None:
                with contextlib.suppress(OSError):  # a target that closes what it did not open
                    end.close()
        self._peer, self._stop_at = None, None

    def _holds(self, call: int) -> bool:
        return self._stop_at is not None and self._stop_at <= call

    def _someone(self) -> bool:
        """Whether an app is there to be waited for: connected, or still on its way to connect."""
        if self._peer is None and self._server.fileno() >= 0:
            self._accept()
        return self._peer is not None or (not self._was_connected and self._starting())

    def _starting(self) -> bool:
        if self._server.fileno() < 0:
            return False
        if self._waits:
            return True
        if not self._began:
            return self._parent > 0 and os.getppid() == self._parent
        return lives(self._parent, self._began)

    def _wait(self, call: int) -> None:
        if not self._someone():
            self._stop_at = None
            return
        _readable(self._peer or self._server, _PARENT_CHECK)
        self._read_waiting(call)

    def _read_waiting(self, call: int = 0) -> None:
        self._accept()
        while self._peer is not None and _readable(self._peer, 0):
            try:
                data = self._peer.recv(65536)
                frames = self._unpacker.feed(data)
            except (OSError, BadFrame):
                data = b""
            if not data:
                self._lose()
                return
            for frame in frames:
                self._obey(frame, call)

    def _obey(self, frame: Frame, call: int) -> None:
        command = frame.get("do")
        if command in ("next", "go", "line"):
            self._inside = False
            self._by_line = command == "line"
            self._into = self._by_line and frame.get("into") is True
        if command in ("next", "line"):
            self._stop_at = call + 1
        elif command == "go":
            until = frame.get("until")
            self._stop_at = until if isinstance(until, int) else None
        elif command == "pause":
            self._stop_at = min(self._stop_at or call + 1, call + 1)
        elif command == "leave":
            self._lose(on_purpose=True)
        elif command == "break":
            why_not = self.stop_when(frame.get("conditions"))
            if why_not:
                self._send({"now": "refused", "do": "break", "why": why_not})
        elif isinstance(command, str) and command in ANSWERS:
            self._answer(frame, ANSWERS[command])
        elif command == "look":
            self.looking = frozenset(str(what) for what in frame.get("what", ()))

    def _answer(self, frame: Frame, now: str) -> None:
        if self._answers is not None:
            self._send(self._answers(frame))
        else:
            self._send({"now": now, "number": frame.get("number"), "why": "it is not stopped"})

    def _accept(self) -> bool:
        """Take an app that wants to connect; it is told at once what is the case now."""
        if self._peer is not None or self._server.fileno() < 0:
            return False
        try:
            peer = _high(self._server.accept()[0])
        except OSError:  # nobody is there
            return False
        self._unpacker = Unpacker()
        if not self._proves_itself(peer):
            peer.close()
            return False
        self._peer, self._was_connected = peer, True
        if self._now is not None:
            self._send(self._now)
        return True

    def _proves_itself(self, peer: socket.socket) -> bool:
        """Read the first frame, which must hold the key; frames behind it are kept for later."""
        peer.settimeout(_HANDSHAKE)
        frames: list[Frame] = []
        try:
            while not frames:
                data = peer.recv(4096)
                if not data:
                    return False
                frames = self._unpacker.feed(data)
        except (OSError, BadFrame):
            return False
        if not hmac.compare_digest(str(frames[0].get("key", "")).encode(), self._key.encode()):
            return False
        for frame in frames[1:]:
            self._obey(frame, 0)
        return True

    def _send(self, notice: Frame) -> None:
        if self._peer is not None:
            try:
                self._peer.sendall(pack(notice))
            except OSError:
                self._lose()

    def _lose(self, *, on_purpose: bool = False) -> None:
        """The app has gone: let the target run on as if nobody had watched."""
        if self._peer is not None:
            self._peer.close()
        self._peer, self._stop_at, self.looking = None, None, frozenset()
        self.lost()
        if not on_purpose:
            say("the app has gone; the target runs on")


def _high(peer: socket.socket) -> socket.socket:
    """Give the socket a high file descriptor: the target may count on getting the low ones."""
    with contextlib.suppress(OSError):  # the limit is lower than that
        number = fcntl.fcntl(peer.fileno(), fcntl.F_DUPFD_CLOEXEC, LOW_DESCRIPTORS)
        with peer:
            return socket.socket(fileno=number)
    return peer


def _readable(what: socket.socket, seconds: float) -> bool:
    """Wait for something to read; `poll` and not `select`, which refuses descriptors above 1023."""
    poll = select.poll()
    poll.register(what, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
