"""What observes once torch is there: classes, functions of modules, loops and weights."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from pertdbg.agent.adapter import Missing
from pertdbg.agent.seams.calls import Calls
from pertdbg.agent.seams.follower import Follower
from pertdbg.agent.seams.following import Loops
from pertdbg.agent.seams.gradients import Backward, Passes, runs_engine
from pertdbg.agent.seams.local import Tracker
from pertdbg.agent.seams.locals import is_method_of
from pertdbg.agent.seams.module import Replaced
from pertdbg.agent.seams.once import OneStep
from pertdbg.agent.seams.plans import Findings, Plan
from pertdbg.agent.seams.shapes import adapter_for, subclasses
from pertdbg.agent.seams.spec import Spec
from pertdbg.agent.seams.tracing import Active, Chosen
from pertdbg.agent.seams.weights import Attack, AttackCall
from pertdbg.agent.watch import Watch

if TYPE_CHECKING:
    from pertdbg.agent.naming import Named
    from pertdbg.agent.run import Run

_Module: Any = torch.nn.Module

_UNCALLED = "is there, but was not called"


class Live:
    """The observers of one run."""

    def __init__(
        self, run: Run, specs: list[Spec], findings: Findings, active: dict[int, Active]
    ) -> None:
        """Prepare; nothing is changed before `install`.

        Args:
            run: Takes the records.
            specs: The adapters, in the order in which they are tried.
            findings: Takes what matched and what did not.
            active: The calls of followed functions under way, by frame.
        """
        self.calls, self._active = Calls(run), active
        self._run, self._findings = run, findings
        self._of_classes = [spec for spec in specs if spec.seam == "method"]
        self._removals: list[Callable[[], None]] = []
        self._watches: list[tuple[str, Watch]] = []
        self._by_method: dict[tuple[type, str], Watch] = {}
        self._named: dict[tuple[type, str], list[Named]] = {}
        self._watched: set[object] = set()

    def install(self) -> None:
        """Begin to look for classes."""
        self._hook_subclasses()
        for cls in subclasses(_Module):
            self.look_at(cls)

    def remove(self) -> None:
        """Take everything out again, the newest first."""
        self.note_seen()
        while self._removals:
            self._removals.pop()()

    def look_at(self, cls: type) -> None:
        """Watch a class if an adapter fits it."""
        for spec in self._of_classes:
            adapter, lacking = adapter_for(cls, spec)
            if lacking:
                self._findings.miss(spec.name, lacking)
            if adapter is None or getattr(cls, adapter.method) in self._watched:
                continue
            try:
                watch = Watch(cls, adapter, self._run, self.calls)
            except Missing as missing:
                self._findings.miss(spec.name, str(missing))
                continue
            self._install(watch, cls, adapter.method, spec.name)
            where = f"{cls.__module__}.{cls.__qualname__}"
            self._findings.miss(spec.name, f"{where}.{adapter.method} {_UNCALLED}")
            return

    def watch(self, named: Named) -> None:
        """Watch a class, or one object of it, as a person said; that rules over what was found."""
        key = named.cls, named.adapter.method
        others = self._named.setdefault(key, [])
        others[:] = [*(other for other in others if not other.is_same(named)), named]
        found = self._by_method.get(key)
        if found is not None:
            found.remove()
            self._removals.remove(found.remove)

        def means(layer: object) -> bool:
            return any(other.means(layer) for other in others)

        watch = Watch(named.cls, named.adapter, self._run, self.calls, means)
        self._install(watch, *key, named.title)

    def _install(self, watch: Watch, cls: type, method: str, title: str) -> None:
        watch.install()
        self._watched.add(getattr(cls, method))
        self._removals.append(watch.remove)
        self._watches.append((title, watch))
        self._by_method[cls, method] = watch

    def watches(self, code: types.CodeType) -> bool:
        """Say whether a function is an update method that is watched as such."""
        return any(watch.code is code for _, watch in self._watches)

    def note_seen(self) -> None:
        """Note the layers of the watched classes whose update was called."""
        for name, watch in self._watches:
            for layer in watch.seen():
                self._findings.hit(name, layer)

    def replace(self, module: types.ModuleType, spec: Spec) -> None:
        """Observe the functions of a module that an adapter names."""
        for name in spec.functions:
            if isinstance(getattr(module, name, None), types.FunctionType):
                replaced = Replaced(module, name, spec, self.calls, self._findings)
                replaced.install()
                self._removals.append(replaced.remove)
                why = f"{module.__name__}.{name} {_UNCALLED}"
                self._findings.miss(spec.name, why)

    def choose(self, frame: types.FrameType) -> Chosen | None:
        """Say whether a function is one of torch's that are followed."""
        followed = self._run.flow.choose(frame)
        if runs_engine(frame.f_code):
            return Passes(self._listens, self._heard, followed)
        return followed

    def trackers(self, plans: tuple[Plan, ...]) -> list[Follower]:
        """Follow the loops of a function through one run of it."""
        return [self._tracker(plan) for plan in plans]

    def _tracker(self, plan: Plan) -> Follower:
        rebound = plan.loop.rebound
        if rebound is not None:
            return OneStep(plan, rebound, self.calls, self._findings)
        return Tracker(plan, self.calls, self._findings)

    def attack(self, specs: list[Spec], frame: types.FrameType) -> AttackCall | None:
        """Follow one call of a method that may move weights."""
        if not self.calls.open:
            return None
        with self.calls.guarded("observing an attack on weights"):
            for spec in specs:
                if not is_method_of(frame, spec.methods):
                    continue
                call = AttackCall(Attack(spec, frame.f_code), self.calls, self._findings)
                if call.begin(frame):
                    return call
        return None

    def _hook_subclasses(self) -> None:
        def told(cls: Any, /, **options: Any) -> None:
            super(_Module, cls).__init_subclass__(**options)
            with self.calls.guarded("looking at a class"):
                self.look_at(cls)

        _Module.__init_subclass__ = classmethod(told)

        def unhook() -> None:
            del _Module.__init_subclass__

        self._removals.append(unhook)

    def _listens(self) -> bool:
        """Say whether a function is followed that may want a gradient."""
        return any(isinstance(active, Loops) for active in self._active.values())

    def _heard(self, backward: Backward, asked: types.FrameType) -> None:
        """Tell the followed functions on the stack, the innermost first, until one claims it."""
        if not self._run.recording:
            return
        with self.calls.guarded("reading a gradient"):
            # A loop whose passes are calls of a one-step attack has the gradient, not the call.
            if not self._tell(backward, asked, once=False):
                self._tell(backward, asked, once=True)

    def _tell(self, backward: Backward, asked: types.FrameType, *, once: bool) -> bool:
        """Tell loops, or attacks of one step; says whether one of them claims the gradient."""
        frame: types.FrameType | None = asked
        backward.inner = []
        while frame is not None:
            active = self._active.get(id(frame))
            if isinstance(active, Loops) and active.gradient(frame, backward, once=once):
                return True
            backward.inner.append(frame)
            frame = frame.f_back
        return False
