"""Batches without optimizer.step(), where the servers step."""

from typing import List, Optional, Tuple

import torch

from spotps._client import Error
from spotps._model import ModelTensor

# For each tensor its gradient and the version of that.
Noted = List[Tuple[Optional[torch.Tensor], int]]


def note_gradients(tensors: List[ModelTensor]) -> Noted:
    gradients = [item.tensor.grad for item in tensors]
    return [(gradient, 0 if gradient is None else gradient._version) for gradient in gradients]


@torch.no_grad()
def check_left_out(tensors: List[ModelTensor], before: Noted) -> None:
    """At the end of a step without optimizer.step(), which a GradScaler or the script has left out.
    `before`: when it began; what is as it was then is of an earlier step. Raises Error: the script
    keeps gradients to add them up by itself; they would never reach the servers."""
    gradients = [
        _values(now)
        for item, (now, version), (was, before_version) in zip(
            tensors, note_gradients(tensors), before
        )
        if item.rate == 0 and not (now is was and version == before_version)
    ]
    is_finite = all(bool(torch.isfinite(values).all()) for values in gradients)
    if is_finite and any(bool(values.any()) for values in gradients):
        raise Error(
            "a batch without optimizer.step(), with gradients that are finite: each batch is a step "
            "of the job. To add gradients up over four batches, say accumulate=4 to spotps.Worker; "
            "to leave a step out, call optimizer.zero_grad()"
        )


def _values(gradient: Optional[torch.Tensor]) -> torch.Tensor:
    if gradient is None:
        return torch.zeros(0)
    return gradient.coalesce().values() if gradient.is_sparse else gradient
