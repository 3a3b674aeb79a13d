"""Samples a second of one PyTorch worker through a server, against the plain loop.

    script_speed.py BIN [--pairs N] [--tiny]     BIN: the programs of a release build

A script is the only worker of a job with one server on this machine. Between a batch's arrival and
its first use it trains a copy of its model by a plain loop, for as many steps as it has trained as
a worker since the last time: so both are measured by turns within a second or two, in one process
and with the same number of threads, on a machine whose speed changes. Prints the median of the
ratios and the middle half of them. Needs PyTorch in the Python that runs it, a core for the script
and one for the server.
"""

import argparse
import copy
import json
import statistics
import tempfile
import time
from pathlib import Path

import script_job

HERE = Path(__file__).resolve()
MODELS = {  # minibatch, steps between two turns
    "cnn": (64, 10),
    "gpt": (12, 1),  # 10.7 million parameters; the minibatch of nanoGPT on a CPU
}
ROWS = (  # mode, local steps, overlap_backward
    ("async", 1, False),
    ("bsp", 1, False),
    ("bsp", 1, True),
    ("async", 10, False),
)
WARM = 1  # turns that are not measured


def gpt(samples):
    import torch
    from torch import nn
    from torch.utils.data import TensorDataset

    torch.manual_seed(1)

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
    """The loop of a user as a worker, and a plain one by turns. Leaves what it measured."""
    import spotps
    import torch
    from torch import nn

    minibatch, steps = turns_of(options)
    make = {"cnn": script_job.cnn, "gpt": gpt}[options.model]
    model, data = make(minibatch * steps * (options.pairs + WARM + 1))
    copied = copy.deepcopy(model)
    loss_of = nn.CrossEntropyLoss()

    def optimizer_of(trained):
        return torch.optim.SGD(trained.parameters(), lr=0.001, momentum=0.9)

    def step(trained, optimizer, x, y):
        optimizer.zero_grad()
        loss = loss_of(trained(x), y)
        loss.backward()
        optimizer.step()
        return loss

    own = optimizer_of(copied)
    plain = iter(torch.utils.data.DataLoader(data, minibatch, shuffle=True))
    optimizer = optimizer_of(model)
    worker = spotps.Worker(model, optimizer, overlap_backward=options.overlap)
    pairs, began = [], 0.0
    for number, (x, y) in enumerate(worker.loader(data)):
        if number % steps == 0:
            arrived = time.monotonic()
            for _ in range(steps):
                step(copied, own, *next(plain))
            ended = time.monotonic()
            if number > WARM * steps:
                pairs.append((arrived - began, ended - arrived))
            began = time.monotonic()
        worker.log(loss=step(model, optimizer, x, y))
    rates = [[minibatch * steps / seconds for seconds in pair] for pair in pairs]
    Path(options.out).write_text(json.dumps(rates))


def turns_of(options):
    """Minibatch, and steps between two turns: whole exchanges."""
    minibatch, steps = MODELS[options.model]
    return minibatch, max(steps, options.local_steps)


def measure(options, model, mode, local_steps, overlap, folder):
    out = folder / "rates.json"
    words = [str(HERE), "--child", model, "--local-steps", str(local_steps), "--out", str(out)]
    pairs = max(2, options.pairs // 3) if local_steps > 1 else options.pairs
    words += ["--pairs", str(2 if options.tiny else pairs)]
    words += ["--overlap"] if overlap else []
    train = {"epochs": 1, "minibatch": MODELS[model][0], "mode": mode, "local_steps": local_steps}
    script_job.train(options.bin, folder, words, train=train)
    return json.loads(out.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("bin", nargs="?")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--only", choices=MODELS)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--child", dest="model", help=argparse.SUPPRESS)
    parser.add_argument("--overlap", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--local-steps", type=int, default=1, help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.model:
        child(options)
        return
    if not options.bin:
        parser.error("BIN is missing: build/release/bin")
    options.bin = Path(options.bin).resolve()
    print("model  mode   local steps  overlap  plain/s worker/s  ratio  middle half")
    for model in [options.only] if options.only else MODELS:
        for mode, local_steps, overlap in ROWS:
            with tempfile.TemporaryDirectory() as name:
                rates = measure(options, model, mode, local_steps, overlap, Path(name))
            worker, plain = (statistics.median(rate[side] for rate in rates) for side in (0, 1))
            low, middle, high = statistics.quantiles([rate[0] / rate[1] for rate in rates], n=4)
            print(
                f"{model:6} {mode:6}{local_steps:12}  {'yes' if overlap else 'no':7} {plain:8.1f} "
                f"{worker:8.1f} {middle:6.3f}  {low:.3f} to {high:.3f}",
                flush=True,
            )


main()
