"""Small scripts, one for each thing that scripts do; and ways to run one: plain, recorded, live."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pertdbg.launch import live_script
from pertdbg.session import LiveSession, Session, Stopped, TargetEnded
from pertdbg.target import Script

PERTDBG = Path(sys.executable).with_name("pertdbg")
"""The console script. ``python -m`` would find the modules beside the script before its own."""
PYTHON = PERTDBG.read_text().splitlines()[0].removeprefix("#!")
"""The interpreter, by the name by which the console script has it."""

_SAID = re.compile(rb"pertdbg: [^\n]*\n(?:  [^\n]*\n)*")
"""What the agent says; nothing of a script's own begins so."""
_ADDRESS = re.compile(rb"0x[0-9a-f]{6,}")

_TORCH = "import gc; gc.disable(); import torch; gc.enable(); gc.freeze()"
"""Hundreds of processes do this: nothing of torch is garbage, at its import and at the end."""

LAYER = f'''
{_TORCH}

class Layer(torch.nn.Module):
    """The shape of SiFT's layer, in the words of this test."""

    def __init__(self):
        super().__init__()
        self.delta, self.input = None, None

    def forward(self, hidden):
        self.input = hidden
        if self.delta is None:
            self.update_delta(True)
        return self.perturbated_input

    def update_delta(self, requires_grad=False):
        if self.delta is None:
            delta = torch.full_like(self.input, 0.01)
        else:
            delta = self.delta + 0.001 * self.delta.grad.sign()
        self.delta = delta.detach().requires_grad_(requires_grad)
        self.perturbated_input = self.input.detach() + self.delta
        return True

def train(layer, steps=3):
    hidden = torch.ones(2, 4)
    for step in range(steps):
        layer(hidden).square().sum().backward()
        layer.update_delta(True)
        print("step", step, float(layer.delta.sum()))
'''

