#!/usr/bin/env python3
"""The measuring part of scripts/compare_pytorch.sh.

    compare_pytorch.py [--device cpu|cuda] [--rounds N] [--seconds S] [--json FILE]
                       [--local-steps N[,N]] [--step PROGRAM] [--precision f32|bf16]
                       PSCTL FOLDER [MODEL ...]

Trains each model with psctl, one worker beside one server, and with PyTorch, eager and compiled, in
turns, and prints samples per second of each and ours over the better one of PyTorch. All train the
same model with the same minibatch and optimizer. On the CPU each worker has one thread; on a CUDA
device each model is trained in bf16 and in f32, or in the one that --precision names; f32 is no
TF32 on either side. FOLDER gets what we train on: random texts, tokens and pictures, but for the
CPU Fashion-MNIST where Debian has it. PyTorch's data are random and in memory, that of the device
if there is one.

PyTorch's images go channels last, as ours do, and its optimizers are the fused ones. Its first
three steps are left out; ours are in the figure. "Compiled" is the best of torch.compile's modes:
on a device the default, reduce-overhead and max-autotune, which lines below a row tell apart,
beside the same with TF32 where f32 is meant.

Ours has a row for each number of local steps (1 without --local-steps), which a push is of. The
column "step" is ours without the time in which the worker waited for its server, "waits" the share
of that time, and "alone" what --step, bench_step of the tree, says of the step without servers.
"""

import argparse
import array
import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
import time

import torch
from torch import nn
from torch.nn import functional

DATASET = "/usr/share/datasets/fashion-mnist"
CLASSES = 10
IMAGES = 4096
THROWN_AWAY = 3  # steps of PyTorch


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


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride, changes_shape):
        super().__init__()
        self.body = nn.Sequential(
            conv_norm(inputs, width, 1), nn.ReLU(inplace=True),
            conv_norm(width, width, 3, stride), nn.ReLU(inplace=True),
            conv_norm(width, 4 * width, 1))
        self.shortcut = (
            conv_norm(inputs, 4 * width, 1, stride) if changes_shape else nn.Identity())

    def forward(self, x):
        return functional.relu(self.body(x) + self.shortcut(x), inplace=True)


