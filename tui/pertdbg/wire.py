"""Frames of the control socket: a length and a JSON object; shared by the agent and the host.

The socket carries commands and short notices only. Records travel through the recording.
"""

from __future__ import annotations

import json
import struct
from typing import Any

LIMIT = 1 << 20
"""Largest frame in bytes; a longer one ends the connection."""

_LENGTH = struct.Struct(">I")

Frame = dict[str, Any]

ANSWERS = {"ask": "answer", "complete": "completion", "store": "stored"}
"""Commands that a stopped target answers, and what its notice is called."""


class BadFrame(Exception):
    """What came is not a frame of ours: too long, no JSON, or no object."""


def pack(frame: Frame) -> bytes:
    """Turn an object into the bytes of a frame."""
    body = json.dumps(frame).encode()
    return _LENGTH.pack(len(body)) + body


class Unpacker:
    """Cuts a stream of bytes into frames, whatever pieces it comes in."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Take bytes and give the frames that they complete.

        Raises:
            BadFrame: The stream can't be read further.
        """
        self._buffer += data
        frames = []
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > LIMIT:
                raise BadFrame(f"a frame of {length} bytes; the limit is {LIMIT}")
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                break
            frames.append(_parse(bytes(self._buffer[_LENGTH.size : end])))
            del self._buffer[:end]
        return frames


def _parse(body: bytes) -> Frame:
    try:
        frame = json.loads(body)
    except ValueError as error:
        raise BadFrame(f"not JSON: {error}") from None
    if not isinstance(frame, dict):
        raise BadFrame(f"a {type(frame).__name__} where an object is due")
    return frame
