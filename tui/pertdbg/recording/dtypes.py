"""The element types of tensors: their names elsewhere, and their values out of bytes."""

from __future__ import annotations

import math
import struct
import sys
from array import array
from collections.abc import Callable
from dataclasses import dataclass

Number = bool | int | float | complex


@dataclass(frozen=True, slots=True)
class Dtype:
    """An element type, little endian."""

    name: str
    """As torch calls it."""
    code: str
    """As safetensors calls it."""
    size: int
    """Bytes of an element."""
    npy: str
    """As numpy calls it; `<f4` where numpy has none and values are widened without loss."""
    read: Callable[[bytes], list[Number]]

    @property
    def widened(self) -> bool:
        """Whether numpy has no such type."""
        return self.npy == "<f4" and self.name != "float32"


def _array(code: str) -> Callable[[bytes], list[Number]]:
    def read(data: bytes) -> list[Number]:
        values = array(code)
        values.frombytes(data)
        if sys.byteorder == "big":
            values.byteswap()
        return list(values)

    return read


def _halves(data: bytes) -> list[Number]:
    return list(struct.unpack(f"<{len(data) // 2}e", data))


def _bfloats(data: bytes) -> list[Number]:
    """A bfloat16 is the upper half of a float32."""
    wide = bytearray(2 * len(data))
    wide[2::4], wide[3::4] = data[0::2], data[1::2]
    return list(struct.unpack(f"<{len(data) // 2}f", wide))


def _bools(data: bytes) -> list[Number]:
    return [byte != 0 for byte in data]


def _complexes(code: str, size: int) -> Callable[[bytes], list[Number]]:
    def read(data: bytes) -> list[Number]:
        parts = struct.unpack(f"<{len(data) // size}{code}", data)
        return [complex(a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]

    return read


def _eight_bits(exponent: int, mantissa: int, bias: int) -> Callable[[bytes], list[Number]]:
    """Values of the float8 types of the OCP specification, by a table of all 256."""
    values = [_eight_bit(byte, exponent, mantissa, bias) for byte in range(256)]

    def read(data: bytes) -> list[Number]:
        return [values[byte] for byte in data]

    return read


def _eight_bit(byte: int, exponent: int, mantissa: int, bias: int) -> float:
    sign = -1.0 if byte >> 7 else 1.0
    power, part = byte >> mantissa & (1 << exponent) - 1, byte & (1 << mantissa) - 1
    if power == (1 << exponent) - 1:
        if exponent == 5:
            return math.nan if part else sign * math.inf
        if part == (1 << mantissa) - 1:  # e4m3fn has no infinity, and one NaN
            return math.nan
    if power == 0:
        return sign * math.ldexp(part, 1 - bias - mantissa)
    return sign * math.ldexp((1 << mantissa) + part, power - bias - mantissa)


DTYPES = {
    dtype.name: dtype
    for dtype in (
        Dtype("float64", "F64", 8, "<f8", _array("d")),
        Dtype("float32", "F32", 4, "<f4", _array("f")),
        Dtype("float16", "F16", 2, "<f2", _halves),
        Dtype("bfloat16", "BF16", 2, "<f4", _bfloats),
        Dtype("float8_e4m3fn", "F8_E4M3", 1, "<f4", _eight_bits(4, 3, 7)),
        Dtype("float8_e5m2", "F8_E5M2", 1, "<f4", _eight_bits(5, 2, 15)),
        Dtype("int64", "I64", 8, "<i8", _array("q")),
        Dtype("int32", "I32", 4, "<i4", _array("i")),
        Dtype("int16", "I16", 2, "<i2", _array("h")),
        Dtype("int8", "I8", 1, "|i1", _array("b")),
        Dtype("uint64", "U64", 8, "<u8", _array("Q")),
        Dtype("uint32", "U32", 4, "<u4", _array("I")),
        Dtype("uint16", "U16", 2, "<u2", _array("H")),
        Dtype("uint8", "U8", 1, "|u1", _array("B")),
        Dtype("bool", "BOOL", 1, "|b1", _bools),
        Dtype("complex64", "C64", 8, "<c8", _complexes("f", 4)),
    )
}
"""By torch's name. The others of torch are not stored."""