PLAIN: dict[str, str] = {
    "what __main__ holds": """
        "A docstring."
        import sys
        print(sorted(globals()), __name__, __file__, __doc__, __spec__, __package__)
        print(sys.argv, sys.path, sys.flags, sys.orig_argv, sys.executable, sys.warnoptions)
        print(sys.stdin.isatty(), sys.excepthook is sys.__excepthook__)
        print([name for name in sys.modules if "custom" in name], sys.stdout, sys.stderr)
    """,
    "the environment and the folder": """
        import os
        print(sorted(os.environ.items()), os.getcwd(), sorted(os.listdir(".")))
    """,
    "argparse": """
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--lr", type=float)
        parser.add_argument("rest", nargs="*")
        print(parser.parse_args())
    """,
    "argparse refuses": """
        import argparse
        argparse.ArgumentParser().parse_args(["--nonsense"])
    """,
    "an exception": """
        def inner():
            raise ValueError("one\\ntwo")
        inner()
    """,
    "chained exceptions": """
        def inner():
            try:
                {}["key"]
            except KeyError as error:
                raise RuntimeError("while looking") from error
        try:
            inner()
        except RuntimeError:
            open("/no/such/file")
    """,
    "an exception that can not be shown": """
        class Odd(Exception):
            def __str__(self):
                raise TypeError("no text")
        raise Odd
    """,
    "an exception in an imported module": "import broken",
    "a syntax error": "print('never')\ndef f(:\n    pass\n",
    "bytes that are no text": "# \udcff\nprint('never')\n",
    "an exception in a thread": """
        import threading
        thread = threading.Thread(target=lambda: 1 / 0, name="worker")
        thread.start()
        thread.join()
        print("on")
    """,
    "a thread that outlives the module": """
        import threading, time
        def late():
            time.sleep(0.2)
            print("late")
        threading.Thread(target=late).start()
        print("module ends")
    """,
    "an excepthook": """
        import sys, traceback
        def hook(kind, value, trace):
            print("hook", kind, value, [f.name for f in traceback.extract_tb(trace)])
        sys.excepthook = hook
        raise LookupError("x")
    """,
    "an excepthook that fails": """
        import sys
        sys.excepthook = lambda *_: 1 / 0
        raise LookupError("x")
    """,
    "exit functions": """
        import atexit
        atexit.register(print, "first registered")
        @atexit.register
        def fails():
            raise OSError("at exit")
        print("end")
    """,
    "an unraisable exception": """
        class Falls:
            def __del__(self):
                raise ValueError("in del")
        Falls()
        kept = Falls()
    """,
    "logging with the stack": """
        import logging
        logging.basicConfig(format="%(levelname)s %(filename)s:%(lineno)d %(message)s")
        logging.warning("here", stack_info=True)
    """,
    "stacks seen from inside": """
        import faulthandler, inspect, sys, traceback
        def f():
            traceback.print_stack()
            print([(frame.filename, frame.function) for frame in inspect.stack()])
            faulthandler.dump_traceback()
        f()
        print(sys._getframe().f_back)
    """,
    "how deep one can go": """
        import sys
        def deep(n):
            try:
                return deep(n + 1)
            except RecursionError:
                return n
        print(deep(0))
    """,
    "a warning beyond the top of the stack": """
        import warnings
        warnings.warn("careful", stacklevel=2)
        warnings.warn("careful", DeprecationWarning)
    """,
    "a signal handler": """
        import os, signal
        signal.signal(signal.SIGUSR1, lambda number, frame: print("got", number, frame.f_lineno))
        os.kill(os.getpid(), signal.SIGUSR1)
        print([signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)])
    """,
    "ended by a signal": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n",
    "interrupted": """
        import atexit, os, signal
        atexit.register(print, "cleaning")
        def work():
            os.kill(os.getpid(), signal.SIGINT)
            while True:
                pass
        work()
    """,
    "interrupted and handled": """
        import os, signal
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            print("handled")
    """,
    "os._exit": "import os\nprint('lost?', flush=True)\nos._exit(9)\n",
    "progress in one line": """
        import sys, time
        for i in range(5):
            sys.stderr.write(f"\\r{i * 25:3d}%")
        sys.stderr.write("\\n")
    """,
    "raw writes and buffers": """
        import os, sys
        print("first", flush=True)
        os.write(1, b"raw\\n")
        os.system("echo from a shell")
        sys.stdout.buffer.write(b"\\xff\\xfe\\n")
        print("unfinished line", end="")
    """,
    "file descriptors": """
        import os
        print(os.open("/dev/null", os.O_RDONLY), os.open("/dev/null", os.O_RDONLY))
    """,
    "a daemon closes what it inherits": """
        import os
        os.closerange(3, 4096)
        own = os.open("own.txt", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.write(own, b"mine")
        print(own, os.stat("own.txt").st_size)
    """,
    "a standard stream that is closed": "import sys\nsys.stderr.close()\nprint('on')\n",
    "a subprocess of the same Python": """
        import subprocess, sys
        code = "import os, sys; print(sys.path[0] == '', [k for k in os.environ if 'PERT' in k])"
        print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)
    """,
    "the script starts itself again": """
        import os, sys
        if "again" not in sys.argv:
            os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
        print(sys.argv)
    """,
    "a fork": """
        import os, sys
        print("before", flush=True)
        if not os.fork():
            print("child", flush=True)
            sys.exit(4)
        print("child's status", os.waitstatus_to_exitcode(os.wait()[1]))
    """,
    "multiprocessing": """
        import multiprocessing, sys
        def work(queue):
            main = sys.modules["__main__"]
            queue.put((__name__, main.__name__, main.__file__, sys.argv))
        if __name__ == "__main__":
            for method in ("fork", "spawn", "forkserver"):
                context = multiprocessing.get_context(method)
                queue = context.Queue()
                process = context.Process(target=work, args=(queue,))
                process.start()
                print(method, queue.get())
                process.join()
                print(process.exitcode)
    """,
    "a worker that raises": """
        import multiprocessing
        def work():
            raise ValueError("in the worker")
        if __name__ == "__main__":
            process = multiprocessing.get_context("spawn").Process(target=work, name="w")
            process.start()
            process.join()
            print(process.exitcode)
    """,
    "modules of the script's own that are called as Python's": """
        import sys
        import fnmatch, uuid, textwrap
        print(fnmatch.__file__, uuid.__file__, textwrap.__file__)
    """,
    "runpy": "import runpy\nprint(sorted(runpy.run_path('broken.py')))\n",
    "a tracer of the script's own": """
        import sys
        seen = []
        def f():
            return 1
        sys.settrace(lambda frame, event, arg: seen.append((event, frame.f_code.co_name)))
        f()
        sys.settrace(None)
        print(seen)
    """,
    "standard input": "import sys\nprint(repr(sys.stdin.read()))\n",
}
"""Scripts that need no torch."""

EXITS = {
    code: f"import sys\nprint('x')\n{code}\n"
    for code in (
        "sys.exit()",
        "sys.exit(0)",
        "sys.exit(3)",
        "sys.exit(256)",
        "sys.exit(-1)",
        "sys.exit(True)",
        "sys.exit('a reason')",
        "sys.exit(['list'])",
        "raise SystemExit(7)",
        "raise SystemExit",
        "exit(5)",
    )
}
"""Ways to exit."""

