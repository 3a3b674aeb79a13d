"""For the benchmarks of PyTorch scripts: a job on this machine whose worker is a script."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def train(programs, folder, words, *, train, workers=1):
    """Trains in `folder` with the programs of a build, one server and `workers` workers, each of
    them `words`; returns the summary. Ends this program with what psctl says if it fails."""
    job = {
        "name": "script",
        "worker": {"program": [sys.executable, *words]},
        "train": train,
        "servers": {"count": 1},
        "workers": [{"count": workers}],
        "checkpoint": {"enabled": False},
        "fleet": {"join_timeout_s": 400},
        "run": {"directory": str(Path(folder, "runs"))},
    }
    Path(folder, "job.json").write_text(json.dumps(job))
    done = subprocess.run(
        [f"{programs}/psctl", "train", "job.json", "--json"],
        cwd=folder,
        env=dict(os.environ, PYTHONPATH=str(ROOT / "python")),
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)
