"""What torch offers around a model, used by scripts that are run with and without pertdbg."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

import pertdbg
from _scripts import Ran, plain, recorded, write

PREAMBLE = '''
import hashlib, sys, warnings
import torch

torch.manual_seed(0)

class Layer(torch.nn.Module):
    """Shaped as SiFT's layer, with a weight of its own."""

    def __init__(self, width=8):
        super().__init__()
        self.weight = torch.nn.Linear(width, width)
        self.delta = self.input = self.perturbated_input = None

    def forward(self, hidden):
        self.input = self.weight(hidden)
        if self.delta is None:
            self.update_delta(True)
        self.perturbated_input = self.input.detach() + self.delta.to(self.input.dtype)
        return self.perturbated_input + self.input

    def update_delta(self, requires_grad=False):
        if self.delta is None:
            delta = torch.randn(self.input.shape) * 0.01
        else:
            delta = self.delta + 0.01 * self.delta.grad.sign()
        self.delta = delta.detach().requires_grad_(requires_grad)
        self.perturbated_input = self.input.detach() + self.delta
        return True

def digest(*values):
    found = hashlib.sha256()
    for value in values:
        tensor = value if isinstance(value, torch.Tensor) else torch.tensor(value)
        found.update(tensor.detach().float().cpu().numpy().tobytes())
    found.update(torch.get_rng_state().numpy().tobytes())
    return found.hexdigest()[:16]

