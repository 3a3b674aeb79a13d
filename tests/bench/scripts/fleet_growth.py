"""What growing a fleet does to the loss of a job in `async`, by optimizer and `train.lr_policy`.

    fleet_growth.py BIN [--seeds N] [--only NAME] [--tiny]     BIN: the programs of a release build

The `mlp` on Fashion-MNIST (package dataset-fashion-mnist), two workers of 20 minibatches a second.
After 25 s `psctl scale` makes more of them. Prints the mean loss of the 6 s before, and, as the
median and the worst of the seeds, the highest loss after in proportion to it, and the mean loss of
the last 5 of 20 s after: at the same speed of each worker, so no time is measured. Seeds draw the
first values and the order of the samples.
"""

import argparse
import concurrent.futures
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ADAM = {"kind": "adam", "lr": 0.001}
MOMENTUM = {"kind": "sgd", "lr": 0.01, "momentum": 0.9}
PLAIN = {"kind": "sgd", "lr": 0.1}
LOCAL = {"local_steps": 8}
# The optimizer, the policy, how many workers there are after, and more of the train section.
ROWS = {
    "adam, 2 to 6, fixed": (ADAM, "fixed", 6, {}),
    "adam, 2 to 6, sqrt_live": (ADAM, "sqrt_live", 6, {}),
    "adam, 2 to 6, staleness": (ADAM, "staleness", 6, {}),
    "adam, 2 to 6, auto": (ADAM, "auto", 6, {}),
    "momentum, 2 to 4, fixed": (MOMENTUM, "fixed", 4, {}),
    "momentum, 2 to 4, listed": (MOMENTUM, "listed", 4, {}),
    "momentum, 2 to 4, auto": (MOMENTUM, "auto", 4, {}),
    "sgd, 2 to 8, fixed": (PLAIN, "fixed", 8, {}),
    "sgd, 2 to 8, auto": (PLAIN, "auto", 8, {}),
    "adam, 8 local steps, 2 to 6, fixed": (ADAM, "fixed", 6, LOCAL),
    "adam, 8 local steps, 2 to 6, auto": (ADAM, "auto", 6, LOCAL),
}
BEFORE_S, AFTER_S, END_S = 6, 20, 5


def losses(run):
    """(seconds since the run began, loss) of each line of the run's metrics."""
    path = run / "metrics.jsonl"
    rows = path.read_text().splitlines(keepends=True) if path.exists() else []
    points = [json.loads(row) for row in rows if row.endswith("\n")]
    return [(p["elapsed_s"], p["train_loss"]) for p in points if p["train_loss"] is not None]


def grow(options, name, seed, folder):
    """The loss before, the highest after, and the one at the end."""
    optimizer, policy, workers, more = ROWS[name]
    scale = 10 if options.tiny else 1
    job = {
        "name": "growth",
        "model": {"name": "mlp"},
        "data": {"directory": "/usr/share/datasets/fashion-mnist"},
        "optimizer": optimizer,
        "train": {
            "epochs": 1000,
            "seed": seed,
            "evaluate_every_epochs": 0,
            "on_divergence": "continue",
            "lr_policy": policy,
            **more,
        },
        "servers": {"count": 1},
        "workers": [{"count": 2, "step_ms": 50}],
        "run": {"directory": str(folder / "runs"), "metrics_every_s": 0.25},
    }
    (folder / "job.json").write_text(json.dumps(job))
    psctl = f"{options.bin}/psctl"
    training = subprocess.Popen(
        [psctl, "train", "job.json"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )

    def wait(until):
        while True:
            for run in (folder / "runs").glob("growth-*"):
                points = losses(run)
                if points and points[-1][0] >= until:
                    return run, points
            if training.poll() is not None:
                sys.exit(training.stderr.read())
            time.sleep(0.2)

    run, points = wait(25 / scale)
    begin = points[-1][0]
    subprocess.run(
        [psctl, "scale", str(run), f"workers={workers}"], check=True, stdout=subprocess.DEVNULL
    )
    _, points = wait(begin + AFTER_S / scale)
    subprocess.run([psctl, "stop", str(run), "--now"], check=True, capture_output=True)
    training.communicate()
    before = [loss for at, loss in points if begin - BEFORE_S / scale <= at <= begin]
    after = [loss for at, loss in points if at > begin]
    end = [loss for at, loss in points if at > begin + (AFTER_S - END_S) / scale]
    return statistics.mean(before), max(after), statistics.mean(end)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("bin", help="build/release/bin")
    parser.add_argument("--only", choices=ROWS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    options.bin = Path(options.bin).resolve()
    if options.tiny:
        options.seeds, options.only = 1, options.only or "adam, 2 to 6, auto"
    print(f"{'row':36} {'before':>7} {'highest, of it':>14} {'worst':>9} {'at the end':>10}")
    for name in [options.only] if options.only else ROWS:
        with tempfile.TemporaryDirectory() as root:
            folders = [Path(root, str(seed)) for seed in range(1, options.seeds + 1)]
            for folder in folders:
                folder.mkdir()
            # Workers wait for most of each step, so a few runs fit on two cores.
            with concurrent.futures.ThreadPoolExecutor(3) as pool:
                runs = [
                    pool.submit(grow, options, name, seed, folder)
                    for seed, folder in enumerate(folders, 1)
                ]
            before, highest, end = zip(*[run.result() for run in runs])
        ratios = [high / low for high, low in zip(highest, before)]
        print(
            f"{name:36} {statistics.median(before):7.3f} {statistics.median(ratios):14.3g} "
            f"{max(ratios):9.3g} {statistics.median(end):10.3g}",
            flush=True,
        )


if __name__ == "__main__":
    main()
