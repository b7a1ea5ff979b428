"""The loop around perturbation layers: one adversarial loss for each batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from pertdbg.errors import PertdbgError

Loss = Callable[[Tensor, Tensor], Tensor]
"""Takes the logits of a perturbed pass and the target."""


def symmetric_kl(logits: Tensor, target: Tensor) -> Tensor:
    """Kullback-Leibler divergence both ways, one value a row of logits.

    The probabilities that weigh the terms carry no gradient. A target that carries none
    therefore leaves the gradient of the one-way divergence.

    SiFT's own function adds cross entropies instead. It is higher by the two entropies, which
    carry no gradient there; the gradients are the same, bit for bit.
    """
    student, teacher = _log_probabilities(logits), _log_probabilities(target)
    forward = (teacher.exp().detach() * (teacher.detach() - student)).sum(-1)
    backward = (student.exp().detach() * (student.detach() - teacher)).sum(-1)
    return forward + backward


def kl(logits: Tensor, target: Tensor) -> Tensor:
    """Kullback-Leibler divergence from the target, one value a row; the target gets no gradient."""
    student, teacher = _log_probabilities(logits), _log_probabilities(target.detach())
    return (teacher.exp() * (teacher - student)).sum(-1)


def mse(logits: Tensor, target: Tensor) -> Tensor:
    """Mean squared difference over all logits, in float32."""
    return functional.mse_loss(_rows(logits).reshape(-1), _rows(target).reshape(-1))


def ce(logits: Tensor, target: Tensor) -> Tensor:
    """Cross entropy, one value a row.

    A target of integers holds the classes; one of logits stands for the class that it ranks first.
    """
    classes = _rows(target).argmax(-1) if target.is_floating_point() else target.reshape(-1)
    return functional.cross_entropy(_rows(logits), classes, reduction="none")


LOSSES: Mapping[str, Loss] = MappingProxyType(
    {"symmetric-kl": symmetric_kl, "kl": kl, "mse": mse, "ce": ce}
)
"""The losses that go by a name."""


def _rows(logits: Tensor) -> Tensor:
    return logits.reshape(-1, logits.shape[-1]).float()


def _log_probabilities(logits: Tensor) -> Tensor:
    return functional.log_softmax(_rows(logits), -1)


def named_loss(name: str) -> Loss:
    """Find a loss by its name.

    Raises:
        PertdbgError: There is none of that name.
    """
    if name not in LOSSES:
        raise PertdbgError(f"no loss is called {name!r}; there are {', '.join(LOSSES)}")
    return LOSSES[name]


class AdversarialLearner:
    """Gives the adversarial loss of a batch, to be added to the loss of its clean pass.

    Example::

        learner = AdversarialLearner(model)
        logits = model(batch)
        loss = task_loss(logits) + learner.loss(logits, lambda model, x: model(x), "kl", batch)
        loss.backward()
    """

    def __init__(self, model: nn.Module, adv_modules: Iterable[nn.Module] | None = None) -> None:
        """Find the layers.

        Args:
            model: The model. Its parameters are frozen while delta's gradient is computed.
            adv_modules: The perturbation layers, where they are no submodules of the model (a
                hook may hold one). By default every submodule that has `adversarial_` and
                `update_delta`.

        Raises:
            PertdbgError: There is no layer.
        """
        found = model.modules() if adv_modules is None else adv_modules
        self.adv_modules = [module for module in found if _is_layer(module)]
        if not self.adv_modules:
            raise PertdbgError(
                f"{type(model).__name__} has no perturbation layer among its modules; "
                "pass the layers as adv_modules"
            )
        self.model = model
        self.parameters = list(model.parameters())
        self.prev = [parameter.requires_grad for parameter in self.parameters]

    def loss(
        self,
        target: Tensor | None,
        logits_fn: Callable[..., Tensor],
        loss_fn: str | Loss = "symmetric-kl",
        *args: Any,
        **kwargs: Any,
    ) -> Tensor:
        """Perturb, update once, perturb again, and return the loss of the second perturbed pass.

        Whatever happens, the layers are in clean mode afterwards and the parameters require
        gradients as they did before.

        Args:
            target: Logits of the clean pass (or labels, for a loss that takes them). None runs
                the clean pass here.
            logits_fn: Called as ``logits_fn(model, *args, **kwargs)``.
            loss_fn: A name in `LOSSES`, or a function of perturbed logits and target.
            args: For `logits_fn`, after the model.
            kwargs: For `logits_fn`.

        Returns:
            The mean loss; its graph leads to the parameters and, unless the target is cut off
            from it, to the clean pass.
        """
        distance = named_loss(loss_fn) if isinstance(loss_fn, str) else loss_fn
        if target is None:
            target = logits_fn(self.model, *args, **kwargs)
        try:
            self.prepare()
            first = logits_fn(self.model, *args, **kwargs)
            distance(first, target.detach()).sum().backward()  # type: ignore[no-untyped-call]
            for layer in self.adv_modules:
                layer.update_delta(True)  # type: ignore[operator]
            self._restore()
            second = logits_fn(self.model, *args, **kwargs)
            return distance(second, target).mean()
        finally:
            self.cleanup()

    def prepare(self) -> None:
        """Freeze the parameters and switch the layers to adversarial mode."""
        self.prev = [parameter.requires_grad for parameter in self.parameters]
        for parameter in self.parameters:
            parameter.requires_grad_(False)
        for layer in self.adv_modules:
            layer.adversarial_(True)  # type: ignore[operator]

    def cleanup(self) -> None:
        """Let the parameters be as they were and switch the layers to clean mode."""
        self._restore()
        for layer in self.adv_modules:
            layer.adversarial_(False)  # type: ignore[operator]

    def _restore(self) -> None:
        for required, parameter in zip(self.prev, self.parameters, strict=True):
            parameter.requires_grad_(required)


def _is_layer(module: nn.Module) -> bool:
    return all(callable(getattr(module, name, None)) for name in ("adversarial_", "update_delta"))
