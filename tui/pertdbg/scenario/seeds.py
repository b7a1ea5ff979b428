"""Seeds that keep apart what is drawn for different purposes."""

from __future__ import annotations

import zlib


def stream(purpose: str, seed: int) -> int:
    """Give the seed of one purpose.

    Two purposes that were seeded alike would draw the same normal numbers, and delta would be a
    multiple of the input or of an embedding.
    """
    return zlib.crc32(f"{purpose} {seed}".encode())
