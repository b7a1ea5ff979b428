"""TRADES: the perturbed image inside the loss, by signs, and by an optimizer on delta."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, log_softmax, softmax

from _shapes import Seen
from shapes.models import pictures


def trades_loss(
    model: nn.Module, x_natural: Tensor, y: Tensor, seen: Seen, distance: str, beta: float = 1.0
) -> Tensor:
    step_size, epsilon, perturb_steps = 0.01, 0.031, 3
    criterion_kl = nn.KLDivLoss(reduction="sum")
    model.eval()
    x_adv = x_natural.detach() + 0.001 * torch.randn(x_natural.shape).detach()
    if distance == "l_inf":
        seen.made(x_adv - x_natural, "trades_loss")
        for _ in range(perturb_steps):
            x_adv.requires_grad_()
            with torch.enable_grad():
                kl = criterion_kl(
                    log_softmax(model(x_adv), dim=1),
                    softmax(model(x_natural), dim=1),
                )
            grad = torch.autograd.grad(kl, [x_adv])[0]
            x_adv = x_adv.detach() + step_size * torch.sign(grad.detach())
            x_adv = torch.min(torch.max(x_adv, x_natural - epsilon), x_natural + epsilon)
            x_adv = torch.clamp(x_adv, 0.0, 1.0)
            seen.moved(x_adv - x_natural, grad, "trades_loss")
    else:
        delta = 0.001 * torch.randn(x_natural.shape).detach()
        seen.made(delta, "trades_loss:delta")
        delta.requires_grad_()
        optimizer_delta = torch.optim.SGD([delta], lr=epsilon / perturb_steps * 2)
        for _ in range(perturb_steps):
            adv = x_natural + delta
            optimizer_delta.zero_grad()
            kl = criterion_kl(
                log_softmax(model(adv), dim=1),
                softmax(model(x_natural), dim=1),
            )
            (-kl).backward()
            assert delta.grad is not None
            gradient = delta.grad.clone()
            grad_norms = delta.grad.view(len(y), -1).norm(p=2, dim=1)
            delta.grad.div_(grad_norms.view(-1, 1, 1, 1))
            optimizer_delta.step()
            delta.data.add_(x_natural)
            delta.data.clamp_(0, 1).sub_(x_natural)
            delta.data.renorm_(p=2, dim=0, maxnorm=epsilon)
            seen.moved(delta, gradient, "trades_loss:delta")
        x_adv = (x_natural + delta).detach()
    model.train()
    x_adv = torch.clamp(x_adv, 0.0, 1.0).detach()
    logits = model(x_natural)
    robust = criterion_kl(log_softmax(model(x_adv), dim=1), softmax(logits, dim=1))
    loss: Tensor = cross_entropy(logits, y) + beta * robust / len(y)
    return loss


def run(rounds: int, seen: Seen) -> None:
    model, images, labels = pictures()
    seen.watch(model)
    for distance in ("l_inf", "l_2"):
        for _ in range(rounds):
            loss = trades_loss(model, images, labels, seen, distance)
            loss.backward()  # type: ignore[no-untyped-call]
            seen.result(loss, *(parameter.grad for parameter in model.parameters()))
