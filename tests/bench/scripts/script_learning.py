"""What a PyTorch script learns as workers of a job, against the plain loop: 5 seeds of each.

    script_learning.py BIN [--seeds N] [--only NAME] [--tiny]     BIN: the programs of a release build

A small convolutional network on 6,000 samples of Fashion-MNIST (package dataset-fashion-mnist), 3
epochs of minibatches of 32 with SGD and momentum. Prints the accuracy on 2,000 other samples: mean,
standard deviation, lowest and highest, and how many standard errors the mean is from that of the
plain loop. Seeds draw the first values and the order of the samples. Needs PyTorch in the Python
that runs it.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import script_job

HERE = Path(__file__).resolve()
FOLDER = Path("/usr/share/datasets/fashion-mnist")
EPOCHS, MINIBATCH = 3, 32
AS_IS = {"mode": "async", "lr_policy": "fixed", "overlap": True}
JOBS = {  # of the train section, and of the workers
    "1 worker, bsp": ({"mode": "bsp"}, 1, MINIBATCH),
    "2 workers, bsp": ({"mode": "bsp"}, 2, MINIBATCH // 2),
    "1 worker, async": ({"mode": "async"}, 1, MINIBATCH),
    "2 workers, async": ({"mode": "async"}, 2, MINIBATCH),
    "4 workers, async": ({"mode": "async"}, 4, MINIBATCH),
    "2 workers, async, fixed": ({"mode": "async", "lr_policy": "fixed"}, 2, MINIBATCH),
    "2 workers, async, fixed, overlap": (AS_IS, 2, MINIBATCH),
    "2 workers, bsp, 8 local steps": ({"mode": "bsp", "local_steps": 8}, 2, MINIBATCH),
}


def data(part, count):
    import gzip

    import torch
    from torch.utils.data import TensorDataset

    def idx(name, header):
        path = FOLDER / name
        packed = FOLDER / (name + ".gz")
        raw = path.read_bytes() if path.exists() else gzip.decompress(packed.read_bytes())
        return torch.frombuffer(bytearray(raw[header:]), dtype=torch.uint8)

    images = idx(f"{part}-images-idx3-ubyte", 16).view(-1, 1, 28, 28)[:count]
    labels = idx(f"{part}-labels-idx1-ubyte", 8)[:count]
    return TensorDataset(images.float() / 255 - 0.5, labels.long())


def task(seed, tiny):
    """The model, the samples that it learns from, and those that it is tested with."""
    import torch
    from torch import nn

    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(16 * 49, 10),
    )  # fmt: skip
    return model, data("train", 640 if tiny else 6000), data("t10k", 200 if tiny else 2000)


def child(options):
    import torch
    from torch import nn

    model, train, tests = task(options.seed, options.tiny)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()

    def test(x, y):
        out = model(x)
        loss = nn.functional.cross_entropy(out, y, reduction="sum")
        return loss, (out.argmax(1) == y).sum()

    def step(x, y):
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    if options.plain:
        torch.set_num_threads(1)
        for _ in range(EPOCHS):
            for x, y in torch.utils.data.DataLoader(train, MINIBATCH, shuffle=True):
                step(x, y)
        with torch.no_grad():
            right = test(*tests.tensors)[1].item()
        print(json.dumps({"test_accuracy": right / len(tests)}))
        return
    import spotps

    worker = spotps.Worker(model, optimizer)
    worker.evaluate(test, tests)
    for x, y in worker.loader(train):
        worker.log(loss=step(x, y))


def words(options, seed):
    tiny = ["--tiny"] if options.tiny else []
    return [str(HERE), "--child", "--seed", str(seed), *tiny]


def plain(options, seed):
    command = [sys.executable, *words(options, seed), "--plain"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)["test_accuracy"]


def through(options, name, seed):
    more, workers, minibatch = JOBS[name]
    train = {"epochs": EPOCHS, "minibatch": minibatch, "seed": seed, **more}
    with tempfile.TemporaryDirectory() as folder:
        summary = script_job.train(
            options.bin, folder, words(options, seed), train=train, workers=workers
        )
    return summary["test_accuracy"]


def row(name, found, reference):
    mean, spread = statistics.mean(found), statistics.stdev(found)
    error = ((spread**2 + statistics.stdev(reference) ** 2) / len(found)) ** 0.5
    away = (mean - statistics.mean(reference)) / error if error > 0 else 0.0
    print(
        f"{name:33} {100 * mean:6.2f} {100 * spread:5.2f} {100 * min(found):6.2f} "
        f"{100 * max(found):6.2f} {away:+10.1f}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("bin", nargs="?")
    parser.add_argument("--only", choices=JOBS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options)
        return
    if not options.bin:
        parser.error("BIN is missing: build/release/bin")
    options.bin = Path(options.bin).resolve()
    seeds = range(1, (2 if options.tiny else options.seeds) + 1)
    print(f"{'accuracy, %':33} {'mean':>6} {'+-':>5} {'low':>6} {'high':>6} {'errors off':>10}")
    reference = [plain(options, seed) for seed in seeds]
    row("plain loop", reference, reference)
    for name in [options.only] if options.only else JOBS:
        row(name, [through(options, name, seed) for seed in seeds], reference)


if __name__ == "__main__":
    main()
