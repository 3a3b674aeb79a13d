"""The script's evaluation of its model on parts of the test set."""

import sys
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Tuple

import torch

from spotps._client import Error
from spotps._data import Collate, collated


@contextmanager
def _eval_mode(model: torch.nn.Module) -> Iterator[None]:
    """Afterwards each module is in its own mode again: scripts keep some of them in eval. Modules
    that do more than to note their mode, such as adapters that merge weights, are told by train."""
    was_training = model.training
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)
        for module, is_training in modes:
            module.training = is_training


def _results_of(given: Any) -> Tuple[float, int]:
    try:
        loss, right = given
        return float(loss), int(right)
    except (TypeError, ValueError, RuntimeError) as error:
        raise Error(
            "the function of worker.evaluate has to give two numbers, the sum of the losses of its "
            f"samples and how many of them were right, and gives a {type(given).__name__}: {error}"
        ) from error


class Evaluation:
    """`function(*batch)` gives the sum of the losses of a batch, and how many were right."""

    def __init__(
        self,
        model: torch.nn.Module,
        function: Callable[..., Tuple[Any, Any]],
        dataset: Any,
        batch_size: int,
        collate: Collate,
    ) -> None:
        self._model = model
        self._function = function
        self._dataset = dataset
        self._batch_size = batch_size
        self._collate = collate

    def __len__(self) -> int:
        return len(self._dataset)

    def run(self, begin: int, end: int) -> Tuple[float, int]:
        """The sum of the losses of test samples [begin, end), and how many were right."""
        loss_sum, correct = 0.0, 0
        with _eval_mode(self._model), torch.no_grad():
            for at in range(begin, end, self._batch_size):
                samples = list(range(at, min(at + self._batch_size, end)))
                batch = collated(self._dataset, samples, self._collate)
                parts = batch if isinstance(batch, (list, tuple)) else (batch,)
                loss, right = _results_of(self._function(*parts))
                loss_sum += loss
                correct += right
        return loss_sum, correct

    def try_out(self) -> None:
        """On the first two samples, so that what is wrong with it is known before the job."""
        self.run(0, min(2, len(self)))

    def print_epoch(self, epoch: int) -> None:
        """Tells people what a script that trains by itself has come to."""
        loss_sum, correct = self.run(0, len(self))
        print(
            f"spotps: epoch {epoch + 1}: test loss {loss_sum / len(self):.4f}, "
            f"accuracy {correct / len(self):.4f}",
            file=sys.stderr,
        )
