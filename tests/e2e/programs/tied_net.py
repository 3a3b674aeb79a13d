"""A network as many are: tied weights, masks that never change, batch norm, a frozen layer.

    tied_net.py                    trains, as a worker
    tied_net.py --load MODEL       the same, and what nobody trains is that of the file
    tied_net.py --compare MODEL    the file is what load_state_dict takes strictly, and is trained
    tied_net.py --change MODEL     leaves other files beside it: one.safetensors has one of the two
                                   names of what is tied, other.safetensors other values of what is
                                   frozen, differ.safetensors values that differ by name
"""

import sys
from pathlib import Path

import torch
from model_files import read_model, write_model
from torch.nn import functional

WORDS, WIDTH, LENGTH = 32, 8, 64


class TiedNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(11)
        self.words = torch.nn.Embedding(WORDS, WIDTH)
        self.frozen = torch.nn.Linear(WIDTH, WIDTH)
        self.frozen.requires_grad_(False)
        self.norm = torch.nn.BatchNorm1d(WIDTH)
        self.head = torch.nn.Linear(WIDTH, WORDS, bias=False)
        self.head.weight = self.words.weight
        self.register_buffer("mask", torch.tril(torch.ones(LENGTH, LENGTH)))
        infinite = torch.zeros(4, 4).masked_fill(self.mask[:4, :4] == 0, -torch.inf)
        self.register_buffer("infinite", infinite)
        self.register_buffer("allowed", self.mask[:3, :3] > 0)
        self.register_buffer("places", torch.arange(LENGTH))
        self.register_buffer("scratch", torch.zeros(5), persistent=False)

    def forward(self, words):
        x = self.words(words) * self.mask[-1, : words.shape[1], None]
        return self.head(self.norm(self.frozen(x).mean(1)))


def train(path):
    import spotps

    model = TiedNet()
    if path:
        model.load_state_dict(read_model(path))
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.125)
    worker = spotps.Worker(model, optimizer)
    data = torch.utils.data.TensorDataset(torch.randint(0, WORDS, (640, 16)))
    for (words,) in worker.loader(data):
        loss = functional.cross_entropy(model(words), words[:, 0])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        worker.log(loss=loss)


def compare(path):
    model, first = TiedNet(), TiedNet().state_dict()
    files = {"this program": read_model(path)}
    try:
        from safetensors.torch import load_file

        files["the package safetensors"] = load_file(path)
    except ImportError:
        pass
    for reader, left in files.items():
        model.load_state_dict(left)  # strictly
        changed = {n for n, value in model.state_dict().items() if not torch.equal(value, first[n])}
        trained = {"words.weight", "head.weight", "norm.weight", "norm.bias"}
        trained |= {"norm.running_mean", "norm.running_var"}
        if changed != trained:
            sys.exit(f"read by {reader}, {sorted(changed)} have changed")
        if not torch.equal(left["head.weight"], left["words.weight"]):
            sys.exit(f"read by {reader}, the two names have different values")


def change(path):
    def leave(what, edit):
        tensors = read_model(path)
        edit(tensors)
        write_model(Path(path).parent / f"{what}.safetensors", tensors)

    leave("one", lambda tensors: tensors.pop("words.weight"))
    leave("other", lambda tensors: tensors["frozen.weight"].add_(1))
    leave("differ", lambda tensors: tensors["head.weight"].add_(1))


if "--compare" in sys.argv:
    compare(sys.argv[2])
elif "--change" in sys.argv:
    change(sys.argv[2])
else:
    train(sys.argv[2] if "--load" in sys.argv else "")
