"""Batches without optimizer.step(), where the servers step."""

from typing import List, Optional

import torch

from spotps._client import Error
from spotps._model import ModelTensor


@torch.no_grad()
def check_left_out(tensors: List[ModelTensor]) -> None:
    """At the end of a step without optimizer.step(), which a GradScaler or the script has left out.
    Raises Error: the script keeps gradients to add them up by itself; they would never reach the
    servers."""
    gradients = [_values(item.tensor.grad) for item in tensors if item.rate == 0]
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
