"""Stores tensors of a stopped target in its recording, once a person asks for their values."""

from __future__ import annotations

from collections.abc import Collection

from pertdbg.agent.paused import Paused, Shown
from pertdbg.agent.quiet import NotKnown
from pertdbg.agent.tensorcopy import copy_tensor
from pertdbg.recording.writer import Recorder
from pertdbg.wire import Frame


def store(
    recorder: Recorder, number: int, paused: Paused, frame: Frame, *, under_way: bool
) -> Frame:
    """Store what is there, or what the last question gave, one tensor after the other.

    What is stored of this stop already is not stored again.

    Args:
        recorder: Where to.
        number: Id of the record; of the one to come, where the target is stopped inside a call.
        paused: What is there.
        frame: The command; ``answer`` asks for the answer.
        under_way: The record is still to come.

    Returns:
        The notice: the roles under which they are stored, and why others are not.

    Raises:
        RecordingFailed: They could not be written.
    """
    notice = {"now": "stored", "number": frame.get("number")}
    if not number:
        return {**notice, "why": "no call was recorded yet that it could stand with"}
    of_answer = frame.get("answer") is True
    wanted = paused.shown() if not of_answer else [paused.answered] if paused.answered else []
    lacking: list[str] = []
    for each in wanted:
        role = ("= " if of_answer else "") + each.name + paused.place
        there = recorder.stored_roles(number)
        if not (of_answer or paused.place) and role in there:  # the call was one to store
            each.role = role
        if not each.role:
            role = _free(role, there)
            why_not = _store(recorder, number, role, each, under_way=under_way)
            if why_not:
                lacking.append(f"{each.name}: {why_not}")
            else:
                each.role = role
    recorder.pin(number)
    if not wanted:
        lacking.append("the last answer is no tensor" if of_answer else "no tensor is there")
    roles = [each.role for each in wanted if each.role]
    return {**notice, "roles": roles, "why": "; ".join(lacking)}


def _store(recorder: Recorder, number: int, role: str, what: Shown, *, under_way: bool) -> str:
    """Store a tensor; say why not, where it can't be."""
    try:
        copy = copy_tensor(what.tensor)
    except NotKnown as error:
        return error.reason
    of = (copy.dtype, copy.shape, copy.data)
    if not recorder.tensor(number, role, *of, why="asked for", under_way=under_way):
        return "the stored tensors leave no room for it"
    return ""


def _free(role: str, taken: Collection[str]) -> str:
    """Give a role that no tensor of the call has."""
    number, free = 1, role
    while free in taken:
        number += 1
        free = f"{role} ({number})"
    return free