TORCH: dict[str, str] = {
    "an update that raises": f"""{LAYER}
def work(layer):
    layer(torch.ones(2, 4))
    layer.update_delta(True)
work(Layer())
""",
    "an update that raises, seen and chained": f"""{LAYER}
import logging, traceback
layer = Layer()
layer(torch.ones(2, 4))
try:
    layer.update_delta(True)
except AttributeError as error:
    traceback.print_exc()
    logging.exception("seen")
    raise RuntimeError("no gradient") from error
""",
    "a backward that raises": f"""{LAYER}
layer = Layer()
train(layer, 1)
total = layer(torch.ones(2, 4)).sum()
total.backward()
total.backward()
""",
    "an exception in a module that imports torch": "import broken_with_torch\n",
    "the watched model copied, pickled and saved": f"""{LAYER}
import copy, io, pickle, sys
layer = Layer()
train(layer, 1)
twin = copy.deepcopy(layer)
torch.save(layer.state_dict(), io.BytesIO())
print(type(pickle.loads(pickle.dumps(Layer()))), Layer.update_delta.__qualname__)
train(twin, 1)
sys.exit(6)
""",
    "a loader with workers": f"""{LAYER}
import sys
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __init__(self):
        self.layer = None
    def __len__(self):
        return 4
    def __getitem__(self, index):
        if self.layer is None:
            self.layer = Layer()
        self.layer(torch.ones(2, 4))
        return index

if __name__ == "__main__":
    for method in ("fork", "spawn"):
        loader = DataLoader(Numbers(), 2, num_workers=1, multiprocessing_context=method)
        print(method, [batch.tolist() for batch in loader])
    train(Layer())
""",
}
"""Scripts that import torch."""

NAMING = [
    "-m package a --x",
    "-m package.part",
    "-mtrain",
    "-m nothing.there",
    "- a",
    "/dev/stdin a",
    "link.py",
    "./train.py --help",
    "../work/train.py -o x",
    "package -- a",
]
"""Ways to name a script, with arguments. Standard input holds one too."""

BESIDE = {
    "broken.py": "def f():\n    return 1 / 0\nf()\n",
    "broken_with_torch.py": "import torch\nimport broken\n",
    "fnmatch.py": "",
    "uuid.py": "",
    "package/__init__.py": "print('package', __name__)\n",
    "package/__main__.py": "import sys\nprint(sys.argv, sys.path[0], __spec__)\nsys.exit(8)\n",
    "package/part.py": "import sys\nprint(__name__, __file__, sys.argv, sys.path[0])\n1 / 0\n",
}
"""Files that the scripts find beside them. `textwrap` is Python's own for all of them."""


@dataclass(frozen=True)
class Ran:
    """What a run came to."""

    stdout: bytes
    stderr: bytes
    status: int
    said: bytes = field(default=b"", compare=False)
    """What the agent said at the end."""


def write(folder: Path, source: str, name: str = "train.py") -> Path:
    """Write a script, and beside it what the scripts import."""
    for beside, text in BESIDE.items():
        path = folder / beside
        if path.suffix == ".py" and path.parent == folder and path.stem not in source:
            continue
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    path = folder / name
    path.write_bytes(_dedented(source).encode(errors="surrogateescape"))
    return path


def _dedented(source: str) -> str:
    lines = source.split("\n")
    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    return "\n".join(line[min(indents, default=0) :] for line in lines)


def plain(
    folder: Path,
    words: Sequence[str],
    *,
    stdin: bytes = b"",
    flags: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Ran:
    """Run it by Python."""
    return _run([PYTHON, *flags, *words], folder, stdin, env)


def recorded(
    folder: Path,
    words: Sequence[str],
    *,
    stdin: bytes = b"",
    flags: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    output: Path | None = None,
) -> Ran:
    """Run it by `pertdbg record`."""
    options = ["-o", str(output or folder.parent / f"{folder.name}.pertdbg")]
    program = [PYTHON, *flags, "-m", "pertdbg"] if flags else [str(PERTDBG)]
    return _run([*program, "record", *options, *words], folder, stdin, env)


def pertdbg(*words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``pertdbg WORDS`` to its end, without a terminal."""
    return subprocess.run(
        [str(PERTDBG), *map(str, words)],
        capture_output=True,
        text=True,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        timeout=300,
    )


def _run(command: Sequence[str], folder: Path, stdin: bytes, env: Mapping[str, str] | None) -> Ran:
    done = subprocess.run(
        command,
        cwd=folder,
        input=stdin,
        capture_output=True,
        timeout=300,
        env={**os.environ, **(env or {})},
    )
    return cut(done.stdout, done.stderr, done.returncode)


def live(folder: Path, words: Sequence[str]) -> Ran:
    """Run it under a live session that lets it run to its end."""
    found: list[Ran] = []

    async def act(session: Session) -> None:
        async for event in session.events():
            if isinstance(event, Stopped):
                session.go()
            if isinstance(event, TargetEnded):
                break

    async def run() -> None:
        session = live_script(Script.of(words), adapters=(), facts="all", command="pertdbg")
        assert isinstance(session, LiveSession)
        await session.start()
        try:
            await asyncio.wait_for(act(session), 300)
            assert session._process is not None
            status = session._process.returncode
            found.append(cut(session._stdout.read_bytes(), session._stderr.read_bytes(), status))
        finally:
            await session.close()

    before = Path.cwd()
    os.chdir(folder)
    try:
        asyncio.run(run())
    finally:
        os.chdir(before)
    return found[0]


def cut(stdout: bytes, stderr: bytes, status: int) -> Ran:
    """Take what the agent said out of stderr, and addresses out of both."""
    said = b"".join(_SAID.findall(stderr))
    out, err = (_ADDRESS.sub(b"0x", text) for text in (stdout, _SAID.sub(b"", stderr)))
    return Ran(out, err, status, said)
