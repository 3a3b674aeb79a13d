"""What a PyTorch loop learns from gradients that are some steps old, and by which rate and momentum.

    script_ages.py [--seeds N] [--tiny]

One process, so that each gradient is exactly n - 1 steps old, as those of n workers in async are in
the mean: the model, data and minibatches of script_learning.py. For each n and each optimizer the
accuracy with its own settings (fixed), with train.lr_policy live's, and with the rate divided by n.
Needs PyTorch; prints why it is skipped.
"""

import argparse
import collections
import statistics
import sys
from pathlib import Path

import script_learning

SGD = [(0.03, 0.9), (0.01, 0.9)]  # rate, momentum
ADAM_RATE = 0.001
WORKERS = (1, 2, 4, 8)


def live(rate, momentum, n):
    """As ps/proto/job/optimizer_rules.cc has it."""
    left = max(momentum - 1 + 1 / n, 0.01 * momentum)
    return rate * (1 - left) / (1 - momentum) / n, left


def learn(make_optimizer, age, seed, tiny):
    """The accuracy after gradients of values that are `age` steps old."""
    import torch
    from torch import nn

    model, train, tests = script_learning.task(seed, tiny)
    values = list(model.parameters())
    optimizer = make_optimizer(values)
    seen = collections.deque(maxlen=age + 1)  # the values after each of the last steps
    for _ in range(script_learning.EPOCHS):
        for x, y in torch.utils.data.DataLoader(train, script_learning.MINIBATCH, shuffle=True):
            newest = [value.detach().clone() for value in values]
            seen.append(newest)
            with torch.no_grad():
                for value, old in zip(values, seen[0], strict=True):
                    value.copy_(old)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            with torch.no_grad():
                for value, new in zip(values, newest, strict=True):
                    value.copy_(new)
            optimizer.step()
    with torch.no_grad():
        right = (model(tests.tensors[0]).argmax(1) == tests.tensors[1]).sum().item()
    return 100 * right / len(tests)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    try:
        import torch
    except ImportError:
        sys.exit(f"{Path(__file__).name}: skipped: PyTorch is not installed")
    torch.set_num_threads(1)

    def row(name, n, make_optimizer):
        seeds = range(1, (1 if options.tiny else options.seeds) + 1)
        found = [learn(make_optimizer, n - 1, seed, options.tiny) for seed in seeds]
        print(f"{n:>7} {name:34} {statistics.mean(found):6.2f} {min(found):6.2f}", flush=True)

    def sgd(rate, momentum):
        return lambda values: torch.optim.SGD(values, lr=rate, momentum=momentum)

    print(f"{'workers':>7} {'optimizer':34} {'mean':>6} {'low':>6}   accuracy, %")
    for n in WORKERS[:2] if options.tiny else WORKERS:
        for rate, momentum in SGD:
            name = f"SGD {rate} {momentum}"
            row(name + ", fixed", n, sgd(rate, momentum))
            row(name + ", live", n, sgd(*live(rate, momentum, n)))
            row(name + ", rate divided by n", n, sgd(rate / n, momentum))
        row(f"Adam {ADAM_RATE}, fixed", n, lambda values: torch.optim.Adam(values, lr=ADAM_RATE))


if __name__ == "__main__":
    main()
