"""For the benchmarks of PyTorch scripts: a job on this machine whose worker is a script."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def cnn(samples):
    """A model of 0.4 million parameters, and data of the shape of Fashion-MNIST."""
    import torch
    from torch import nn
    from torch.utils.data import TensorDataset

    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 49, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip
    x, y = torch.randn(samples, 1, 28, 28), torch.randint(10, (samples,))
    return model, TensorDataset(x, y)


def begin(programs, folder, words, *, train, workers=1, samples=0, checkpoint=None):
    """Begins to train in `folder` with the programs of a build, one server and `workers` workers,
    each of them `words`. `samples`: of those that the script has; 0: all."""
    job = {
        "name": "script",
        "worker": {"program": [sys.executable, *words]},
        "train": train,
        "servers": {"count": 1},
        "workers": [{"count": workers}],
        "checkpoint": checkpoint or {"enabled": False},
        "fleet": {"join_timeout_s": 400},
        "run": {"directory": str(Path(folder, "runs"))},
    }
    if samples > 0:
        job["data"] = {"train_samples": samples}
    Path(folder, "job.json").write_text(json.dumps(job))
    return subprocess.Popen(
        [f"{programs}/psctl", "train", "job.json", "--json"],
        cwd=folder,
        env=dict(os.environ, PYTHONPATH=str(ROOT / "python")),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(training):
    """Waits for what `begin` has begun; returns the summary. Ends this program with what psctl says
    if it fails."""
    out, err = training.communicate()
    if training.returncode != 0:
        sys.exit(err)
    return json.loads(out)


def train(programs, folder, words, **how):
    return end(begin(programs, folder, words, **how))
