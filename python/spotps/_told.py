"""What the script tells of its batches, as the job's servers want it: sums over samples."""

from typing import Any, List, Tuple

import torch

from spotps._client import Error


class Told:
    """A mean over samples. A script may tell it for some batches only: others, also whole steps,
    are taken to be as the last that were told."""

    def __init__(self) -> None:
        self._told: List[Tuple[Any, int]] = []  # of the step in hand: value, samples
        self._mean = 0.0  # of the last step that told any
        self.has_any = False  # in any step so far

    def add(self, value: Any, samples: int) -> None:
        """`value`: a number, or a tensor, which is not waited for."""
        self._told.append((value, samples))
        self.has_any = True

    def clear(self) -> None:
        self._told.clear()

    def sum_over(self, samples: int) -> float:
        """Ends the step, which had so many samples."""
        if self._told:
            weight = sum(count for _, count in self._told)
            self._mean = sum(float(value) * count for value, count in self._told) / weight
            self._told.clear()
        return self._mean * samples


def number_of(loss: Any) -> Any:
    """A number, or a tensor without its graph. Raises Error: it is neither."""
    if isinstance(loss, torch.Tensor):
        if loss.numel() != 1:
            raise Error(
                f"worker.log has a loss of shape {list(loss.shape)}; give the mean over the samples"
            )
        return loss.detach()
    return float(loss)
