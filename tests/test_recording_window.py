"""Parts of stored tensors, chosen by an index: against numpy, which reads the same index."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from _records import healthy
from pertdbg.errors import PertdbgError
from pertdbg.recording.reader import Recording
from pertdbg.recording.stored import StoredTensor
from pertdbg.recording.tensormap import Sketch
from pertdbg.recording.window import Window
from pertdbg.recording.writer import Recorder

SHAPE = (3, 40, 5, 70)
WHOLE = np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)
WHOLE = np.where(WHOLE % 7 == 0, -WHOLE, WHOLE).astype(np.float32)

INDICES = [
    "",
    ":",
    "...",
    "0",
    "-1",
    "1, 2",
    "1, 2, 3, 4",
    "..., 0",
    "..., 3:9",
    "..., ::13",
    ":, 5",
    ":, :, 2",
    "2, 10:30:7, ..., 60:",
    "::2, -3:, 1:3, 5",
    "0, 0, 0, :0",
    "[1, 2]",
    "1:100, ..., -70:1000",
]


@pytest.fixture(scope="module")
def tensor(tmp_path_factory: pytest.TempPathFactory) -> StoredTensor:
    path = tmp_path_factory.mktemp("window") / "run.pertdbg"
    recorder = Recorder(path, {}, tensors="all")
    recorder.write(healthy(1))
    recorder.tensor(1, "delta", "float32", SHAPE, WHOLE.tobytes())
    recorder.close()
    found = Recording.open(path).tensor(1, "delta")
    assert found is not None
    return found


def chosen(index: str) -> np.ndarray:
    return np.asarray(eval(f"WHOLE[{index.strip('[]') or '...'}]"))


@pytest.mark.parametrize("index", INDICES)
def test_the_rows_of_a_part_are_those_that_numpy_gives(tensor: StoredTensor, index: str) -> None:
    window, expected = Window(tensor, index), chosen(index)
    assert window.shape == expected.shape
    columns = expected.shape[-1] if expected.shape else 1
    rows = expected.reshape(-1, columns) if expected.size else expected.reshape(0, columns)
    assert (window.rows, window.columns) == (len(rows), columns)
    read = window.read((0, window.rows), (0, window.columns), math.inf)
    assert read == rows.tolist()
    middle = (window.rows // 3, window.rows), (window.columns // 2, window.columns)
    assert (
        window.read(*middle, math.inf) == rows[window.rows // 3 :, window.columns // 2 :].tolist()
    )


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("side", [64, 7])
def test_the_map_of_a_part_has_the_largest_of_each_field(
    tensor: StoredTensor, index: str, side: int
) -> None:
    sketch, expected = Sketch(Window(tensor, index), side), np.abs(chosen(index))
    while sketch.go_on(0.0):
        assert 0 < sketch.share < 1
    picture = sketch.picture()
    if not expected.size:
        assert picture is None
        return
    assert picture is not None
    rows = expected.reshape(-1, expected.shape[-1] if expected.shape else 1)
    tall, wide = -(-rows.shape[0] // side), -(-rows.shape[1] // side)
    fields = [
        rows[top : top + tall, left : left + wide].max()
        for top in range(0, rows.shape[0], tall)
        for left in range(0, rows.shape[1], wide)
    ]
    assert list(picture.values()) == fields


def test_rows_and_columns_are_called_by_their_places_in_the_whole(tensor: StoredTensor) -> None:
    window = Window(tensor, "2, 10:30:7, ..., 60:")
    assert [window.row_name(row) for row in range(6)] == [
        "10,0",
        "10,1",
        "10,2",
        "10,3",
        "10,4",
        "17,0",
    ]
    assert [window.column_name(column) for column in range(2)] == [60, 61]


@pytest.mark.parametrize(
    ("index", "words"),
    [
        ("x", "'x' is no place"),
        ("1.5", "is no place"),
        ("1,,2", "'' is no place"),
        ("::-1", "is no place"),
        ("::0", "goes nowhere"),
        ("3", "there is no 3 in dimension 0, which has 3 places"),
        ("0,0,0,0,0", "too many places: the tensor has 4 dimensions"),
        ("..., 0, ...", "too many places"),
    ],
)
def test_what_is_no_index_is_said_to_be_none(tensor: StoredTensor, index: str, words: str) -> None:
    with pytest.raises(PertdbgError) as caught:
        Window(tensor, index)
    assert words in str(caught.value)


def test_what_takes_too_long_is_left_for_the_next_time(tensor: StoredTensor) -> None:
    window = Window(tensor)
    ask = (0, 60), (0, 70)
    looks = 0
    while any(value is None for row in window.read(*ask, -1.0) for value in row):
        looks += 1
    assert looks == 1, "these stand in two blocks"
    assert window.read(*ask, -1.0) == WHOLE.reshape(-1, 70)[:60].tolist()


def test_a_scalar_and_an_empty_tensor(tmp_path: Path) -> None:
    path = tmp_path / "run.pertdbg"
    recorder = Recorder(path, {}, tensors="all")
    recorder.write(healthy(1))
    recorder.tensor(1, "scalar", "float32", (), np.float32(2.5).tobytes())
    recorder.tensor(1, "empty", "float32", (4, 0), b"")
    recorder.close()
    with Recording.open(path) as recording:
        scalar, empty = (recording.tensor(1, role) for role in ("scalar", "empty"))
        assert scalar is not None
        assert empty is not None
        assert Window(scalar).read((0, 1), (0, 1), math.inf) == [[2.5]]
        assert Window(empty).rows == 0
        assert Sketch(Window(empty)).picture() is None
