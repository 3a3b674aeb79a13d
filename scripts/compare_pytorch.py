#!/usr/bin/env python3
"""The measuring part of scripts/compare_pytorch.sh.

    compare_pytorch.py PSCTL FOLDER DATASET [MODEL ...]

Trains each model with psctl, one worker with one thread beside one server, and with PyTorch on one
thread, eager and compiled, in turns, and prints samples per second of each and ours over the better
one of PyTorch. All train the same model with the same minibatch and optimizer. PyTorch's data are
random and in memory; ours are Fashion-MNIST in DATASET and a text that is written into FOLDER.

PyTorch's images go channels last, as ours do, and its optimizers are the fused ones. Its first
three steps are left out; ours are in the figure.
"""

import json
import random
import re
import statistics
import subprocess
import sys
import time

import torch
from torch import nn
from torch.nn import functional

CLASSES = 10
IMAGES = 4096
VOCABULARY, CONTEXT, WIDTH, HEADS, DEPTH = 256, 256, 384, 6, 6


def mlp():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(),
        nn.Linear(128, CLASSES))


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(3136, 64), nn.ReLU(), nn.Linear(64, CLASSES))


def conv_norm(inputs, outputs, kernel, stride=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(outputs))


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            conv_norm(inputs, outputs, 3, stride), nn.ReLU(inplace=True),
            conv_norm(outputs, outputs, 3))
        self.shortcut = conv_norm(inputs, outputs, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x):
        return functional.relu(self.body(x) + self.shortcut(x), inplace=True)


