"""Samples a second of one PyTorch worker through a server, against the plain loop.

    script_speed.py BIN [--rounds N] [--tiny]     BIN: the programs of a release build

Runs the same script by turns, by itself and as the only worker of a job with one server on this
machine, with as many threads, and prints a table: the median of each round's ratio, and the lowest
and the highest. Needs PyTorch in the Python that runs it, and a machine that does nothing else.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import script_job

HERE = Path(__file__).resolve()
MODELS = {  # minibatch, steps
    "cnn": (64, 120),
    "gpt": (4, 40),  # 10.7 million parameters
}
WARM = 5  # steps that are not measured; with local steps, exchanges


def make(name, samples):
    import torch
    from torch import nn
    from torch.utils.data import TensorDataset

    torch.manual_seed(1)
    if name == "cnn":
        model = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(64 * 49, 128), nn.ReLU(), nn.Linear(128, 10),
        )  # fmt: skip
        x, y = torch.randn(samples, 1, 28, 28), torch.randint(10, (samples,))
        return model, TensorDataset(x, y)

    class Gpt(nn.Module):
        def __init__(self, width=384, depth=6, context=128):
            super().__init__()
            layer = nn.TransformerEncoderLayer(
                width, 6, 4 * width, dropout=0.0, batch_first=True, norm_first=True
            )
            self.token = nn.Embedding(256, width)
            self.body = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
            self.head = nn.Linear(width, 256, bias=False)
            mask = torch.full((context, context), float("-inf")).triu(1)
            self.register_buffer("mask", mask, persistent=False)

        def forward(self, x):
            out = self.body(self.token(x), mask=self.mask, is_causal=True)
            return self.head(out).transpose(1, 2)

    text = torch.randint(256, (samples, 129))
    return Gpt(), TensorDataset(text[:, :-1].clone(), text[:, 1:].clone())


def child(options):
    """The loop of a user, plain or as a worker. Leaves what it measured."""
    import torch
    from torch import nn

    minibatch, steps = MODELS[options.model]
    steps = 8 + WARM * options.local_steps if options.tiny else steps + WARM * options.local_steps
    model, data = make(options.model, minibatch * steps)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    if options.plain:
        torch.set_num_threads(options.threads)
        batches = torch.utils.data.DataLoader(data, minibatch, shuffle=True)
        worker = None
    else:
        import spotps

        worker = spotps.Worker(model, optimizer)
        batches = worker.loader(data)
    began, seen = 0.0, 0
    for step, (x, y) in enumerate(batches):
        if step == WARM * options.local_steps:
            began, seen = time.monotonic(), 0
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        seen += len(x)
        if worker is not None:
            worker.log(loss=loss)
        ended = time.monotonic()
    measured = {"rate": seen / (ended - began), "threads": torch.get_num_threads()}
    Path(options.out).write_text(json.dumps(measured))


def words(options, model, local_steps, out):
    tiny = ["--tiny"] if options.tiny else []
    return [str(HERE), "--child", model, "--local-steps", str(local_steps), "--out", str(out), *tiny]


def plain(options, model, local_steps, threads, folder):
    out = folder / "plain.json"
    command = [sys.executable, *words(options, model, local_steps, out), "--plain"]
    subprocess.run([*command, "--threads", str(threads)], check=True)
    return json.loads(out.read_text())


def through(options, model, local_steps, folder):
    out = folder / "worker.json"
    train = {"epochs": 1, "minibatch": MODELS[model][0], "local_steps": local_steps}
    script_job.train(options.bin, folder, words(options, model, local_steps, out), train=train)
    return json.loads(out.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("bin", nargs="?")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--child", dest="model", help=argparse.SUPPRESS)
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--local-steps", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.model:
        child(options)
        return
    if not options.bin:
        parser.error("BIN is missing: build/release/bin")
    options.bin = Path(options.bin).resolve()
    print("model  local steps  plain/s worker/s  ratio  lowest to highest")
    for model in MODELS:
        for local_steps in (1, 10):
            rates, ratios = [], []
            for _ in range(1 if options.tiny else options.rounds):
                with tempfile.TemporaryDirectory() as name:
                    mine = through(options, model, local_steps, Path(name))
                    other = plain(options, model, local_steps, mine["threads"], Path(name))
                rates.append((other["rate"], mine["rate"]))
                ratios.append(mine["rate"] / other["rate"])
            print(
                f"{model:6} {local_steps:11} {statistics.median(r[0] for r in rates):8.1f} "
                f"{statistics.median(r[1] for r in rates):8.1f} {statistics.median(ratios):6.3f}  "
                f"{min(ratios):.3f} to {max(ratios):.3f}",
                flush=True,
            )


main()