def step(model, layer, optimizer, batch):
    loss = model(batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    layer.update_delta(True)
    optimizer.step()
    print(digest(loss, layer.delta, *layer.parameters()))
'''

FRESH = """
print("==", {name!r})
torch.manual_seed(0)
layer = Layer()
model = torch.nn.Sequential(layer, torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch = torch.randn(4, 8)
"""

FEATURES: dict[str, tuple[str, int]] = {
    "compile": (
        """
        from torch._dynamo.utils import counters
        compiled = torch.compile(model, backend="aot_eager")
        for _ in range(3):
            step(compiled, layer, optimizer, batch)
        print(counters["stats"], sorted(counters["graph_break"]))
        """,
        3,  # the creation runs inside of compiled code
    ),
    "compile the update, whole": (
        """
        class Whole(Layer):
            def update_delta(self, requires_grad=False):
                self.delta = torch.zeros(4, 8) if self.delta is None else self.delta * 0.5 + 1
                self.perturbated_input = self.input.detach() + self.delta
                return True
        from torch._dynamo.utils import counters
        layer = Whole()
        compiled = torch.compile(layer, backend="eager", fullgraph=True)
        print(digest(compiled(batch)), counters["stats"])
        layer.update_delta()
        print(digest(compiled(batch)))
        """,
        1,
    ),
    "autocast with a scaler": (
        """
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40, growth_interval=2)
        for k in range(4):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = model(batch).float().square().mean()
            optimizer.zero_grad()
            scaler.scale(loss * (1e30 if k == 1 else 1)).backward()
            layer.update_delta(True)
            scaler.step(optimizer)
            scaler.update()
            print(k, scaler.get_scale(), digest(loss, layer.delta, *model.parameters()))
        """,
        5,
    ),
    "gradient checkpointing": (
        """
        from torch.utils.checkpoint import checkpoint, checkpoint_sequential
        layer(batch)
        for reentrant in (True, False):
            run = lambda x: checkpoint(model, x, use_reentrant=reentrant)
            step(run, layer, optimizer, batch.clone().requires_grad_())
        run = lambda x: checkpoint_sequential(model, 3, x, use_reentrant=False)
        step(run, layer, optimizer, batch)
        """,
        4,
    ),
    "DataParallel": (
        """
        parallel = torch.nn.DataParallel(model)
        for _ in range(2):
            step(parallel, layer, optimizer, batch)
        print(sorted(parallel.state_dict()))
        """,
        3,
    ),
    "DDP of one rank": (
        """
        import torch.distributed as dist
        dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
        ddp = torch.nn.parallel.DistributedDataParallel(model)
        for _ in range(3):
            step(ddp, layer, optimizer, batch)
        dist.destroy_process_group()
        """,
        4,
    ),
    "DDP of two ranks": (
        """
        import subprocess
        import torch.distributed as dist
        rank = int(sys.argv[2]) if len(sys.argv) > 2 else 0
        other = None
        if rank == 0:
            other = subprocess.Popen([sys.executable, __file__, sys.argv[1], "1"])
        dist.init_process_group(
            "gloo", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=2
        )
        ddp = torch.nn.parallel.DistributedDataParallel(model)
        batch += rank
        for _ in range(3):
            loss = ddp(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            layer.update_delta(True)
            optimizer.step()
        if rank == 0:
            print(digest(layer.delta, *model.parameters()), other.wait())
        dist.destroy_process_group()
        """,
        4,
    ),
    "FSDP": (
        """
        import torch.distributed as dist
        from torch.distributed.fsdp import fully_shard
        store = f"file://{sys.argv[1]}-fsdp"
        dist.init_process_group("gloo", init_method=store, rank=0, world_size=1)
        from torch.distributed.device_mesh import init_device_mesh
        mesh = init_device_mesh("cpu", (1,))
        fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            layer.update_delta(True)
            optimizer.step()
            whole = [parameter.full_tensor() for parameter in model.parameters()]
            print(type(layer).__name__, digest(loss, layer.delta, *whole))
        dist.destroy_process_group()
        """,
        4,
    ),
    "copies": (
        """
        import copy, io, pickle
        other = copy.deepcopy(model)
        step(model, layer, optimizer, batch)
        step(other, other[0], optimizer, batch)
        layer.delta = layer.input = layer.perturbated_input = None
        file = io.BytesIO()
        torch.save(model, file)
        print(len(file.getvalue()), hashlib.sha256(file.getvalue()).hexdigest()[:16])
        file.seek(0)
        third = torch.load(file, weights_only=False)
        step(third, third[0], optimizer, batch)
        print(sorted(torch.nn.Module.state_dict(model)))
        print(pickle.loads(pickle.dumps(Layer)) is Layer, len(pickle.dumps(layer.update_delta)))
        print(Layer.update_delta.__name__, Layer.update_delta.__qualname__, Layer.__dict__.keys())
        import inspect
        print(inspect.signature(Layer.update_delta), inspect.getsource(Layer.update_delta)[:30])
        """,
        6,
    ),
    "hooks and clean passes": (
        """
        class Odd:
            def __call__(self, module, *args):
                print("odd hook", type(module).__name__, len(args))
        handles = [
            layer.register_forward_pre_hook(Odd()),
            layer.register_forward_hook(Odd(), always_call=True),
            layer.register_full_backward_hook(Odd()),
            model.register_forward_hook(lambda *args: None),
        ]
        def adv_hook(module, args):
            print("adv_hook", [getattr(h, "__name__", None) for h in
                               module._forward_pre_hooks.values()])
        layer.register_forward_pre_hook(adv_hook)
        step(model, layer, optimizer, batch)
        with torch.inference_mode():
            print(digest(model(batch)), model(batch).is_inference())
        with torch.no_grad():
            print(digest(model(batch)))
        step(model, layer, optimizer, batch)
        for handle in handles:
            handle.remove()
        print(len(layer._forward_pre_hooks), torch.nn.Module.__init_subclass__ is None)
        torch.autograd.set_detect_anomaly(True)
        step(model, layer, optimizer, batch)
        scripted = torch.jit.trace(torch.nn.Sequential(torch.nn.Linear(8, 8)), batch)
        print(digest(scripted(batch)))
        """,
        4,
    ),
    "functional transforms": (
        """
        from torch.func import functional_call, grad, vmap
        parameters = dict(model.named_parameters())
        def loss(parameters, batch):
            return functional_call(model, parameters, (batch,)).square().mean()
        model(batch)
        print(digest(*grad(loss)(parameters, batch).values()))
        layer.delta = None
        step(model, layer, optimizer, batch)
        print(digest(vmap(lambda row: row * 2)(batch)))
        """,
        3,
    ),
}

"""What a part of a script does, and how many updates of it are made outside of compiled code."""

SCRIPTS = {
    "eager": (
        "autocast with a scaler",
        "gradient checkpointing",
        "DataParallel",
        "copies",
        "hooks and clean passes",
        "functional transforms",
    ),
    "compiled": ("compile", "compile the update, whole"),
    "one rank": ("DDP of one rank", "FSDP"),
    "two ranks": ("DDP of two ranks",),
}
"""Features in one process each: importing torch takes most of the time."""


def script(features: Sequence[str]) -> str:
    parts = [FRESH.format(name=name) + _dedented(FEATURES[name][0]) for name in features]
    return "\n".join([PREAMBLE, *parts])


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_that_uses_it_does_what_it_does_without_us(name: str, tmp_path: Path) -> None:
    ways: dict[str, Callable[..., Ran]] = {
        "plain": plain,
        "seen": partial(recorded, output=tmp_path / "seen.pertdbg"),
    }

    def run(way: str) -> Ran:
        folder = tmp_path / "work" / way / "same"
        folder.mkdir(parents=True)
        write(folder, script(SCRIPTS[name]))
        return ways[way](folder, ["train.py", str(folder / "store")])

    with ThreadPoolExecutor() as pool:
        without, seen = pool.map(run, ways)
    assert without.status == 0, without.stderr.decode()
    assert _placeless(seen) == _placeless(without)
    with pertdbg.open(tmp_path / "seen.pertdbg") as recording:
        calls = sum(FEATURES[feature][1] for feature in SCRIPTS[name])
        assert len(recording) == calls, seen.said.decode()


def _dedented(source: str) -> str:
    return "\n".join(line[8:] for line in source.split("\n"))


def _placeless(ran: Ran) -> tuple[bytes, bytes, int]:
    """Leave out in which of the two folders it ran, and what was printed of times."""
    out, err = (
        text.replace(b"/work/seen/", b"/work/").replace(b"/work/plain/", b"/work/")
        for text in (ran.stdout, ran.stderr)
    )
    return out, err, ran.status


def test_inductor_compiles_what_it_compiles_without_us(tmp_path: Path, whole: bool) -> None:
    if not whole or shutil.which("g++") is None:
        pytest.skip("takes a C++ compiler, and long: --whole")
    source = (
        "compiled = torch.compile(model)\nfor _ in range(3):\n"
        "    step(compiled, layer, optimizer, batch)\n"
    )
    found = []
    for way in (plain, recorded):
        folder = tmp_path / way.__name__
        folder.mkdir()
        write(folder, PREAMBLE + FRESH.format(name="inductor") + source)
        cache = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
        found.append(way(folder, ["train.py"], env={**os.environ, **cache}))
    assert found[0].status == 0, found[0].stderr.decode()
    assert [ran.stdout for ran in found] == [found[0].stdout] * 2
