"""The safetensors format: a length of eight bytes, a header in JSON, and the values.

See https://huggingface.co/docs/safetensors; the header's keys are names, and `__metadata__`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pertdbg.recording.dtypes import DTYPES, Dtype

HEADER_LIMIT = 64 << 10
"""Longest header that is read, in bytes; ours have some hundred."""

_ALIGNED = 8


def header(name: str, dtype: Dtype, shape: Sequence[int], metadata: Mapping[str, str]) -> bytes:
    """Give what stands before the values of a file with one tensor, length included."""
    nbytes = math.prod(shape) * dtype.size
    parts = {
        "__metadata__": dict(metadata),
        name: {"dtype": dtype.code, "shape": list(shape), "data_offsets": [0, nbytes]},
    }
    text = json.dumps(parts, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNED)
    return len(text).to_bytes(8, "little") + text


def values_at(data: bytes, dtype: Dtype, shape: Sequence[int]) -> int:
    """Give where the values begin in a file that holds one tensor.

    Args:
        data: The beginning of the file.
        dtype: What the tensor must be.
        shape: And its shape.

    Raises:
        ValueError: The header does not say so.
    """
    length = int.from_bytes(data[:8], "little")
    if not 8 <= len(data) - 8 >= length or length > HEADER_LIMIT:
        raise ValueError("its header is not whole")
    try:
        found = json.loads(data[8 : 8 + length])
    except RecursionError:
        raise ValueError("its header is not of a tensor") from None
    expected = {
        "dtype": dtype.code,
        "shape": list(shape),
        "data_offsets": [0, math.prod(shape) * dtype.size],
    }
    if not isinstance(found, dict) or _tensors(found) != [expected]:
        raise ValueError("its header is of another tensor")
    return 8 + length


def _tensors(found: dict[str, Any]) -> list[Any]:
    return [value for key, value in found.items() if key != "__metadata__"]


def dtype_of(name: str) -> Dtype:
    """Give an element type by torch's name.

    Raises:
        ValueError: Tensors of this type are not stored.
    """
    dtype = DTYPES.get(name)
    if dtype is None:
        raise ValueError(f"tensors of {name} are not stored; known are {', '.join(DTYPES)}")
    return dtype
