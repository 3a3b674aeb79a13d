"""A small convolutional network in PyTorch on Fashion-MNIST.

    psctl train configs/pytorch/fashion_mnist.json    # workers of a job that come and go
    python3 configs/pytorch/fashion_mnist.py          # the same script by itself, for one epoch
"""

import gzip
from pathlib import Path

import spotps
import torch
from torch import nn
from torch.utils.data import TensorDataset

FOLDER = Path("/usr/share/datasets/fashion-mnist")  # package dataset-fashion-mnist


def idx(name: str, header: int) -> torch.Tensor:
    path = FOLDER / name
    packed = FOLDER / (name + ".gz")
    data = path.read_bytes() if path.exists() else gzip.decompress(packed.read_bytes())
    return torch.frombuffer(bytearray(data[header:]), dtype=torch.uint8)


def dataset(part: str) -> TensorDataset:
    images = idx(f"{part}-images-idx3-ubyte", 16).view(-1, 1, 28, 28)
    return TensorDataset(images.float() / 255 - 0.5, idx(f"{part}-labels-idx1-ubyte", 8).long())


torch.manual_seed(1)
model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(32 * 7 * 7, 10),
)  # fmt: skip
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
loss_function = nn.CrossEntropyLoss()


def test(images: torch.Tensor, labels: torch.Tensor):
    out = model(images)
    loss = nn.functional.cross_entropy(out, labels, reduction="sum")
    return loss, (out.argmax(1) == labels).sum()


worker = spotps.Worker(model, optimizer)
worker.evaluate(test, dataset("t10k"))
for images, labels in worker.loader(dataset("train"), num_workers=1):
    loss = loss_function(model(images), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    worker.log(loss=loss)
