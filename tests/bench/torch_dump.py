"""Writes tensors with torch.save and reads them back: torch_dump.py FILE BUFFERS ELEMENTS.

Prints seconds of torch.save, the same with fsync, seconds of torch.load from the page cache,
bytes. Exit code 77 and a reason on stdout: there is no PyTorch here.
"""

import os
import sys
import time

try:
    import torch
except ImportError as error:
    print(error)
    sys.exit(77)


def main():
    path = sys.argv[1]
    buffers, elements = (int(text) for text in sys.argv[2:])
    tensors = {str(i): torch.randn(elements) for i in range(buffers)}
    begin = time.monotonic()
    with open(path, "wb") as file:
        torch.save(tensors, file)
        saved = time.monotonic()
        file.flush()
        os.fsync(file.fileno())
        synced = time.monotonic()
    torch.load(path)
    loaded = time.monotonic()
    print(saved - begin, synced - begin, loaded - synced, os.path.getsize(path))


main()
