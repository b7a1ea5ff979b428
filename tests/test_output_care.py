"""`verify`, `salvage` and `pack` as a person meets them, and the report for a colleague."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pytest

import _crashed
import _hostile
import _records
from pertdbg.errors import PertdbgError
from pertdbg.output import care
from pertdbg.output.export import export
from pertdbg.record import DeltaFacts, GradientFacts
from pertdbg.recording.reader import Recording
from pertdbg.recording.verify import verify
from pertdbg.recording.writer import Recorder


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "a.pertdbg"
    _hostile.good(path)
    return path


def test_verify_says_sound_or_what_is_damaged(
    good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert care.verify(good) == 0
    assert capsys.readouterr().out == f"{good}: sound (40 calls, 40 stored tensors; closed)\n"
    _hostile.sql("UPDATE call SET batch = 9 WHERE id IN (3, 4)")(good)
    assert care.verify(good) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{good}: damaged (40 calls")
    assert "salvage" in lines[0]
    assert [f"record {k} of" in line for k, line in zip((3, 4), lines[1:], strict=True)] == [
        True,
        True,
    ]
    with pytest.raises(PertdbgError, match="there is no file"):
        care.verify(good.with_name("none"))


def test_salvage_says_what_is_lost_and_leaves_the_damaged_file(
    good: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = good.with_name("b.pertdbg")
    assert care.salvage(good, saved) == 0
    assert capsys.readouterr().out == f"{saved}: 40 of 40 calls saved\n"
    with pytest.raises(PertdbgError, match="exists already"):
        care.salvage(good, saved)
    _hostile.sql("UPDATE call SET batch = 9 WHERE id BETWEEN 3 AND 5")(good)
    before = good.read_bytes()
    saved.unlink()
    assert care.salvage(good, saved) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"{saved}: 37 of 40 calls saved", "  lost: records 3 to 5"]
    assert good.read_bytes() == before


def test_pack_makes_one_small_file_of_any_state(tmp_path: Path) -> None:
    folder = tmp_path / "crashed"
    folder.mkdir()
    _crashed.crashed(folder, "wal", 200)
    size = sum(file.stat().st_size for file in folder.iterdir())
    for tensors in (True, False):
        packed = tmp_path / f"{tensors}.pertdbg"
        care.pack(folder / "a.pertdbg", packed, tensors=tensors)
        assert packed.stat().st_size < size / 2
        assert verify(packed).sound
        seen = _crashed.look(packed, 200)
        assert seen.records == set(range(1, 201))
        assert seen.wrong == []
        with Recording.open(packed) as recording:
            assert recording.calls_with_tensors() == ([1, 51, 101, 151] if tensors else [])
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        *("False.pertdbg", "True.pertdbg", "crashed"),
    ]


def test_pack_takes_a_recording_that_is_being_written(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.pertdbg", {})
    recorder.write(_records.healthy(1))
    care.pack(tmp_path / "a.pertdbg", tmp_path / "b.pertdbg")
    recorder.write(_records.healthy(2))
    recorder.close()
    for name, count in (("a", 2), ("b", 1)):
        with Recording.open(tmp_path / f"{name}.pertdbg") as recording:
            assert len(list(recording)) == count


class Tags(HTMLParser):
    """Collects the tags of a page and checks that they nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def report(path: Path) -> Tags:
    page = path.with_suffix(".html")
    export(path, "html", page)
    tags = Tags(page.read_text())
    assert tags.open == []
    return tags


def test_the_report_is_one_page_without_script_or_network(good: Path) -> None:
    tags = report(good)
    names = {name for name, _ in tags.found}
    assert "svg" in names
    assert not names & {"script", "link", "img", "iframe", "object", "a", "form", "base"}
    for _, attributes in tags.found:
        assert not {name for name in attributes if name.startswith("on")} | (
            {"src", "href", "style"} & set(attributes)
        )
    policy = next(a["content"] for n, a in tags.found if a.get("http-equiv"))
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "url(" not in good.with_suffix(".html").read_text()
    for words in (
        "Gradient norm",
        "its bound",
        "Leaf",
        "Storage",
        "delta created",
        "stopped: here",
    ):
        assert words in tags.text
    for svg in re.findall("<svg.*?</svg>", good.with_suffix(".html").read_text()):
        ElementTree.fromstring(svg)


def test_the_report_shows_every_spike_and_every_nan(tmp_path: Path) -> None:
    path = tmp_path / "a.pertdbg"
    recorder = Recorder(path, {})
    for ident in range(1, 3001):
        norm = 77.0 if ident == 1234 else float("nan") if ident == 2222 else 1.0
        nan = 1 if ident == 2222 else 0
        gradient = GradientFacts(present=True, norm=norm, nan=nan)
        delta = DeltaFacts(max_abs=0.01, bound=0.02, beyond=0)
        recorder.write(_records.healthy(ident, gradient=gradient, delta=delta))
    recorder.close()
    tags = report(path)
    assert "2222nan: NaN in the gradient or in delta" in tags.text
    assert "Of 3,000 calls" in tags.text
    first = path.with_suffix(".html").read_text().split("<svg")[1]
    ticks = re.findall(r'class="bad" d="([^"]*)"', first)
    assert len(ticks) == 1
    assert ticks[0].count("M") == 1
    [line] = re.findall(r'class="main" d="([^"]*)"', first)
    heights = [float(y) for y in re.findall(r"(?:,|V)([0-9.]+)", line)]
    assert min(heights) == 12.0  # the spike reaches the top of the plot
    assert "77" in first


def test_strings_from_the_file_stay_strings_in_the_report(good: Path) -> None:
    _hostile.all_strings(good)
    tags = report(good)
    assert not {name for name, _ in tags.found} & {"script", "b", "x"}
    text = good.with_suffix(".html").read_text()
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)
    assert "\\x1b]0;owned" in tags.text


def test_a_recording_without_calls_has_a_report_too(tmp_path: Path) -> None:
    path = tmp_path / "a.pertdbg"
    Recorder(path, {"title": "nothing yet"}).close()
    assert "nothing yet" in report(path).text
    one = tmp_path / "b.pertdbg"
    recorder = Recorder(one, {})
    recorder.write(_records.healthy(1))
    recorder.close()
    assert "delta created" in report(one).text
