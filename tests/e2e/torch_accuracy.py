"""Loads the model that a run has left into the same network in PyTorch, and prints how many of the
test samples it gets right: torch_accuracy.py MODEL DATASET TRAIN_SAMPLES TEST_SAMPLES.

Exit code 77 and a reason on stdout: there is no PyTorch here.
"""

import gzip
import json
import os
import re
import struct
import sys

try:
    import torch
except ImportError as error:
    print(error)
    sys.exit(77)


def read_safetensors(path):
    """Without the package, which Debian does not have."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = bytearray(file.read())
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            assert entry["dtype"] == "F32", entry
            tensors[name] = torch.frombuffer(data[begin:end], dtype=torch.float32).reshape(
                entry["shape"]
            )
    return tensors


def read_idx(directory, name, header_bytes, count):
    path = os.path.join(directory, name)
    opened = open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz", "rb")
    with opened as file:
        header = struct.unpack(f">{header_bytes // 4}I", file.read(header_bytes))
        values = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
    return values.reshape(header[1:])[:count]


def main():
    model, dataset = sys.argv[1:3]
    train_count, test_count = int(sys.argv[3]), int(sys.argv[4])
    network = torch.nn.Sequential(
        torch.nn.Conv2d(1, 32, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(32, 64, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(64 * 7 * 7, 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, 10),
    )
    tensors = read_safetensors(model)
    network.load_state_dict(
        {re.sub(r"\.\w+\.", ".", name): tensor for name, tensor in tensors.items()}
    )
    train = read_idx(dataset, "train-images-idx3-ubyte", 16, train_count).double()
    images = read_idx(dataset, "t10k-images-idx3-ubyte", 16, test_count).double()
    images = (images - train.mean()) / train.std(unbiased=False)
    labels = read_idx(dataset, "t10k-labels-idx1-ubyte", 8, test_count)
    with torch.no_grad():
        guesses = network(images.float().unsqueeze(1)).argmax(dim=1)
    print(int((guesses == labels).sum()))


main()
