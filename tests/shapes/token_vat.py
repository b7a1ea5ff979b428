"""Token-aware VAT: one delta for each sentence, one for each token with a lasting table."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from _shapes import Seen
from shapes.models import Words


def train(model: Words, seen: Seen, batches: int) -> Tensor:
    adv_lr, adv_max_norm = 0.05, 0.2
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    delta_global_embedding = torch.zeros(40, 12).uniform_(-0.02, 0.02)
    for _ in range(batches):
        ids, labels = torch.randint(1, 40, (4, 5)), torch.randint(0, 3, (4,))
        embeds_init = model.embedding(ids)
        delta_lb = torch.zeros_like(embeds_init).uniform_(-0.01, 0.01)
        delta_tok = delta_global_embedding[ids]
        seen.made(delta_lb, "train")
        seen.made(delta_tok, "train:delta_tok")
        for _ in range(3):
            delta_lb.requires_grad_()
            delta_tok.requires_grad_()
            inputs_embeds = model.embedding(ids) + delta_lb + delta_tok
            functional.cross_entropy(model(inputs_embeds), labels).backward()  # type: ignore[no-untyped-call]
            assert delta_lb.grad is not None
            assert delta_tok.grad is not None
            lb_grad, tok_grad = delta_lb.grad.clone(), delta_tok.grad.clone()
            size = lb_grad.view(4, -1).norm(dim=1).view(-1, 1, 1).clamp(min=1e-8)
            delta_lb = (delta_lb + adv_lr * lb_grad / size).detach()
            delta_tok = (
                delta_tok + adv_lr * tok_grad / tok_grad.norm(dim=-1, keepdim=True)
            ).detach()
            over = delta_tok.norm(dim=-1, keepdim=True) / adv_max_norm
            delta_tok = delta_tok / over.clamp(min=1)
            seen.moved(delta_lb, lb_grad, "train")
            seen.moved(delta_tok, tok_grad, "train:delta_tok")
        delta_global_embedding = delta_global_embedding.index_put_((ids,), delta_tok)
        seen.result(delta_lb, delta_tok, delta_global_embedding, model.embedding.weight.grad)
        optimizer.step()
        optimizer.zero_grad()
    return delta_global_embedding


def run(rounds: int, seen: Seen) -> None:
    model = Words()
    seen.watch(model)
    train(model, seen, rounds)
