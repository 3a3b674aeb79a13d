"""What a worker's process has for itself, and no server or checkpoint does."""

import random
import sys
from typing import Any, Dict

import torch

from spotps._client import Error

_PARTS = ("optimizer", "random")


def state_of(optimizer: torch.optim.Optimizer) -> Dict[str, Any]:
    """Nothing in it but what torch.load reads with weights_only."""
    return {"optimizer": optimizer.state_dict(), "random": _random()}


def load_state(optimizer: torch.optim.Optimizer, state: Dict[str, Any]) -> None:
    """Of an optimizer with the same parameters, whose rate and other settings stay. Generators of
    packages that are not there, and of devices, are passed over. Raises Error: it is no such
    state."""
    missing = [part for part in _PARTS if part not in state]
    if missing:
        raise Error(f"the state has no {missing[0]!r}; give what worker.state_dict() has made")
    saved, own = state["optimizer"], optimizer.state_dict()
    parameters = [[group["params"] for group in of["param_groups"]] for of in (saved, own)]
    if parameters[0] != parameters[1]:
        raise Error("the state is of another optimizer: its groups have other parameters")
    try:
        # Rates and the like are the script's, which may have changed since.
        optimizer.load_state_dict({**saved, "param_groups": own["param_groups"]})
    except (KeyError, ValueError) as error:
        raise Error(f"the state is of another optimizer: {error}") from error
    try:
        _set_random(state["random"])
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        raise Error(f"the random generators can't be set to those of the state: {error}") from error


def _random() -> Dict[str, Any]:
    found: Dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        found["cuda"] = torch.cuda.get_rng_state_all()
    numpy = sys.modules.get("numpy")  # who draws with it has imported it
    if numpy is not None:
        kind, keys, *rest = numpy.random.get_state()
        found["numpy"] = (kind, keys.tolist(), *rest)
    return found


def _set_random(found: Dict[str, Any]) -> None:
    version, words, gauss = found["python"]
    random.setstate((version, tuple(words), gauss))
    torch.set_rng_state(found["torch"].cpu())  # torch.load may have put it on a device
    cuda = [state.cpu() for state in found.get("cuda", [])]
    if len(cuda) > 0 and torch.cuda.is_available() and len(cuda) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(cuda)
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy" in found:
        kind, keys, *rest = found["numpy"]
        numpy.random.set_state((kind, numpy.array(keys, dtype=numpy.uint32), *rest))
