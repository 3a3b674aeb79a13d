"""A GPT on the bytes of a text, in PyTorch, with local steps: each worker trains on 20 minibatches by
itself between two exchanges, so that a thin link will do.

    psctl train configs/pytorch/small_gpt.json
    python3 configs/pytorch/small_gpt.py              # the same script by itself, for one epoch

    --text FILE ...   what to learn (the documents of this repository)
    --width, --depth, --heads, --context
"""

import argparse
from pathlib import Path

import spotps
import torch
from torch import nn
from torch.nn import functional

HERE = Path(__file__).resolve().parent
parser = argparse.ArgumentParser()
parser.add_argument("--text", nargs="+", type=Path)
parser.add_argument("--width", type=int, default=128)
parser.add_argument("--depth", type=int, default=4)
parser.add_argument("--heads", type=int, default=4)
parser.add_argument("--context", type=int, default=128)
options = parser.parse_args()


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attention = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.attention(self.norms[0](x)).view(batch, length, 3, self.heads, -1)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norms[1](x))


class Gpt(nn.Module):
    def __init__(self, width, depth, heads, context):
        super().__init__()
        self.token = nn.Embedding(256, width)
        self.place = nn.Embedding(context, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 256, bias=False)
        self.head.weight = self.token.weight  # tied: counts once
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, x):
        x = self.token(x) + self.place(torch.arange(x.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Windows(torch.utils.data.Dataset):
    """Each sample is a stretch of the text, and the same one byte on."""

    def __init__(self, text, context):
        self.text = text
        self.context = context

    def __len__(self):
        return (len(self.text) - 1) // self.context

    def __getitem__(self, sample):
        at = sample * self.context
        stretch = self.text[at : at + self.context + 1].long()
        return stretch[:-1], stretch[1:]


def loss_of(x, y, reduction="mean"):
    return functional.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction=reduction)


def test(x, y):
    out = model(x)
    loss = functional.cross_entropy(out.flatten(0, 1), y.flatten(), reduction="sum")
    return loss / x.shape[1], ((out.argmax(2) == y).float().mean(1) > 0.5).sum()


files = options.text or sorted((HERE / "../../docs").glob("*.md"))
text = torch.frombuffer(bytearray(b"\n".join(path.read_bytes() for path in files)), dtype=torch.uint8)
border = int(len(text) * 0.95)

torch.manual_seed(1)
model = Gpt(options.width, options.depth, options.heads, options.context)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.001, weight_decay=0.1)
worker = spotps.Worker(model, optimizer, local_steps=20)
worker.evaluate(test, Windows(text[border:], options.context))
for x, y in worker.loader(Windows(text[:border], options.context)):
    loss = loss_of(x, y)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    worker.log(loss=loss, grad_norm=norm)