def resnet50():
    layers = [conv_norm(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            stride = 2 if width != 64 and block == 0 else 1
            layers.append(Bottleneck(inputs, width, stride, block == 0))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


def resnet(blocks, channels):
    layers = [conv_norm(channels, 16, 3), nn.ReLU(inplace=True)]
    inputs = 16
    for width in (16, 32, 64):
        for block in range(blocks):
            layers.append(Residual(inputs, width, 2 if width != 16 and block == 0 else 1))
            inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, length, width = x.shape
        heads = self.qkv(self.norm1(x)).view(n, length, 3, self.heads, width // self.heads)
        q, k, v = heads.permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, length, width))
        return x + self.outer(functional.gelu(self.inner(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.token = nn.Embedding(size.vocabulary, size.width)
        self.position = nn.Embedding(size.context, size.width)
        self.blocks = nn.Sequential(*[Block(size.width, size.heads) for _ in range(size.depth)])
        self.norm, self.head = nn.LayerNorm(size.width), nn.Linear(size.width, size.vocabulary)

    def forward(self, tokens):
        return self.head(self.norm(self.blocks(self.token(tokens) + self.position.weight)))


class GptSize:
    def __init__(self, vocabulary, context, width, heads, depth):
        self.vocabulary, self.context = vocabulary, context
        self.width, self.heads, self.depth = width, heads, depth


SMALL_GPT = GptSize(256, 256, 384, 6, 6)
# GPT-2's small one. Its head is a matrix of its own here and there, so it has 163M parameters.
GPT_124M = GptSize(50257, 1024, 768, 12, 12)


class Comparison:
    """A model, its data and its minibatch."""

    def __init__(self, name, make, minibatch, shape=None, size=None, classes=CLASSES, count=IMAGES):
        self.name, self.make, self.minibatch = name, make, minibatch
        self.shape, self.size, self.classes, self.count = shape, size, classes, count

    def data(self):
        if self.size:
            text = torch.randint(self.size.vocabulary, (self.count, self.size.context + 1))
            return text[:, :-1].contiguous(), text[:, 1:].contiguous()
        return torch.randn(self.count, *self.shape), torch.randint(self.classes, (self.count,))


def comparisons(device):
    if device == "cpu":
        return {
            "mlp": Comparison("mlp", mlp, 64, (1, 28, 28)),
            "cnn": Comparison("cnn", cnn, 64, (1, 28, 28)),
            "resnet20": Comparison("resnet20", lambda: resnet(3, 1), 64, (1, 28, 28)),
            "gpt": Comparison("gpt", lambda: Gpt(SMALL_GPT), 4, size=SMALL_GPT, count=256),
        }
    return {
        "resnet20": Comparison("resnet20", lambda: resnet(3, 3), 128, (3, 32, 32)),
        "resnet110": Comparison("resnet110", lambda: resnet(18, 3), 128, (3, 32, 32)),
        "resnet50": Comparison(
            "resnet50", resnet50, 64, (3, 224, 224), classes=1000, count=512),
        "gpt": Comparison("gpt", lambda: Gpt(GPT_124M), 8, size=GPT_124M, count=256),
    }


class Training:
    """PyTorch's side: a model with its optimizer, and how far in the data it is."""

    def __init__(self, what, device, precision, mode):
        """`mode` is torch.compile's; None: eager."""
        torch.manual_seed(1)
        self.device, self.precision, self.minibatch = device, precision, what.minibatch
        self.inputs, self.labels = (t.to(device) for t in what.data())
        model = what.make().to(device)
        if what.shape and what.name != "mlp":
            model = model.to(memory_format=torch.channels_last)
            self.inputs = self.inputs.to(memory_format=torch.channels_last)
        # Servers keep the running statistics of batch norm as well.
        self.parameters = sum(p.numel() for p in model.parameters()) + sum(
            b.numel() for b in model.buffers() if b.dim() > 0)
        if what.size:
            self.optimizer = torch.optim.AdamW(
                model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
        else:
            self.optimizer = torch.optim.SGD(
                model.parameters(), lr=1e-3, momentum=0.9, fused=True)
        self.model = model if mode is None else torch.compile(model, mode=mode)
        self.order = torch.randperm(len(self.inputs), device=device)
        self.at = 0

    def step(self):
        if self.at + self.minibatch > len(self.order):
            self.order = torch.randperm(len(self.inputs), device=self.device)
            self.at = 0
        chosen = self.order[self.at:self.at + self.minibatch]
        self.at += self.minibatch
        with torch.autocast(
                self.device, dtype=torch.bfloat16, enabled=self.precision == "bf16"):
            logits = self.model(self.inputs[chosen])
            loss = functional.cross_entropy(logits.flatten(0, -2), self.labels[chosen].flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def wait(self):
        if self.device == "cuda":
            torch.cuda.synchronize()

    def samples_per_s(self, seconds):
        self.wait()
        begin = time.perf_counter()
        samples = 0
        while samples == 0 or time.perf_counter() - begin < seconds:
            for _ in range(10 if self.device == "cuda" else 1):
                self.step()
                samples += self.minibatch
            self.wait()
        return samples / (time.perf_counter() - begin)


def write_npy(path, dtype, shape, values):
    """As numpy.save, version 1, without numpy."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little"))
        file.write(header.encode() + values)


class Psctl:
    """Our side: a job of the same model."""

    def __init__(self, arguments, what, precision, local_steps):
        self.psctl, self.folder, self.minibatch = arguments.psctl, arguments.folder, what.minibatch
        self.step, self.device = arguments.step, arguments.device
        is_cuda = arguments.device == "cuda"
        worker = {"count": 1, "threads": 1, "device": "cuda:0" if is_cuda else "cpu"}
        self.job = {
            "name": "compare-" + what.name,
            "train": {"mode": "async", "minibatch": what.minibatch, "evaluate_every_epochs": 0,
                      "precision": precision, "local_steps": local_steps},
            # A device leaves its host's other cores to the server.
            "servers": {"count": 1, "shards_per_server": 4 if is_cuda else 1},
            "workers": [worker],
            "checkpoint": {"enabled": False},
            "run": {"directory": self.folder + "/runs"},
        }
        if what.size:
            self.job["model"] = {"name": "gpt", "depth": what.size.depth, "heads": what.size.heads,
                                 "width": what.size.width}
            self.job["optimizer"] = {"kind": "adamw", "lr": 1e-4, "weight_decay": 0.01}
        else:
            self.job["model"] = {"name": what.name}
            self.job["optimizer"] = {"kind": "sgd", "lr": 1e-3, "momentum": 0.9}
        if is_cuda:
            self.take_arrays(what)
        elif what.size:
            self.take_text(what.size.context)
        else:
            self.job["data"] = {"directory": DATASET, "test_samples": 100}
            self.samples_max = 60000

    def take_text(self, context):
        with open(self.folder + "/text.txt", "wb") as text:
            text.write(random.Random(1).randbytes(2_000_000))
        self.job["data"] = {
            "format": "text", "directory": self.folder, "context": context, "test_share": 0.01}
        self.samples_max = 7000

    def take_arrays(self, what):
        """Random pictures or tokens in files that psctl maps."""
        folder = f"{self.folder}/{what.name}"
        self.job["data"] = {"format": "npy", "directory": folder}
        self.samples_max = what.count
        if what.size:
            self.job["data"]["vocabulary"] = what.size.vocabulary
        if os.path.isdir(folder):
            return
        os.mkdir(folder)
        draw = random.Random(1)
        for part, count in (("train", what.count), ("test", what.minibatch)):
            if what.size:
                length = what.size.context + 1
                tokens = array.array("H", draw.choices(
                    range(what.size.vocabulary), k=count * length))
                write_npy(f"{folder}/{part}-inputs.npy", "<u2", (count, length), tokens.tobytes())
            else:
                pixels = draw.randbytes(count * math.prod(what.shape))
                write_npy(f"{folder}/{part}-inputs.npy", "|u1", (count, *what.shape), pixels)
                # The largest class has to be there.
                labels = array.array("H", [(what.classes - 1 - i) % what.classes
                                           for i in range(count)])
                write_npy(f"{folder}/{part}-labels.npy", "<u2", (count,), labels.tobytes())

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
            [self.psctl, "model", self.file(self.minibatch)],
            check=False, capture_output=True, text=True)
        if text.returncode != 0:
            sys.exit("psctl model failed:\n" + text.stderr)
        count = re.search(r"^parameters +([0-9,]+)", text.stdout, re.MULTILINE).group(1)
        return int(count.replace(",", ""))

    def samples_per_s(self, rate, seconds):
        """Of the time in which it trained, which begins with its first connection; of its steps."""
        round_samples = self.minibatch * self.job["train"]["local_steps"]
        samples = max(2, round(rate * seconds / round_samples)) * round_samples
        run = subprocess.run(
            [self.psctl, "train", self.file(samples), "--json", "--no-refine"],
            check=False, capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit("psctl train failed:\n" + run.stderr)
        worker = json.loads(run.stdout)["workers"][0]
        return worker["samples_per_s"], worker["samples_counted"] / worker["compute_s"]

    def samples_per_s_alone(self):
        if not self.step:
            return None
        run = subprocess.run(
            [self.step, "--device", self.job["workers"][0]["device"], "--runs", "3",
             "--job", self.file(self.samples_max)],
            check=False, capture_output=True, text=True)
        found = re.search(r"^alone, with its optimizer +([0-9.]+)", run.stdout, re.MULTILINE)
        if run.returncode != 0 or not found:
            sys.exit("bench_step failed:\n" + run.stdout + run.stderr)
        return float(found.group(1))


MODES = {"cpu": ("default",), "cuda": ("default", "reduce-overhead", "max-autotune")}


def allow_tf32(is_allowed):
    torch.backends.cuda.matmul.allow_tf32 = is_allowed
    torch.backends.cudnn.allow_tf32 = is_allowed


class Peer:
    """PyTorch's rates of one model and precision: eager, compiled in each mode, with TF32."""

    def __init__(self, arguments, what, precision):
        self.has_tf32 = arguments.device == "cuda" and precision == "f32"
        self.trainings = {"eager": Training(what, arguments.device, precision, None)}
        for mode in MODES[arguments.device]:
            self.trainings[mode] = Training(what, arguments.device, precision, mode)
        if self.has_tf32:
            self.trainings["eager, TF32"] = Training(what, "cuda", precision, None)
            self.trainings["default, TF32"] = Training(what, "cuda", precision, "default")
        for name, training in self.trainings.items():
            allow_tf32("TF32" in name)  # compiled code keeps what was allowed when it was made
            for _ in range(THROWN_AWAY):
                training.step()
            training.wait()
        self.parameters = self.trainings["eager"].parameters
        self.rates = {name: [] for name in self.trainings}

    def measure(self, seconds):
        for name, training in self.trainings.items():
            allow_tf32("TF32" in name)
            self.rates[name].append(training.samples_per_s(seconds))

    def compiled(self, index):
        return max(rates[index] for name, rates in self.rates.items()
                   if "eager" not in name and "TF32" not in name)

    def best(self, index):
        return max(self.rates["eager"][index], self.compiled(index))


def compare(arguments, what, precision):
    """A row for each number of local steps, and PyTorch's rates."""
    torch._dynamo.reset()  # models share code, and there is a limit to how often that is compiled
    ours = [Psctl(arguments, what, precision, steps) for steps in arguments.local_steps]
    peer = Peer(arguments, what, precision)
    if ours[0].parameters() != peer.parameters:
        sys.exit(f"{what.name} has {ours[0].parameters()} parameters here and "
                 f"{peer.parameters} there")
    rate = peer.trainings["eager"].samples_per_s(1)
    rates = [{"ours": [], "step": []} for _ in ours]
    for _ in range(arguments.rounds):
        for job, own in zip(ours, rates):
            whole, step = job.samples_per_s(rate, arguments.seconds)
            own["ours"].append(whole)
            own["step"].append(step)
        peer.measure(arguments.seconds)
    alone = ours[0].samples_per_s_alone()
    rounds = range(arguments.rounds)
    rows = []
    for steps, own in zip(arguments.local_steps, rates):
        ratios = [own["ours"][i] / peer.best(i) for i in rounds]
        whole, step = (statistics.median(own[key]) for key in ("ours", "step"))
        rows.append({
            "model": what.name, "precision": precision, "parameters": peer.parameters,
            "minibatch": what.minibatch, "local_steps": steps, "ours": whole, "step": step,
            "waits": 1 - whole / step, "alone": alone,
            "eager": statistics.median(peer.rates["eager"]),
            "compiled": statistics.median(peer.compiled(i) for i in rounds),
            "peer": {name: statistics.median(of) for name, of in peer.rates.items()},
            "ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios)})
    return rows


def show(rate):
    if rate is None:
        return "-"
    return f"{rate:,.1f}" if rate < 100 else f"{rate:,.0f}"


ROW = "{:<10} {:<5} {:>11} {:>9} {:>5} {:>9} {:>9} {:>6} {:>9} {:>9} {:>9}  {}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each candidate in a round")
    parser.add_argument("--json", help="a file that gets the figures, a line a model")
    parser.add_argument("--local-steps", default="1", help="minibatches of a push, N[,N]")
    parser.add_argument("--precision", choices=("f32", "bf16"))
    parser.add_argument("--step", help="bench_step, for the column \"alone\"")
    parser.add_argument("psctl")
    parser.add_argument("folder")
    parser.add_argument("models", nargs="*")
    arguments = parser.parse_args()
    if not re.fullmatch(r"[1-9][0-9]*(,[1-9][0-9]*)*", arguments.local_steps):
        sys.exit(f"--local-steps {arguments.local_steps}: numbers from 1 on, with commas")
    arguments.local_steps = [int(steps) for steps in arguments.local_steps.split(",")]
    all_models = comparisons(arguments.device)
    unknown = [name for name in arguments.models if name not in all_models]
    if unknown:
        sys.exit(f"no model {unknown[0]}; there are {', '.join(all_models)}")
    torch.set_num_threads(1)
    where = "one thread"
    if arguments.device == "cuda":
        if not torch.cuda.is_available():
            sys.exit(f"PyTorch {torch.__version__} finds no CUDA device")
        torch.backends.cudnn.benchmark = True
        where = torch.cuda.get_device_name()
    print(f"PyTorch {torch.__version__}, {where}, {arguments.rounds} rounds of "
          f"{arguments.seconds:g} s, medians of samples/s")
    precisions = ("f32", "bf16") if arguments.device == "cuda" else ("f32",)
    if arguments.precision:
        precisions = (arguments.precision,)
    print(ROW.format("model", "", "parameters", "minibatch", "local", "ours", "step", "waits",
                     "alone", "eager", "compiled", "ours of the better one"), flush=True)
    for name in arguments.models or all_models:
        for precision in precisions:
            rows = compare(arguments, all_models[name], precision)
            for row in rows:
                print(ROW.format(
                    name, precision, f"{row['parameters']:,}", row["minibatch"], row["local_steps"],
                    show(row["ours"]), show(row["step"]), f"{row['waits']:.0%}",
                    *(show(row[key]) for key in ("alone", "eager", "compiled")),
                    f"{row['ratio']:.2f} ({row['least']:.2f} to {row['most']:.2f})"), flush=True)
                if arguments.json:
                    with open(arguments.json, "a", encoding="utf-8") as file:
                        file.write(json.dumps(row) + "\n")
            if arguments.device == "cuda":
                print("  PyTorch: " + ", ".join(
                    f"{mode} {show(rate)}" for mode, rate in rows[0]["peer"].items()), flush=True)


if __name__ == "__main__":
    main()
