"""Compares the predictions of psctl apply with those of PyTorch by exported modules:
compare_predictions.py FOLDER, which has a folder with model.py, model.safetensors, inputs.npy and
predictions.csv for each model. Exit code 1: some differ by more than 1e-5.
"""

import csv
import importlib.util
import pathlib
import sys

import numpy
import torch

ALLOWED = 1e-5


def difference(folder):
    spec = importlib.util.spec_from_file_location(folder.name, folder / "model.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.load(folder / "model.safetensors")
    inputs = numpy.load(folder / "inputs.npy")
    if inputs.dtype == numpy.uint16:
        inputs = inputs.astype(numpy.int64)
    with torch.no_grad():
        outputs = model(module.prepare(inputs))
    if outputs.ndim == 3:
        outputs = outputs[:, -1]  # of the last token
    with open(folder / "predictions.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(inputs), f"{len(rows)} rows for {len(inputs)} samples"
    if "probability_1" in rows[0]:
        return difference_of_classes(rows, outputs.double().softmax(dim=1))
    columns = [name for name in rows[0] if name != "sample"]
    are_labels = columns[0].startswith("p_")
    own = torch.tensor([[float(row[name]) for name in columns] for row in rows]).double()
    expected = outputs.double().sigmoid() if are_labels else outputs.double()
    assert own.shape == expected.shape, f"{own.shape} and {expected.shape}"
    return (own - expected).abs().max().item()


def difference_of_classes(rows, expected):
    worst = 0.0
    for row in rows:
        own = expected[int(row["sample"])]
        for place in range(1, 6):
            word = "token" if f"token_{place}" in row else "class"
            probability = float(row[f"probability_{place}"])
            worst = max(worst, abs(probability - own[int(row[f"{word}_{place}"])].item()))
    return worst


def main():
    torch.set_num_threads(1)
    folders = sorted(path for path in pathlib.Path(sys.argv[1]).iterdir() if path.is_dir())
    assert folders, "no cases"
    worst = {folder.name: difference(folder) for folder in folders}
    for name, value in worst.items():
        print(f"{name}: {value:.2g}")
    sys.exit(1 if max(worst.values()) > ALLOWED else 0)


main()
