"""Files of safetensors, read and written by what their format says: no package is needed."""

import json
import struct

import torch

TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "BOOL": torch.bool,
}


def read_model(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    tensors = {}
    for name, what in header.items():
        if name != "__metadata__":
            begin, end = what["data_offsets"]
            values = torch.frombuffer(bytearray(data[begin:end]), dtype=TYPES[what["dtype"]])
            tensors[name] = values.view(what["shape"])
    return tensors


def write_model(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        values = tensor.detach().contiguous()
        element = next(key for key, dtype in TYPES.items() if dtype == tensor.dtype)
        piece = bytes(values.flatten().view(torch.uint8).tolist())
        place = [len(data), len(data) + len(piece)]
        header[name] = {"dtype": element, "shape": list(values.shape), "data_offsets": place}
        data += piece
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