def resnet20():
    layers = [conv_norm(1, 16, 3), nn.ReLU(inplace=True)]
    inputs = 16
    for width in (16, 32, 64):
        for block in range(3):
            layers.append(Residual(inputs, width, 2 if width != 16 and block == 0 else 1))
            inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.inner, self.outer = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        n, length, _ = x.shape
        heads = self.qkv(self.norm1(x)).view(n, length, 3, HEADS, WIDTH // HEADS)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, length, WIDTH))
        return x + self.outer(functional.gelu(self.inner(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.position = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(DEPTH)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        return self.head(self.norm(self.blocks(self.token(tokens) + self.position.weight)))


def images(channels, side):
    return torch.randn(IMAGES, channels, side, side), torch.randint(CLASSES, (IMAGES,))


def tokens():
    text = torch.randint(VOCABULARY, (256, CONTEXT + 1))
    return text[:, :-1].contiguous(), text[:, 1:].contiguous()


MODELS = {
    "mlp": (mlp, lambda: images(1, 28), False),
    "cnn": (cnn, lambda: images(1, 28), True),
    "resnet20": (resnet20, lambda: images(1, 28), True),
    "gpt": (Gpt, tokens, False),
}


class Training:
    """A model with its optimizer, and how far in the data it is."""

    def __init__(self, name, minibatch, is_compiled):
        torch.manual_seed(1)
        make, data, is_channels_last = MODELS[name]
        self.inputs, self.labels = data()
        model = make()
        if is_channels_last:
            model = model.to(memory_format=torch.channels_last)
            self.inputs = self.inputs.to(memory_format=torch.channels_last)
        # Servers keep the running statistics of batch norm as well.
        self.parameters = sum(p.numel() for p in model.parameters()) + sum(
            b.numel() for b in model.buffers() if b.dim() > 0)
        if name == "gpt":
            self.optimizer = torch.optim.AdamW(
                model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
        else:
            self.optimizer = torch.optim.SGD(
                model.parameters(), lr=1e-3, momentum=0.9, fused=True)
        self.minibatch = minibatch
        self.model = torch.compile(model) if is_compiled else model
        self.order = torch.randperm(len(self.inputs))
        self.at = 0

    def step(self):
        if self.at + self.minibatch > len(self.order):
            self.order = torch.randperm(len(self.inputs))
            self.at = 0
        chosen = self.order[self.at:self.at + self.minibatch]
        self.at += self.minibatch
        logits = self.model(self.inputs[chosen])
        loss = functional.cross_entropy(logits.flatten(0, -2), self.labels[chosen].flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def samples_per_s(self, seconds):
        begin = time.perf_counter()
        samples = 0
        while samples == 0 or time.perf_counter() - begin < seconds:
            self.step()
            samples += self.minibatch
        return samples / (time.perf_counter() - begin)


ROUNDS = 3
SECONDS = 8.0
MINIBATCHES = {"mlp": 64, "cnn": 64, "resnet20": 64, "gpt": 4}


class Psctl:
    """Our side: a job of the same model."""

    def __init__(self, psctl, folder, dataset, name, minibatch):
        self.psctl, self.folder, self.minibatch = psctl, folder, minibatch
        self.samples_max = 60000
        self.job = {
            "name": "compare-" + name,
            "data": {"directory": dataset, "test_samples": 100},
            "train": {"mode": "async", "minibatch": minibatch, "evaluate_every_epochs": 0},
            "servers": {"count": 1},
            "workers": [{"count": 1, "threads": 1}],
            "checkpoint": {"enabled": False},
            "run": {"directory": folder + "/runs"},
        }
        if name == "gpt":
            with open(folder + "/text.txt", "wb") as text:
                text.write(random.Random(1).randbytes(2_000_000))
            self.job["data"] = {
                "format": "text", "directory": folder, "context": CONTEXT, "test_share": 0.01}
            self.samples_max = 7000
            self.job["model"] = {"name": "gpt", "depth": DEPTH, "heads": HEADS, "width": WIDTH}
            self.job["optimizer"] = {"kind": "adamw", "lr": 1e-4, "weight_decay": 0.01}
        else:
            self.job["model"] = {"name": name}
            self.job["optimizer"] = {"kind": "sgd", "lr": 1e-3, "momentum": 0.9}

    def file(self, samples):
        epochs = -(-samples // self.samples_max)
        self.job["data"]["train_samples"] = samples // epochs
        self.job["train"]["epochs"] = epochs
        path = self.folder + "/job.json"
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.job, file)
        return path

    def parameters(self):
        text = subprocess.run(
            [self.psctl, "model", self.file(4096)], check=True, capture_output=True, text=True)
        count = re.search(r"^parameters +([0-9,]+)", text.stdout, re.MULTILINE).group(1)
        return int(count.replace(",", ""))

    def samples_per_s(self, rate):
        samples = max(2, round(rate * SECONDS / self.minibatch)) * self.minibatch
        run = subprocess.run(
            [self.psctl, "train", self.file(samples), "--json", "--no-refine"],
            check=False, capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit("psctl train failed:\n" + run.stderr)
        # Of the time in which it trained: the run's begins with its first connection.
        return json.loads(run.stdout)["workers"][0]["samples_per_s"]


def compare(psctl, folder, dataset, name):
    minibatch = MINIBATCHES[name]
    ours = Psctl(psctl, folder, dataset, name, minibatch)
    theirs = [Training(name, minibatch, is_compiled) for is_compiled in (False, True)]
    if ours.parameters() != theirs[0].parameters:
        sys.exit(f"{name} has {ours.parameters()} parameters here and {theirs[0].parameters} there")
    for training in theirs:
        for _ in range(3):
            training.step()
    rate = theirs[0].samples_per_s(1)
    rates = [[], [], []]
    for _ in range(ROUNDS):
        rates[0].append(ours.samples_per_s(rate))
        for values, training in zip(rates[1:], theirs):
            values.append(training.samples_per_s(SECONDS))
    return theirs[0].parameters, minibatch, rates


def show(rate):
    return f"{rate:,.1f}" if rate < 100 else f"{rate:,.0f}"


def main():
    psctl, folder, dataset, *names = sys.argv[1:]
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        sys.exit(f"no model {unknown[0]}; there are {', '.join(MODELS)}")
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}, {ROUNDS} rounds of {SECONDS:g} s, one thread, medians")
    row = "{:<9} {:>11} {:>9} {:>10} {:>10} {:>10}  {}"
    print(row.format("model", "parameters", "minibatch", "ours", "eager", "compiled", "ratio"))
    for name in names or MODELS:
        parameters, minibatch, rates = compare(psctl, folder, dataset, name)
        best = [max(eager, compiled) for eager, compiled in zip(*rates[1:])]
        ratios = [a / b for a, b in zip(rates[0], best)]
        print(row.format(
            name, f"{parameters:,}", minibatch, *(show(statistics.median(r)) for r in rates),
            f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"),
            flush=True)


if __name__ == "__main__":
    main()
