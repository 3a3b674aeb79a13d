"""What a script does to trained values besides its steps, where the servers step."""

from typing import Callable, List

import torch

from spotps._client import Error
from spotps._model import ModelTensor

_FIRST_STEPS = 3  # all values are compared: what is written by .data has no new version
_EVERY = 100  # steps, afterwards
# Whoever adds something and takes it away again, as SAM does, leaves roundings.
_RELATIVE = 1e-5
_ABSOLUTE = 1e-7


class Written:
    """Compares values at the end of a step with those that the servers have."""

    def __init__(self, tensors: List[ModelTensor]) -> None:
        self._trained = [(n, item) for n, item in enumerate(tensors) if item.rate == 0]
        self._versions = [0] * len(self._trained)
        self._steps = 0

    def note(self) -> None:
        """They are as the servers have them."""
        self._versions = [item.tensor._version for _, item in self._trained]

    def check(self, values: Callable[[int], torch.Tensor]) -> None:
        """`values`: the servers', by the tensor's number. Raises Error, by the first one's name."""
        self._steps += 1
        is_all = self._steps <= _FIRST_STEPS or self._steps % _EVERY == 0
        for (number, item), version in zip(self._trained, self._versions):
            if is_all or item.tensor._version != version:
                _compare(item, values(number))


def _compare(item: ModelTensor, before: torch.Tensor) -> None:
    now = item.tensor.detach().to(before.device)
    if torch.equal(now, before):
        return
    largest = float(before.abs().max())
    most = float((now - before).abs().max())
    if not most <= _RELATIVE * largest + _ABSOLUTE and largest == largest:
        raise Error(
            f"the script changes {item.name} itself (by a clamp, a projection, max_norm, a second "
            "optimizer), and the servers, which have its values, do not know of it; use local steps "
            "(spotps.Worker(..., local_steps=10)), with which what it has become is handed over"
        )
