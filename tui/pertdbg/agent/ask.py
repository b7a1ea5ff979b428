"""Answers what a person asks of the stopped target: their own code, in their own process.

It runs with the names of the paused frame, without gradient tracking, for a limited time, and
leaves no record. What it raises is the answer. What may change something is asked back first, and
what has changed is reported. Random states are compared, not put back.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

from torch import overrides

from pertdbg.agent.adapter import Missing, stored
from pertdbg.agent.effects import Snapshot
from pertdbg.agent.paused import Paused, Shown
from pertdbg.agent.question import Question, read
from pertdbg.agent.quiet import Ungraded, leave_all
from pertdbg.agent.summary import Summary, summary
from pertdbg.agent.tensors import is_tensor
from pertdbg.agent.timelimit import TimeUp, limited
from pertdbg.wire import Frame

SECONDS = 5.0
"""Time that an answer may take, as far as Python code goes."""

NAMES = 200
"""Most names that a completion gives."""

_MESSAGE = 1000
_NAME = 200
_END = re.compile(r"[A-Za-z_][\w.]*$")


def answer(paused: Paused, frame: Frame) -> Frame:
    """Answer a question (``ask``) or complete a text (``complete``)."""
    text, number = str(frame.get("text", "")), frame.get("number")
    if frame.get("do") == "complete":
        return {"now": "completion", "number": number, "names": complete(text, paused.names())}
    confirmed = frame.get("confirmed") is True
    return {"now": "answer", "number": number, **_answer(paused, text, confirmed)}


def _answer(paused: Paused, text: str, confirmed: bool) -> Frame:
    try:
        question = read(text)
    except SyntaxError as error:
        return {"error": {"type": "SyntaxError", "message": str(error)[:_MESSAGE]}}
    if question.doubts and not confirmed:
        return {"confirm": list(question.doubts)}
    names = paused.names()
    before = Snapshot.take(names)
    began = time.monotonic()
    found = _run(question, names, paused, text)
    found["seconds"] = time.monotonic() - began
    found["changed"] = before.changes(names)
    return found


def _run(question: Question, names: dict[str, Any], paused: Paused, text: str) -> Frame:
    space = dict(names)
    paused.answered = None

    def work() -> Summary:
        value = eval(question.code, space)  # noqa: S307 - it is what the person asks for
        if not question.is_expression:
            return {"type": "", "text": "done"}
        if is_tensor(value):
            paused.answered = Shown(_name(text), value)
        return summary(value)

    try:
        with _unseen(), Ungraded():
            found: Frame = {"value": limited(SECONDS, work)}
    except TimeUp:
        why = f"it took longer than {SECONDS:g} s and was interrupted"
        return {"error": {"type": "TimeUp", "message": why}}
    except BaseException as error:  # noqa: BLE001 - the exception is the answer, never the target's
        leave_all(error)
        return {"error": _told(error)}
    bound = {name: v for name, v in space.items() if v is not names.get(name, space)}
    bound.pop("__builtins__", None)
    paused.own.update(bound)
    if bound:
        found["bound"] = sorted(bound)
    return found


def _name(text: str) -> str:
    """Name an answer by its question."""
    name = " ".join(text.split())
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


@contextlib.contextmanager
def _unseen() -> Iterator[None]:
    """Take modes of ours away, which would see what a question computes; the target's stay."""
    with contextlib.ExitStack() as without:
        current: Any = overrides._get_current_function_mode
        while type(current()).__module__.startswith("pertdbg."):
            without.enter_context(overrides._pop_mode_temporarily())
        yield


def _told(error: BaseException) -> dict[str, Any]:
    try:
        message = str(error)
    except BaseException:  # noqa: BLE001 - a `__str__` of the target's may do anything
        message = "<exception str() failed>"
    return {"type": type(error).__name__, "message": message[:_MESSAGE]}


def complete(text: str, names: Mapping[Any, Any]) -> list[str]:
    """Give what may stand in the place of the last dotted name; no property is run."""
    found = _END.search(text)
    begun = found[0] if found else ""
    if not found and text.endswith("."):  # of something that is not a name
        return []
    path, _, start = begun.rpartition(".")
    known: list[Any] = list(names)
    if path:
        try:
            known = _attributes(_at(path, names))
        except (Missing, KeyError):
            return []
    prefix = f"{path}." if path else ""
    hidden = start.startswith("_")
    fitting = {name for name in known if isinstance(name, str) and name.startswith(start)}
    shown = sorted(name for name in fitting if hidden or not name.startswith("_"))
    return [prefix + name for name in shown[:NAMES]]


def _at(path: str, names: Mapping[Any, Any]) -> Any:
    first, *rest = path.split(".")
    value = names[first]
    for name in rest:
        value = stored(value, name)
    return value


def _attributes(owner: Any) -> list[Any]:
    fields = getattr(owner, "__dict__", {})
    found: list[Any] = list(fields)
    for table in ("_parameters", "_buffers", "_modules"):
        found += list(fields.get(table) or ())
    for cls in type(owner).__mro__:
        found += list(vars(cls))
    return found
