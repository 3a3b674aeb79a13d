#!/usr/bin/env python3
"""Writes tests/data/gpt/*.npy: a small GPT's parameters, tokens, loss and gradients by PyTorch.

Needs torch and numpy (Debian's python3-torch will do). The model is the one that our `gpt` is meant
to be, out of PyTorch's own layers; tests/worker/model/golden_gpt_test.cc compares.

    scripts/golden_gpt.py tests/data/gpt
"""

import pathlib
import sys

import numpy
import torch
from torch import nn

VOCABULARY, CONTEXT, WIDTH, HEADS, DEPTH, SAMPLES = 11, 7, 8, 2, 2, 3


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.inner = nn.Linear(WIDTH, 4 * WIDTH)
        self.outer = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        hidden = torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).triu(1)
        normal = self.norm1(x)
        x = x + self.attention(normal, normal, normal, attn_mask=hidden, need_weights=False)[0]
        return x + self.outer(nn.functional.gelu(self.inner(self.norm2(x))))

    def ordered(self):
        """Parameters in the order of our tensors."""
        a = self.attention
        return [
            *self.norm1.parameters(), a.in_proj_weight, a.in_proj_bias,
            a.out_proj.weight, a.out_proj.bias,
            *self.norm2.parameters(), *self.inner.parameters(), *self.outer.parameters(),
        ]


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(DEPTH)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.token(tokens) + self.position.weight
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def ordered(self):
        blocks = [p for block in self.blocks for p in block.ordered()]
        return [self.token.weight, self.position.weight, *blocks, *self.norm.parameters(),
                *self.head.parameters()]


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    model = Gpt()
    parameters = model.ordered()
    with torch.no_grad():
        for p in parameters:
            p.add_(torch.randn_like(p) * 0.3)
    tokens = torch.randint(VOCABULARY, (SAMPLES, CONTEXT + 1))
    logits = model(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()

    def save(name, array):
        numpy.save(folder / f"{name}.npy", array)

    def flat(tensors):
        return torch.cat([t.flatten() for t in tensors]).detach().numpy()

    save("parameters", flat(parameters))
    save("gradients", flat([p.grad for p in parameters]))
    save("tokens", tokens.numpy())
    save("loss", numpy.array([loss.item()], dtype=numpy.float32))


if __name__ == "__main__":
    main()
