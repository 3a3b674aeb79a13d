"""A small network as a worker of a job, and the same by itself.

    small_net.py RECORD            trains, and leaves what each step began with, and its batch
    small_net.py RECORD --early    the same, with gradients that leave during backward
    small_net.py RECORD --parts    the same, with four batches for a step, which it counts itself
    small_net.py --compare RECORD MODEL
                                   plain PyTorch on these batches: the same bits in each step, and
                                   in the model that the run has left
"""

import sys

import torch
from model_files import read_model
from torch.utils.data import TensorDataset


def make():
    torch.manual_seed(7)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 2)
    )
    # A power of two: PyTorch multiplies by the rate and subtracts with one rounding, the servers with
    # two, and then there is nothing to round in the first.
    optimizer = torch.optim.SGD(model.parameters(), lr=1 / 16, momentum=0.9)
    x = torch.randn(768, 8)
    y = (x[:, 0] * x[:, 1] + x[:, 2] > 0).long()
    return model, optimizer, TensorDataset(x[:640], y[:640]), TensorDataset(x[640:], y[640:])


def copied(model):
    return {name: value.detach().clone() for name, value in model.named_parameters()}


def train(record, is_early, parts):
    import spotps

    model, optimizer, data, tests = make()
    loss_of = torch.nn.CrossEntropyLoss()
    has_hook = hasattr(torch.Tensor, "register_post_accumulate_grad_hook")  # PyTorch 2.1 on
    worker = spotps.Worker(
        model, optimizer, accumulate=parts, overlap_backward=is_early and has_hook
    )

    def evaluate(x, y):
        out = model(x)
        right = (out.argmax(1) == y).sum()
        return torch.nn.functional.cross_entropy(out, y, reduction="sum"), right

    worker.evaluate(evaluate, tests)
    steps = []
    for number, (x, y) in enumerate(worker.loader(data), 1):
        steps.append((copied(model), x.clone(), y.clone()))
        loss = loss_of(model(x), y)
        (loss / parts).backward()
        if number % parts == 0:
            optimizer.step()
            optimizer.zero_grad()
        worker.log(loss=loss)
    torch.save(steps, record)


def compare(record, path):
    torch.set_num_threads(1)
    model, optimizer, _, _ = make()
    loss_of = torch.nn.CrossEntropyLoss()
    steps = torch.load(record)
    if len(steps) != 40:
        sys.exit(f"{len(steps)} steps and not 40")
    for number, (values, x, y) in enumerate(steps):
        for name, own in model.named_parameters():
            if not torch.equal(own, values[name]):
                worst = (own - values[name]).abs().max().item()
                sys.exit(f"step {number}: {name} differs by up to {worst:g}")
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()
    left = read_model(path)
    kept = model.state_dict()
    if set(left) != set(kept):
        sys.exit(f"the file has {sorted(left)} and the model {sorted(kept)}")
    parameters = dict(model.named_parameters())
    for name, value in kept.items():
        if name.endswith("num_batches_tracked"):
            continue  # of the first values: nobody reads it
        is_same = torch.equal(left[name], value) if name in parameters else torch.allclose(
            left[name], value, rtol=1e-4, atol=1e-5
        )
        if not is_same:
            sys.exit(f"the model's {name} is another one: {left[name]} and {value}")
    model.load_state_dict(left)  # takes the file as it is


if sys.argv[1] == "--compare":
    compare(sys.argv[2], sys.argv[3])
else:
    train(sys.argv[1], "--early" in sys.argv, 4 if "--parts" in sys.argv else 1)
