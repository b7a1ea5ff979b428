"""DeepFool: each turn takes a gradient for each class, and goes to the nearest border."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from _shapes import Seen
from shapes.models import pictures


def deepfool(
    image: Tensor, net: nn.Module, seen: Seen, num_classes: int = 3, overshoot: float = 0.02
) -> Tensor:
    scores = net(image[None]).flatten()
    order = scores.argsort(descending=True)[:num_classes]
    pert_image = copy.deepcopy(image)
    r_tot = torch.zeros_like(image)
    loop_i, max_iter = 0, 4
    x = pert_image[None].clone().requires_grad_(True)
    seen.made(x - image)
    fs = net(x)
    while loop_i < max_iter:
        pert = float("inf")
        fs[0, order[0]].backward(retain_graph=True)
        assert x.grad is not None
        grad_orig = x.grad.detach().clone()
        w, cur_grad = torch.zeros_like(grad_orig), grad_orig
        for k in range(1, num_classes):
            x.grad.zero_()
            fs[0, order[k]].backward(retain_graph=True)
            cur_grad = x.grad.detach().clone()
            w_k = cur_grad - grad_orig
            f_k = (fs[0, order[k]] - fs[0, order[0]]).item()
            pert_k = abs(f_k) / float(w_k.norm())
            if pert_k < pert:
                pert, w = pert_k, w_k
        r_i = (pert + 1e-4) * w / w.norm()
        r_tot = r_tot + r_i[0]
        pert_image = image + (1 + overshoot) * r_tot
        x = pert_image[None].clone().requires_grad_(True)
        seen.moved(x - image, cur_grad)
        fs = net(x)
        loop_i += 1
    return x.detach()


def run(rounds: int, seen: Seen) -> None:
    model, images, _ = pictures()
    model.eval()
    seen.watch(model)
    for turn in range(rounds):
        seen.result(deepfool(images[turn % len(images)], model, seen))
        model.zero_grad()
