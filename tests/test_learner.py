"""The learner's loop, and that it leaves a model as it found it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from pertdbg.errors import PertdbgError
from pertdbg.layer import PerturbationLayer
from pertdbg.learner import LOSSES, AdversarialLearner, ce, kl, mse, symmetric_kl


def model_of(layer: PerturbationLayer | None = None) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 16), layer or PerturbationLayer(16), nn.Tanh(), nn.Linear(16, 4)
    )


def logits(model: nn.Module, batch: Tensor) -> Tensor:
    found: Tensor = model(batch)
    return found


class Counting(PerturbationLayer):
    """Remembers what its updates found, as somebody who looks over the learner's shoulder."""

    def __init__(self) -> None:
        super().__init__(16)
        self.seen: list[tuple[bool, bool | None]] = []
        self.frozen: list[bool] = []
        self.watched: nn.Module | None = None

    def update_delta(self, requires_grad: bool = False) -> bool:
        created = self.delta is None
        returned = super().update_delta(requires_grad)
        self.seen.append((created, returned))
        assert self.watched is not None
        self.frozen.append(not any(p.requires_grad for p in self.watched.parameters()))
        return returned


@pytest.mark.parametrize("name", list(LOSSES))
def test_a_batch_makes_two_calls_a_creation_and_one_update_with_frozen_parameters(
    name: str,
) -> None:
    layer = Counting()
    layer.watched = model = model_of(layer)
    batch = torch.randn(8, 6)
    clean = model(batch)
    loss = AdversarialLearner(model).loss(clean, logits, name, batch)
    assert layer.seen == [(True, True), (False, True)]
    assert layer.frozen == [True, True]
    assert loss.shape == ()
    assert float(loss.detach()) > 0


def test_the_loss_is_that_of_the_loop_written_out() -> None:
    batch = torch.randn(8, 6)
    model = model_of()
    clean = model(batch)
    torch.manual_seed(5)
    loss = AdversarialLearner(model).loss(clean, logits, "symmetric-kl", batch)
    loss.backward()  # type: ignore[no-untyped-call]
    by_hand = model_of()
    first, layer, *rest = by_hand
    target = by_hand(batch)
    torch.manual_seed(5)
    noise = torch.empty(8, 16).normal_(0, 1e-2).clamp(-0.02, 0.02)
    head = nn.Sequential(*rest)
    delta = noise.clone().requires_grad_()
    source = layer(first(batch)).detach()
    log_p, log_q = head(source + delta).log_softmax(-1), target.detach().log_softmax(-1)
    (gradient,) = torch.autograd.grad(functional.kl_div(log_p, log_q.exp(), reduction="sum"), delta)
    moved = noise + 1e-4 * gradient / (1e-6 + gradient.abs().amax(-1, keepdim=True))
    log_p, log_q = head(source + moved).log_softmax(-1), target.log_softmax(-1)
    divergence = functional.kl_div(log_p, log_q.exp(), reduction="batchmean")
    divergence = divergence + functional.kl_div(log_q, log_p.exp(), reduction="batchmean")
    assert float(loss.detach()) == pytest.approx(float(divergence.detach()), rel=1e-3)
    assert all(p.grad is not None for p in model.parameters())


def test_the_target_may_be_left_to_the_learner() -> None:
    losses = []
    for given in (True, False):
        model, batch = model_of(), torch.ones(8, 6)
        target = model(batch) if given else None
        torch.manual_seed(1)
        losses.append(AdversarialLearner(model).loss(target, logits, "mse", batch))
    assert torch.equal(*losses)


def test_keyword_arguments_and_a_loss_of_ones_own_reach_their_functions() -> None:
    model, batch = model_of(), torch.randn(8, 6)
    asked = []

    def half(net: nn.Module, batch: Tensor, *, factor: float) -> Tensor:
        asked.append(factor)
        return logits(net, batch) * factor

    def far(perturbed: Tensor, target: Tensor) -> Tensor:
        return (perturbed - target).abs()

    clean = half(model, batch, factor=0.5)
    loss = AdversarialLearner(model).loss(clean, half, far, batch, factor=0.5)
    assert asked == [0.5, 0.5, 0.5]
    assert float(loss.detach()) > 0


