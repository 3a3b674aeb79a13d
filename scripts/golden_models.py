#!/usr/bin/env python3
"""Writes tests/data/{gpt,bert,resnet,separable}/*.npy: inputs, parameters, activations, loss and
gradients of small models by PyTorch.

Needs torch and numpy (Debian's python3-torch will do). The models are what ours are meant to be,
out of PyTorch's own layers; tests/worker/model/golden_models_test.cc compares.

    scripts/golden_models.py tests/data
"""

import pathlib
import sys

import numpy
import torch
from torch import nn

VOCABULARY, CONTEXT, WIDTH, HEADS, DEPTH, SAMPLES = 11, 7, 8, 2, 2, 3


class Block(nn.Module):
    def __init__(self, is_causal):
        super().__init__()
        self.is_causal = is_causal
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.norm2 = nn.LayerNorm(WIDTH)
        self.inner = nn.Linear(WIDTH, 4 * WIDTH)
        self.outer = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        hidden = torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).triu(1) if self.is_causal else None
        normal = self.norm1(x)
        x = x + self.attention(normal, normal, normal, attn_mask=hidden, need_weights=False)[0]
        self.attended = x
        return x + self.outer(nn.functional.gelu(self.inner(self.norm2(x))))

    def ordered(self):
        """Parameters in the order of our tensors."""
        a = self.attention
        return [
            *self.norm1.parameters(), a.in_proj_weight, a.in_proj_bias,
            a.out_proj.weight, a.out_proj.bias,
            *self.norm2.parameters(), *self.inner.parameters(), *self.outer.parameters(),
        ]


class Transformer(nn.Module):
    def __init__(self, is_causal):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList([Block(is_causal) for _ in range(DEPTH)])
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        x = self.token(tokens) + self.position.weight
        self.activations = [x]
        for block in self.blocks:
            x = block(x)
            self.activations += [block.attended, x]
        x = self.norm(x)
        logits = self.head(x)
        self.activations += [x, logits]
        return logits

    def ordered(self):
        blocks = [p for block in self.blocks for p in block.ordered()]
        return [self.token.weight, self.position.weight, *blocks, *self.norm.parameters(),
                *self.head.parameters()]


def conv_norm(inputs, outputs, kernel, stride=1, groups=1):
    # A momentum of 1: after a step the running statistics are the batch's.
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs, momentum=1))


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            conv_norm(inputs, outputs, 3, stride), nn.ReLU(), conv_norm(outputs, outputs, 3))
        self.shortcut = conv_norm(inputs, outputs, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        return nn.functional.relu(self.body(x) + self.shortcut(x))


def resnet():
    return nn.Sequential(
        conv_norm(2, 4, 3), nn.ReLU(), Residual(4, 4, 1), Residual(4, 6, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3))


class Sum(nn.Module):
    def __init__(self, *body):
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x):
        return x + self.body(x)


def separable():
    """Convolutions in groups, as MobileNet, ResNeXt and ConvNeXt have them."""
    return nn.Sequential(
        conv_norm(2, 4, 3), nn.ReLU(),
        conv_norm(4, 4, 3, stride=2, groups=4), nn.ReLU(), conv_norm(4, 8, 1), nn.ReLU(),
        nn.Conv2d(8, 12, 3, groups=4), nn.GELU(),
        Sum(nn.Conv2d(12, 12, 5, padding=2, groups=12), nn.Conv2d(12, 24, 1), nn.GELU(),
            nn.Conv2d(24, 12, 1)),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 3))


def with_statistics(model):
    """Tensors in the order of ours: those of a batch norm are followed by its statistics."""
    for layer in model.modules():
        yield from layer.parameters(recurse=False)
        if isinstance(layer, nn.BatchNorm2d):
            yield from (layer.running_mean, layer.running_var)


def flat(tensors):
    return torch.cat([t.detach().flatten() for t in tensors]).numpy().copy()


def disturb(parameters):
    with torch.no_grad():
        for p in parameters:
            p.add_(torch.randn_like(p) * 0.3)


def save(folder, **arrays):
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in arrays.items():
        numpy.save(folder / f"{name}.npy", array)


def make_transformer(folder, is_causal):
    torch.manual_seed(1)
    model = Transformer(is_causal)
    parameters = model.ordered()
    disturb(parameters)
    if is_causal:
        tokens = torch.randint(VOCABULARY, (SAMPLES, CONTEXT + 1))
        inputs, labels, saved = tokens[:, :-1], tokens[:, 1:], {"tokens": tokens.numpy()}
    else:  # two of three tokens have no label, which is one beyond the vocabulary here
        inputs = torch.randint(VOCABULARY, (SAMPLES, CONTEXT))
        labels = torch.randint(VOCABULARY, (SAMPLES, CONTEXT))
        labels[torch.arange(SAMPLES * CONTEXT).view(SAMPLES, CONTEXT) % 3 > 0] = VOCABULARY
        saved = {"inputs": inputs.numpy(), "labels": labels.numpy()}
    loss = nn.functional.cross_entropy(
        model(inputs).flatten(0, 1), labels.flatten(), ignore_index=VOCABULARY)
    loss.backward()
    save(folder, parameters=flat(parameters), gradients=flat([p.grad for p in parameters]),
         activations=flat(model.activations),
         loss=numpy.array([loss.item()], dtype=numpy.float32), **saved)


def make_pictures(folder, make, picked):
    """Keeps the activations behind the layers `picked`."""
    torch.manual_seed(1)
    model = make()
    disturb(model.parameters())
    parameters = flat(with_statistics(model))
    inputs = torch.randn(4, 2, 8, 8)
    labels = torch.tensor([0, 2, 1, 2])
    activations = []
    x = inputs
    for i, layer in enumerate(model):
        x = layer(x)
        if i in picked:
            activations.append(x.movedim(1, -1))  # channels last, as ours
    loss = nn.functional.cross_entropy(x, labels)
    loss.backward()
    gradients = flat(t if t.grad is None else t.grad for t in with_statistics(model))
    save(folder, parameters=parameters, gradients=gradients, inputs=inputs.numpy(),
         activations=flat(activations), labels=labels.numpy(),
         loss=numpy.array([loss.item()], dtype=numpy.float32))


def main():
    folder = pathlib.Path(sys.argv[1])
    make_transformer(folder / "gpt", is_causal=True)
    make_transformer(folder / "bert", is_causal=False)
    # Norms with the relu behind them; the pool, once flat.
    make_pictures(folder / "resnet", resnet, (1, 2, 3, 5, 6))
    make_pictures(folder / "separable", separable, (1, 3, 5, 7, 8, 10, 11))


if __name__ == "__main__":
    main()
