"""Finds by itself what there is to observe in a script, through adapters; imports no torch."""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pertdbg.agent.seams.following import FollowsLoops, FollowsWeights
from pertdbg.agent.seams.imports import Imports
from pertdbg.agent.seams.locals import is_method_of
from pertdbg.agent.seams.plans import Findings, is_foreign, loop_plans
from pertdbg.agent.seams.spec import Spec
from pertdbg.agent.seams.tracing import Chosen, Untraced, is_generator, tracing

if TYPE_CHECKING:
    from pertdbg.agent.naming import Named
    from pertdbg.agent.run import Run
    from pertdbg.agent.seams.live import Live

_COMPILED = "; what runs inside torch.compile can't be observed"

_NOTHING = {
    "method": "no class was defined that has {methods} and uses {uses}",
    "weights": "no object that has {methods} and a model was called",
    "loop": "no function ran that takes the gradient of a tensor and then moves or rebinds it",
    "function": "{modules} was not imported",
}


def watch_everything(run: Run, adapters: Sequence[Mapping[str, Any]]) -> Finder:
    """Begin to look for perturbations, before the target's code runs and torch is imported.

    Calls `Run.ready` when the target has imported torch.

    Args:
        run: Takes the records.
        adapters: JSON of the adapters, in the order in which they are to be tried.
    """
    finder = Finder(run, [Spec.of(adapter) for adapter in adapters])
    finder.install()
    return finder


class Finder:
    """Looks for what the adapters describe while the target runs."""

    def __init__(self, run: Run, specs: list[Spec]) -> None:
        """Prepare; nothing is changed before `install`."""
        self._run, self._specs = run, specs
        self._of_loops = [spec for spec in specs if spec.seam == "loop"]
        self._of_weights = [spec for spec in specs if spec.seam == "weights"]
        self._findings = Findings()
        self._imports = Imports()
        self._tracing = tracing(self._choose)
        self._live: Live | None = None
        self._not_traced: str | None = None
        self._named: list[Named] = []

    def install(self) -> None:
        """Arm what is needed."""
        self._imports.install()
        # Torch's own import calls a million functions, and none that is followed.
        self._imports.when("torch", self._torch_is_there, Untraced)
        self._not_traced = self._tracing.install()

    def remove(self) -> None:
        """Take everything of ours out of the target; to be called before `Run.remove`."""
        self._tracing.remove()
        self._imports.remove()
        if self._live is not None:
            self._live.remove()
            self._live = None

    def watch(self, named: Named) -> None:
        """Watch what a person named, as soon as torch is there."""
        self._named.append(named)
        if self._live is not None:
            self._live.watch(named)

    def join(self, frame: types.FrameType) -> None:
        """Follow a function that is running already, from here on."""
        with contextlib.suppress(Exception):  # then its loops are not seen
            self._tracing.join(frame)

    def leave(self, frame: types.FrameType, error: BaseException | None) -> None:
        """Follow it no further; what is under way in it ends here."""
        with contextlib.suppress(Exception):
            self._tracing.leave(frame, error)

    def report(self) -> list[dict[str, Any]]:
        """Say for each adapter what it matched, or else why nothing.

        Returns:
            For each adapter ``adapter`` and ``title``, ``matched`` (names of layers, loops and
            classes), ``why_not`` (None where it matched) and ``near``: what came near, each with
            what it lacks.
        """
        if self._live is not None:
            self._live.note_seen()
        return [self._report(spec) for spec in self._specs]

    def _report(self, spec: Spec) -> dict[str, Any]:
        matched = self._findings.matched.get(spec.name, [])
        near = self._findings.near.get(spec.name, [])
        return {
            "adapter": spec.name,
            "title": spec.title,
            "matched": list(matched),
            "why_not": None if matched else self._why_not(spec, near),
            "near": list(near),
        }

    def _why_not(self, spec: Spec, near: list[str]) -> str:
        if spec.seam in ("loop", "weights") and self._not_traced is not None:
            return f"functions can't be followed: {self._not_traced}"
        if self._live is None and self._run.calls == 0 and not near:
            return "torch was not imported"
        if near:
            compiled = spec.seam in ("method", "function") and "torch._dynamo" in sys.modules
            return near[0] + _COMPILED * compiled
        uses = ", ".join(" or ".join(group) for group in spec.uses)
        return _NOTHING[spec.seam].format(
            methods=" and ".join(spec.methods), uses=uses, modules=" or ".join(spec.modules)
        )

    def _torch_is_there(self, torch: types.ModuleType) -> None:
        if not hasattr(self._run, "probe"):
            self._run.ready(torch.__version__)
        from pertdbg.agent.seams.live import Live

        live = Live(self._run, self._specs, self._findings, self._tracing.active)
        live.install()
        self._live = live
        for named in self._named:
            live.watch(named)
        if self._not_traced is None:
            self._run.flow.begin()
        for spec in self._specs:
            for module in spec.modules if spec.seam == "function" else ():
                self._imports.when(module, functools.partial(live.replace, spec=spec))

    def _choose(self, frame: types.FrameType) -> Chosen | None:
        """Say whether a function that is called for the first time is to be followed."""
        if self._live is not None and (followed := self._live.choose(frame)) is not None:
            return followed
        code, module = frame.f_code, frame.f_globals.get("__name__")
        if not isinstance(module, str) or is_foreign(module, code.co_filename):
            return None
        try:
            attacks = [
                spec
                for spec in self._of_weights
                if spec.fits_names(module, code.co_name) and is_method_of(frame, spec.methods)
            ]
            if attacks and not is_generator(code):
                return FollowsWeights(attacks, self._get_live)
            plans = loop_plans(code, module, self._of_loops, self._findings)
        except Exception as error:  # noqa: BLE001 - whatever fails in us must not fail the target
            self._run.failed("reading a function", error)
            return None
        if self._live is not None and self._live.watches(code):
            plans = tuple(plan for plan in plans if not plan.loop.whole)
        return FollowsLoops(plans, self._get_live) if plans else None

    def _get_live(self) -> Live | None:
        return self._live
