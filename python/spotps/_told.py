"""What the script tells of its batches, as the job's servers want it: sums over samples."""

import sys
from typing import Any, Dict, List, Tuple

import torch

from spotps._client import Client, Error


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


def tell_without_loss(job: Dict[str, Any]) -> None:
    """After a first step that told no loss. Raises Error: the job waits for one."""
    if job["run"]["stop_at_loss"] > 0 or job["goal"]["loss"] > 0:
        raise Error(
            "the job waits for a loss (run.stop_at_loss or goal.loss), and the script doesn't tell "
            "any for its first batch; add worker.log(loss=loss) to its loop, where the first batch "
            "comes by as well"
        )
    print(
        "spotps: no worker.log(loss=...) for the first batch: psctl shows loss 0 until there is one, "
        "and nobody notices when training diverges",
        file=sys.stderr,
    )


class Figures:
    """Numbers go to psctl, what is none to the worker's log. None ends the training."""

    def __init__(self) -> None:
        self._has_told = False

    def tell(self, client: Client, figures: Dict[str, Any]) -> None:
        texts = []
        for key, value in figures.items():
            try:
                client.figure(key, float(value))
            except (TypeError, ValueError):
                texts.append(f"{key}={value}")
            except Error as error:  # a name too many, or too long
                self._tell_once(error)
        if texts:
            client.log("script_figures", " ".join(texts))

    def _tell_once(self, error: Error) -> None:
        if not self._has_told:
            self._has_told = True
            print(f"spotps: worker.log passes over a figure: {error}", file=sys.stderr)
