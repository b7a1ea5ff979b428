"""`pertdbg export --tensor`: one stored tensor as a file for other tools."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from pertdbg.errors import PertdbgError
from pertdbg.output.files import write_file
from pertdbg.output.find import chosen
from pertdbg.output.ofrank import recording_of
from pertdbg.recording.reader import Recording
from pertdbg.recording.stored import StoredTensor


def export_tensor(
    file: Path,
    role: str,
    output: Path,
    *,
    call: int | None = None,
    layer: str | None = None,
    rank: int | None = None,
) -> None:
    """Write a stored tensor.

    Args:
        file: The recording, or a folder of those of all ranks.
        role: Such as `delta`.
        output: The file to make or replace; its name ends in `.safetensors` or `.npy`. An element
            type that numpy lacks (bfloat16, float8) becomes float32 in `.npy`, which is exact.
        call: Number of the call; the last one if None.
        layer: Name of the layer, needed where several have a call of that number.
        rank: Rank of the recording, needed where several ranks have the call.

    Raises:
        PertdbgError: There is no such tensor, it is damaged, or the file cannot be written.
    """
    if output.suffix not in (".safetensors", ".npy"):
        raise PertdbgError(f"{output}: a tensor is written as .safetensors or .npy")
    file = recording_of(file, rank, call=call, layer=layer)
    with Recording.open(file) as recording:
        tensor = _stored(recording, chosen(recording, call, layer), role)
        pieces = tensor.file() if output.suffix == ".safetensors" else npy(tensor)
        write_file(output, pieces, recordings=[file])


def npy(tensor: StoredTensor) -> Iterator[bytes]:
    """Give the bytes of a numpy file (format 1.0) with a tensor, in pieces."""
    shape = "".join(f"{size}, " for size in tensor.shape)
    header = f"{{'descr': '{tensor.dtype.npy}', 'fortran_order': False, 'shape': ({shape}), }}"
    length = -(-(10 + len(header) + 1) // 64) * 64 - 10
    yield b"\x93NUMPY\x01\x00" + length.to_bytes(2, "little")
    yield header.encode().ljust(length - 1) + b"\n"
    for piece in tensor.data():
        yield _widened(tensor, piece) if tensor.dtype.widened else piece


def _widened(tensor: StoredTensor, piece: bytes) -> bytes:
    values = tensor.dtype.read(piece)
    return struct.pack(f"<{len(values)}f", *values)


def _stored(recording: Recording, ident: int, role: str) -> StoredTensor:
    found = recording.tensor(ident, role)
    if found is not None:
        return found
    roles = ", ".join(tensor.role for tensor in recording.tensors(ident)) or "none"
    calls = recording.calls_with_tensors()
    some = ", ".join(map(str, calls[:10])) + (", ..." if len(calls) > 10 else "")
    raise PertdbgError(
        f"{recording.path}: no {role} is stored of record {ident} (stored of it: {roles}); "
        + (f"tensors are stored of the records {some}" if calls else "it holds no tensors")
    )