@pytest.mark.parametrize("fails_at", [1, 2])
def test_an_exception_leaves_clean_mode_and_the_parameters_flags_as_they_were(
    fails_at: int,
) -> None:
    model, batch = model_of(), torch.randn(8, 6)
    next(iter(model.parameters())).requires_grad_(False)
    before = [parameter.requires_grad for parameter in model.parameters()]
    clean, calls = model(batch), []

    def failing(net: nn.Module, batch: Tensor) -> Tensor:
        calls.append(batch)
        if len(calls) == fails_at:
            raise KeyError("labels")
        return logits(net, batch)

    learner = AdversarialLearner(model)
    with pytest.raises(KeyError, match="labels"):
        learner.loss(clean, failing, "kl", batch)
    assert [parameter.requires_grad for parameter in model.parameters()] == before
    assert [layer.adversarial_mode for layer in learner.adv_modules] == [False]
    assert [layer.delta for layer in learner.adv_modules] == [None]


def test_after_a_loss_the_flags_are_as_they_were_and_delta_is_gone() -> None:
    model, batch = model_of(), torch.randn(8, 6)
    list(model.parameters())[1].requires_grad_(False)
    before = [parameter.requires_grad for parameter in model.parameters()]
    learner = AdversarialLearner(model)
    learner.loss(model(batch), logits, "symmetric-kl", batch)
    assert [parameter.requires_grad for parameter in model.parameters()] == before
    assert model[1].delta is None
    assert model[1].adversarial_mode is False


def test_layers_outside_the_models_modules_can_be_handed_over() -> None:
    layer = PerturbationLayer(16)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.Linear(16, 4))
    model[1].register_forward_pre_hook(lambda module, inputs: layer(inputs[0]))
    batch = torch.randn(8, 6)
    with pytest.raises(PertdbgError, match="Sequential has no perturbation layer"):
        AdversarialLearner(model)
    loss = AdversarialLearner(model, [layer]).loss(model(batch), logits, "symmetric-kl", batch)
    assert float(loss.detach()) > 0


def test_an_unknown_loss_names_those_there_are_and_touches_nothing() -> None:
    model, batch = model_of(), torch.randn(8, 6)
    with pytest.raises(PertdbgError, match="symmetric-kl, kl, mse, ce"):
        AdversarialLearner(model).loss(model(batch), logits, "skl", batch)
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_losses_are_those_of_torch_one_value_a_row(dtype: torch.dtype) -> None:
    torch.manual_seed(3)
    one, other = torch.randn(2, 3, 7).to(dtype), torch.randn(2, 3, 7).to(dtype)
    p, q = one.float().reshape(6, 7).log_softmax(-1), other.float().reshape(6, 7).log_softmax(-1)
    there = functional.kl_div(p, q, log_target=True, reduction="none").sum(-1)
    back = functional.kl_div(q, p, log_target=True, reduction="none").sum(-1)
    assert torch.allclose(kl(one, other), there, atol=1e-6)
    assert torch.allclose(symmetric_kl(one, other), there + back, atol=1e-6)
    assert torch.allclose(mse(one, other), functional.mse_loss(one.float(), other.float()))
    labels = torch.tensor([[0, 1, 2], [3, 4, 5]])
    chosen = -p[torch.arange(6), labels.reshape(-1)]
    assert torch.allclose(ce(one, labels), chosen, atol=1e-6)
    assert torch.allclose(ce(one, other), -p[torch.arange(6), q.argmax(-1)], atol=1e-6)


def test_a_detached_target_leaves_symmetric_kl_the_gradient_of_kl() -> None:
    torch.manual_seed(4)
    one, other = torch.randn(6, 7, requires_grad=True), torch.randn(6, 7)
    (both,) = torch.autograd.grad(symmetric_kl(one, other).sum(), one)
    (single,) = torch.autograd.grad(kl(one, other).sum(), one)
    assert torch.equal(both, single)
