#!/usr/bin/env python3
"""Writes tests/data/bpe: a small byte pair encoding learnt from a text, and a text that is awkward
to cut with its tokens by the library `tokenizers` (pip install tokenizers). bpe_test.cc compares.

    scripts/golden_tokens.py README.md tests/data/bpe
"""

import pathlib
import struct
import sys

from tokenizers import ByteLevelBPETokenizer

TOKENS = 600

LINES = [
    "It's what they'll say: we've DON'T I'm he'd you're 'twas 's'S '' rock'n'roll",
    "  two  spaces,\tone tab\t\ttwo tabs, three   \n\n\n   lines\r\nand CRLF \r\n \n the end \n",
    "numbers 1 23 456,789 3.14 x2y22 \u00b2 \u2167 \u0663\u0664 \u4e00\u4e8c\u4e09 \u00bd\u00be",
    "letters na\u00efve caf\u00e9 cafe\u0301 \u05e9\u05dc\u05d5\u05dd",
    "\u0395\u03bb\u03bb\u03ac\u03b4\u03b1",
    "\u0420\u043e\u0441\u0441\u0438\u044f \u0627\u0644\u0639\u0631\u0628\u064a\u0629",
    "\u0939\u093f\u0928\u094d\u0926\u0940 \u65e5\u672c\u8a9e\u3067\u3059 \ud55c\uad6d\uc5b4",
    "spaces \u00a0x\u00a0\u00a0y \u2003z \u3000w\u3000\u3000v \u2028 \u0085 \u200b \ufeff",
    "controls \x1c \x1f \x00 \x7f",
    "signs !!! ... -- -> <|endoftext|> a_b __c__ $5 \u20ac5 \u00a35 \u00ab\u00bb \u2026",
    "\u201cquoted\u201d \u2019s",
    "pictures \U0001f600 \U0001f469\u200d\U0001f4bb \U0001f1e9\U0001f1ea \U00010348 \U000e0001",
    "a server serves the servers' " * 5,
    "lo" + "o" * 300 + "ng " + "-" * 80 + " " * 40,
]
TEXT = "\n".join(LINES)


def main(learnt_from, out):
    out = pathlib.Path(out)
    bpe = ByteLevelBPETokenizer()
    bpe.train([learnt_from], vocab_size=TOKENS, min_frequency=2, show_progress=False)
    bpe.save_model(str(out))
    vocabulary = out / "vocab.json"
    vocabulary.write_text(vocabulary.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    (out / "text.txt").write_bytes(TEXT.encode())
    ids = bpe.encode(TEXT).ids
    assert bpe.decode(ids) == TEXT
    header = "{'descr': '<u4', 'fortran_order': False, 'shape': (%d,), }" % len(ids)
    header += " " * (-(len(header) + 11) % 64) + "\n"
    tokens = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
    (out / "tokens.npy").write_bytes(tokens + struct.pack("<%dI" % len(ids), *ids))


if __name__ == "__main__":
    main(*sys.argv[1:])
