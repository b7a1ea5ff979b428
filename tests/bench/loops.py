"""What recording costs a script whose loop an adapter finds: FreeLB in an encoder, PGD on images.

Each script times itself, so that neither the start of Python nor the end of a recording counts.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from bench.timing import Block, alternate, ratio, report

FREELB = """
import sys, time, torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
embedding = nn.Embedding(1000, 128)
layer = nn.TransformerEncoderLayer(128, 2, 512, 0.0, "gelu", batch_first=True)
encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
head = nn.Linear(128, 2)
everything = nn.ModuleList([embedding, encoder, head])
optimizer = torch.optim.SGD(everything.parameters(), lr=0.01)

def train(batches, adv_lr=0.05, adv_max_norm=0.06, adv_steps=3):
    for _ in range(batches):
        ids, labels = torch.randint(0, 1000, (8, 128)), torch.randint(0, 2, (8,))
        embeds_init = embedding(ids)
        delta = torch.zeros_like(embeds_init).uniform_(-0.04, 0.04)
        for astep in range(adv_steps):
            delta.requires_grad_()
            embeds_init = embedding(ids)
            logits = head(encoder(embeds_init + delta).mean(1))
            loss = nn.functional.cross_entropy(logits, labels) / adv_steps
            loss.backward()
            if astep == adv_steps - 1:
                break
            delta_grad = delta.grad.clone().detach()
            denorm = delta_grad.abs().amax((1, 2), keepdim=True).clamp(min=1e-8)
            delta = (delta + adv_lr * delta_grad / denorm).detach()
            delta = torch.clamp(delta, -adv_max_norm, adv_max_norm).detach()
        optimizer.step()
        optimizer.zero_grad()

train(2)
began = time.perf_counter()
train(8)
print(time.perf_counter() - began)
"""
PGD = """
import sys, time, torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(),
    nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 10),
).eval()
images, labels = torch.rand(16, 3, 32, 32), torch.randint(0, 10, (16,))

def attack(images, labels, eps=8 / 255, alpha=2 / 255, steps=10):
    adv = (images + torch.empty_like(images).uniform_(-eps, eps)).clamp(0, 1).detach()
    for _ in range(steps):
        adv.requires_grad = True
        loss = nn.functional.cross_entropy(model(adv), labels)
        grad = torch.autograd.grad(loss, adv)[0]
        adv = adv.detach() + alpha * grad.sign()
        delta = torch.clamp(adv - images, min=-eps, max=eps)
        adv = torch.clamp(images + delta, min=0, max=1).detach()
    return adv

attack(images, labels)
began = time.perf_counter()
for _ in range(4):
    attack(images, labels)
print(time.perf_counter() - began)
"""
LOOPS = {"FreeLB, small encoder": FREELB, "PGD, two convolutions": PGD}


def script(path: Path, *before: str) -> Block:
    """Make a block that runs a script and takes the seconds that it says."""

    def block() -> float:
        recording = path.with_suffix(".pertdbg")
        recording.unlink(missing_ok=True)
        done = subprocess.run(
            [sys.executable, *before, str(path)],
            cwd=path.parent,
            capture_output=True,
            text=True,
            check=True,
        )
        if before and not recording.exists():
            raise RuntimeError(f"nothing was recorded: {done.stderr}")
        return float(done.stdout)

    return block


def main() -> None:
    for name, text in LOOPS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "loop.py"
            path.write_text(text)
            blocks = {"bare": script(path), "recorded": script(path, "-m", "pertdbg", "record")}
            seconds = alternate(blocks, rounds=5)
        report(f"recorded loop / bare loop, {name}", ratio(seconds, "recorded", "bare"), "x")
