"""libspotps.so by ctypes: worker/script/spotps.h is its text."""

import ctypes
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Iterator, Optional

ABI = 4

ERROR, OK, TASK, WAIT, END, NO_JOB, DESCRIBED = -1, 0, 1, 2, 3, 4, 5
GRADIENT, AVERAGE = 0, 1
# As safetensors calls them, in the order of their numbers.
TYPES = (
    "F64",
    "F32",
    "F16",
    "BF16",
    "I64",
    "I32",
    "I16",
    "I8",
    "U64",
    "U32",
    "U16",
    "U8",
    "BOOL",
)
TRAIN, EVALUATE = 0, 1


class CTask(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_int32),
        ("epoch", ctypes.c_uint32),
        ("step", ctypes.c_uint64),
        ("begin", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("minibatch", ctypes.c_uint32),
        ("local_steps", ctypes.c_uint32),
        ("samples_done", ctypes.c_uint64),
        ("is_local", ctypes.c_int32),
    ]


_WORKER = ctypes.c_void_p
_FUNCTIONS = {
    "abi": (ctypes.c_int32, []),
    "open": (ctypes.c_int32, [ctypes.c_int32, ctypes.POINTER(_WORKER)]),
    "error": (ctypes.c_char_p, [_WORKER]),
    "declare": (
        ctypes.c_int32,
        [
            _WORKER,
            ctypes.c_char_p,
            ctypes.POINTER(ctypes.c_int64),
            ctypes.c_int32,
            ctypes.c_int32,
            ctypes.c_float,
            ctypes.c_int32,
            ctypes.c_void_p,
        ],
    ),
    "frozen": (
        ctypes.c_int32,
        [
            _WORKER,
            ctypes.c_char_p,
            ctypes.POINTER(ctypes.c_int64),
            ctypes.c_int32,
            ctypes.c_void_p,
        ],
    ),
    "kept": (
        ctypes.c_int32,
        [
            _WORKER,
            ctypes.c_char_p,
            ctypes.c_int32,
            ctypes.POINTER(ctypes.c_int64),
            ctypes.c_int32,
            ctypes.c_int32,
            ctypes.c_int32,
            ctypes.c_void_p,
        ],
    ),
    "alias": (ctypes.c_int32, [_WORKER, ctypes.c_char_p, ctypes.c_char_p]),
    "samples": (ctypes.c_int32, [_WORKER, ctypes.c_uint64, ctypes.c_uint64]),
    "optimizer": (ctypes.c_int32, [_WORKER, ctypes.c_char_p]),
    "local_steps": (ctypes.c_int32, [_WORKER, ctypes.c_uint32]),
    "minibatch": (ctypes.c_int32, [_WORKER, ctypes.c_uint32]),
    "device": (ctypes.c_int32, [_WORKER, ctypes.c_char_p]),
    "next": (ctypes.c_int32, [_WORKER, ctypes.c_int32, ctypes.POINTER(CTask)]),
    "values": (ctypes.c_void_p, [_WORKER, ctypes.c_uint32]),
    "gradient": (ctypes.c_void_p, [_WORKER, ctypes.c_uint32]),
    "ready": (ctypes.c_int32, [_WORKER, ctypes.c_uint32]),
    "local_step": (ctypes.c_int32, [_WORKER, ctypes.c_uint64]),
    "finish": (ctypes.c_int32, [_WORKER, ctypes.c_double, ctypes.c_uint64, ctypes.c_uint64]),
    "order": (
        ctypes.c_int32,
        [
            _WORKER,
            ctypes.c_uint32,
            ctypes.c_uint64,
            ctypes.c_uint64,
            ctypes.POINTER(ctypes.c_uint64),
        ],
    ),
    "job": (ctypes.c_char_p, [_WORKER]),
    "job_device": (ctypes.c_char_p, [_WORKER]),
    "seat": (
        ctypes.c_int32,
        [_WORKER, ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(ctypes.c_uint32)],
    ),
    "figure": (ctypes.c_int32, [_WORKER, ctypes.c_char_p, ctypes.c_double]),
    "log": (ctypes.c_int32, [_WORKER, ctypes.c_char_p, ctypes.c_char_p]),
    "notice": (ctypes.c_int32, [_WORKER]),
    "leave": (ctypes.c_int32, [_WORKER, ctypes.c_char_p, ctypes.c_int32]),
    "fail": (ctypes.c_int32, [_WORKER, ctypes.c_char_p, ctypes.c_int32]),
    "close": (None, [_WORKER]),
}


def _places() -> Iterator[Path]:
    """Where the library may be: as told, in the wheel, beside the programs."""
    told = os.environ.get("SPOTPS_LIBRARY")
    if told:
        yield Path(told)
        return
    yield Path(__file__).parent / "libspotps.so"
    program = shutil.which("ps_worker")
    if program is not None:
        folder = Path(program).resolve().parent
        yield folder / "libspotps.so"
        yield folder.parent / "lib" / "libspotps.so"


class Library:
    """The functions without their prefix; each lets the interpreter's lock go while it runs."""

    def __init__(self, path: Path) -> None:
        loaded = ctypes.CDLL(str(path))
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(loaded, "spotps_" + name)
            function.restype = result
            function.argtypes = arguments
            setattr(self, name, function)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...



def load() -> "tuple[Optional[Library], str]":
    """The library, or why there is none."""
    tried = list(_places())
    for path in tried:
        if path.exists():
            try:
                version = ctypes.CDLL(str(path)).spotps_abi()
                if version >= ABI:  # a later one says itself whether it takes this package
                    return Library(path), ""
            except (OSError, AttributeError) as error:
                return None, f"{path} can't be loaded: {error}"
            return None, (
                f"{path} has version {version} of the interface, and this package needs {ABI}; "
                "install both from the same release"
            )
    places = ", ".join(str(path) for path in tried)
    return None, (
        f"there is no libspotps.so at {places}; set SPOTPS_LIBRARY to the one of your spotps "
        "installation or build"
    )
