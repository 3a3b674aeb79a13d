#pragma once

#include <array>
#include <string_view>

// What a module of torch_module.h has besides its layers. Those with braces in pairs are formats.

namespace ps::worker {

struct TorchHelper {
  std::string_view name;
  std::string_view text;
};

inline constexpr const char* kModuleHead =
    R"py("""The model of {}, as spotps trained it. Written by psctl model export.

Import this file as the module m; it needs PyTorch and nothing else.

    model = m.load("model.safetensors")
    outputs = model(m.prepare(inputs))

{}
"""

import json
import struct

import torch
from torch import nn
from torch.nn import functional

)py";

inline constexpr std::array<TorchHelper, 12> kTorchHelpers = {{
    {"FlatLinear", R"py(class FlatLinear(nn.Linear):
    def forward(self, x):
        return super().forward(x.flatten(1))
)py"},
    {"FlatLayerNorm", R"py(class FlatLayerNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.flatten(1))
)py"},
    {"PixelConv2d", R"py(class PixelConv2d(nn.Conv2d):
    def forward(self, x):
        return super().forward(x[:, :, None, None])
)py"},
    {"PixelMaxPool2d", R"py(class PixelMaxPool2d(nn.MaxPool2d):
    def forward(self, x):
        return super().forward(x[:, :, None, None])
)py"},
    {"PixelAvgPool2d", R"py(class PixelAvgPool2d(nn.AvgPool2d):
    def forward(self, x):
        return super().forward(x[:, :, None, None])
)py"},
    {"ImageMean", R"py(class ImageMean(nn.Module):
    def forward(self, x):
        return x.mean(dim=(2, 3))
)py"},
    {"Residual", R"py(class Residual(nn.Module):
    """The sum of what body and shortcut make of the input; the input itself without a shortcut."""

    def __init__(self, body, shortcut=None):
        super().__init__()
        self.body = body
        self.shortcut = shortcut

    def forward(self, x):
        y = self.body(x)
        side = x if self.shortcut is None else self.shortcut(x)
        return y + side.reshape(y.shape)
)py"},
    {"Embedding", R"py(class Embedding(nn.Module):
    """Each token's own vector plus that of its place."""

    def __init__(self, vocabulary, length, width):
        super().__init__()
        self.weight = nn.Parameter(0.02 * torch.randn(vocabulary, width))
        self.position = nn.Parameter(0.02 * torch.randn(length, width))

    def forward(self, tokens):
        return self.weight[tokens] + self.position[: tokens.shape[1]]
)py"},
    {"Attention", R"py(class Attention(nn.Module):
    def __init__(self, width, heads, causal):
        super().__init__()
        self.heads = heads
        self.causal = causal
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = (
            part.reshape(n, t, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=2)
        )
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(n, t, width))
)py"},
    {"FeedForward", R"py(class FeedForward(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.add_module("in", nn.Linear(width, hidden))
        self.out = nn.Linear(hidden, width)

    def forward(self, x):
        return self.out(functional.gelu(self.get_submodule("in")(x)))
)py"},
    {"TokenMean", R"py(class TokenMean(nn.Module):
    def forward(self, x):
        return x.mean(dim=1)
)py"},
    {"FlattenTokens", R"py(class FlattenTokens(nn.Module):
    """One vector of a sequence: all tokens' first feature, then the second, ..."""

    def forward(self, x):
        return x.transpose(1, 2).flatten(1)
)py"},
}};

inline constexpr const char* kPrepareTokens = R"py(def prepare(inputs):
    """Tokens [n, {}], each from 0 and below {}."""
    return torch.as_tensor(inputs).long()
)py";

inline constexpr const char* kPrepareValues = R"py(def prepare(inputs):
    """Values [n, {0}], as they enter the model."""
    return torch.as_tensor(inputs, dtype=torch.float32).reshape(-1, {0})
)py";

/// What pictures in files become, as worker/data/pictures has it.
inline constexpr const char* kReadPicture = R"py(def read_picture(path):
    """A PNG or JPEG file as bytes [{0}, {1}, {2}], as in training; torch.stack some for prepare.

    Needs Pillow.
    """
    from PIL import Image, ImageOps

    height, width = {1}, {2}

    def covering(columns, rows):
        if columns * height >= rows * width:
            return height * columns // rows, height
        return width, width * rows // columns

    with Image.open(path) as image:
        is_turned = image.getexif().get(0x0112, 1) > 4
        columns, rows = covering(*(reversed(image.size) if is_turned else image.size))
        least = (2 * rows, 2 * columns) if is_turned else (2 * columns, 2 * rows)
        image.draft(None, least)
        image = ImageOps.exif_transpose(image)
        if image.mode.startswith("I;16"):
            image = image.point(lambda value: value / 257 + 0.5)
        image = image.convert("{3}")
    image = image.resize(covering(*image.size), Image.Resampling.BILINEAR)
    left, top = round((image.width - width) / 2), round((image.height - height) / 2)
    image = image.crop((left, top, left + width, top + height))
    pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return pixels.reshape(height, width, {0}).permute(2, 0, 1)


)py";

inline constexpr const char* kPrepareBytes = R"py(def prepare(inputs):
    """Bytes [n, {0}], as they are in the data, to what enters the model."""
    inputs = torch.as_tensor(inputs).reshape(-1, {0})
{1}    mean = torch.tensor(MEAN, dtype=torch.float64).reshape({2})
    deviation = torch.tensor(DEVIATION, dtype=torch.float64).reshape({2})
    return ((inputs.double() - mean) / deviation).float()
)py";

inline constexpr std::string_view kModuleEnd = R"py(

TYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
NAMES = {"gamma": "weight", "beta": "bias", "running_variance": "running_var"}


def own_name(name):
    """What the file calls 4.residual.body.1.batch_norm.gamma is 4.body.1.weight here."""
    words = name.split(".")
    kept = [word for before, word in zip([""] + words, words) if not before.isdigit()]
    return ".".join(kept[:-1] + [NAMES.get(kept[-1], kept[-1])])


def read_values(path):
    """The tensors of a safetensors file, by their names here."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = bytearray(file.read())
    values = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            stored = torch.frombuffer(data[begin:end], dtype=TYPES[entry["dtype"]])
            values[own_name(name)] = stored.reshape(entry["shape"]).float()
    return values


def load(path):
    """The network with the values of a model file, for use: not in training."""
    model = network()
    missing, unexpected = model.load_state_dict(read_values(path), strict=False)
    missing = [name for name in missing if not name.endswith("num_batches_tracked")]
    if missing or unexpected:
        raise ValueError(f"{path} lacks {missing} and has {unexpected}, which the network has not")
    return model.eval()
)py";

}  // namespace ps::worker
