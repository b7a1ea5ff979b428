"""What ran between the calls: kept as it was seen, refused where it makes no sense, unnoticed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from _records import healthy
from _scripts import plain, recorded, write
from pertdbg.between import BackwardFacts, Between, Taken
from pertdbg.record import from_json, to_json
from pertdbg.recording.between import closing_of, closing_text, of_row, to_row
from pertdbg.recording.reader import Recording
from pertdbg.recording.writer import Recorder

BACKWARD = BackwardFacts(
    root="MulBackward0",
    fills=True,
    retains=True,
    creates=False,
    reaches_delta=None,
    factor=1024.0,
    raised="RuntimeError: a\ud800b",
    finite=False,
    output_finite=True,
)
TAKEN = Taken(
    module="Linear",
    way="values",
    dtype="float16",
    module_dtype=None,
    grad_mode=False,
    autocast=True,
    raised=None,
)
FULL = Between(
    input="rewritten",
    backwards=(BACKWARD,),
    taken=TAKEN,
    forwards=True,
    leaks=("embedding.weight", "leaf float32[2, 3]"),
    kept_gradient=True,
    retained=True,
    written=("delta",),
    stale=True,
    left_on=("Model: eval mode",),
    stochastic=True,
    padding=False,
    snapshots=("best[0]",),
    plain_step=True,
    unmoved="bfloat16",
)


def test_it_is_read_back_from_a_recording_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "a.pertdbg"
    sound = Between(backwards=(BackwardFacts(None, False, False, True, False, None, "Error"),))
    given = [None, FULL.__class__(), sound]
    recorder = Recorder(path, {})
    for ident, between in enumerate(given, 1):
        recorder.write(healthy(ident, Random(ident), between=between))
    recorder.state(closing=closing_text({"layer": sound}))
    recorder.close()
    with Recording.open(path) as recording:
        assert [record.between for record in recording] == given
        assert dict(recording.closing) == {"layer": sound}


def test_it_goes_through_json_with_the_record() -> None:
    record = healthy(1, Random(1), between=FULL)
    data = json.loads(json.dumps(to_json(record)))
    assert data["between"]["backwards"][0]["factor"] == 1024.0
    assert data["between"]["taken"]["module_dtype"] is None
    assert from_json(data) == record


def test_every_field_survives_as_lists() -> None:
    assert of_row(json.loads(json.dumps(to_row(FULL)))) == FULL


PLAIN = json.loads(json.dumps(to_row(FULL)))


def test_a_recording_from_before_a_field_was_added_is_read_without_it() -> None:
    row = json.loads(json.dumps(to_row(FULL)))
    row[1] = [each[:8] for each in row[1]]
    before = replace(FULL, backwards=(replace(BACKWARD, output_finite=None),), unmoved=None)
    assert of_row(row[:14]) == before


NAMES = list(Between.__slots__)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("input", "stolen"),
        ("backwards", [[None] * 3]),
        ("backwards", [PLAIN[1][0][:7]]),
        ("backwards", [[*PLAIN[1][0][:8], "yes"]]),
        ("backwards", [[*PLAIN[1][0], None]]),
        ("backwards", [PLAIN[1][0]] * 65),
        ("backwards", [["x" * 1001, *PLAIN[1][0][1:]]]),
        ("backwards", [[*PLAIN[1][0][:5], "1024", None, None]]),
        ("taken", {}),
        ("taken", ["Linear", "magic", *PLAIN[2][2:]]),
        ("taken", [7, *PLAIN[2][1:]]),
        ("forwards", 1),
        ("leaks", "embedding"),
        ("leaks", ["x"] * 33),
        ("written", [None]),
        ("padding", "yes"),
        ("plain_step", None),
        ("unmoved", True),
    ],
)
def test_what_no_writer_gives_is_refused(field: str, value: Any) -> None:
    row = list(PLAIN)
    row[NAMES.index(field)] = value
    with pytest.raises(ValueError):  # noqa: PT011 - any is a refusal
        of_row(row)
    assert closing_of(json.dumps({"layer": row})) == {}


@pytest.mark.parametrize(
    "text", [None, 7, "", "[", "[]", "[1]", '{"a": 1}', "[" * 15000, "x" * 20001]
)
def test_a_closing_that_makes_no_sense_is_none(text: Any) -> None:
    assert closing_of(text) == {}


def test_a_closing_too_long_to_keep_loses_the_last_layers() -> None:
    text = closing_text({f"layer {k}": FULL for k in range(100)})
    kept = closing_of(text)
    assert len(text) <= 20_000
    assert 10 < len(kept) < 100
    assert list(kept) == [f"layer {k}" for k in range(len(kept))]


UNNOTICED = """
    import gc, sys, traceback, warnings, weakref
    import torch
    import torch.nn.functional as F
    from torch import nn

    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(net.parameters())
    seen = []

    class Noted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            seen.append([frame.name for frame in traceback.extract_stack()])
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            seen.append([frame.name for frame in traceback.extract_stack()])
            return gradient

    class Layer(nn.Module):
        delta = input = perturbated_input = None

        def forward(self, x):
            if self.delta is None:
                self.input = x
                self.update_delta()
            return Noted.apply(self.perturbated_input)

        def update_delta(self):
            d = torch.zeros_like(self.input).uniform_(-0.1, 0.1)
            if self.delta is not None:
                d = self.delta.detach() + 0.05 * self.delta.grad.sign()
            self.delta = d.requires_grad_()
            self.perturbated_input = self.input + self.delta

    layer = Layer()
    for _ in range(2):
        layer.delta, refs = None, []
        x, y = torch.randn(3, 4), torch.randint(0, 2, (3,))
        for step in range(3):
            out = net(layer(x))
            loss = F.cross_entropy(out, y)
            refs += [weakref.ref(out), weakref.ref(loss), weakref.ref(layer.delta)]
            loss.backward(retain_graph=step == 1, create_graph=step == 2)
            layer.update_delta()
            del out, loss
            print([ref() is None for ref in refs], torch.get_rng_state().sum().item())
        optimizer.zero_grad()
        F.cross_entropy(net(layer(x)), y).backward()
        optimizer.step()
        print([(p._version, p.grad.sum().item()) for p in net.parameters()])
    print(len(seen), seen[-1], seen[0])
    print([net._forward_hooks, net._forward_pre_hooks, sorted(vars(net))])
    loss = net(x).sum()
    loss.backward()
    try:
        loss.backward()
    except RuntimeError:
        traceback.print_exc()
    net(x.double())
"""


def test_a_script_does_not_notice_that_it_is_followed(tmp_path: Path) -> None:
    write(tmp_path, UNNOTICED)
    without = plain(tmp_path, ["train.py"])
    assert b"a second time" in without.stderr
    assert recorded(tmp_path, ["train.py"]) == without
