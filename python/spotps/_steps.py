"""The script's optimizer.step(), where it may be the servers' step."""

from typing import Any, List, Optional, Tuple

import torch

from spotps._client import Error, Task
from spotps._early import EarlyGradients
from spotps._exchange import Exchange
from spotps._left_out import Noted, check_left_out, note_gradients
from spotps._model import ModelTensor
from spotps._optimizer import Settings, scaled_by


class Steps:
    """Hands the gradients over instead of a step, where a job has no local steps; else, and without
    a job, the step is the optimizer's own. Errors: each step of the script that the servers would
    not follow."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, tensors: List[ModelTensor], accumulate: int
    ) -> None:
        self._tensors = tensors
        self._accumulate = accumulate
        self._settings = Settings(optimizer)
        self._exchange: Optional[Exchange] = None
        self._early: Optional[EarlyGradients] = None
        self._task: Optional[Task] = None
        self._stashed: List[Tuple[torch.Tensor, torch.Tensor]] = []
        self._made = 0  # of the task in hand
        self._gradients: Noted = []  # when it began
        self.has_made_any = False
        self.has_schedule = False  # of the job
        self.batches_left = 0  # of the step in hand, after the batch that the script has
        self.is_over = False  # the job
        optimizer.register_step_pre_hook(self._before)
        optimizer.register_step_post_hook(self._after)

    def join(self, exchange: Exchange, early: Optional[EarlyGradients]) -> None:
        """There is a job."""
        self._exchange = exchange
        self._early = early

    def declare(self, optimizer: torch.optim.Optimizer) -> None:
        """Its settings are told to the job, and have to stay so."""
        self._settings = Settings(optimizer)

    def begin(self, task: Task) -> None:
        self._task = task
        self._made = 0
        self._gradients = note_gradients(self._tensors)

    def may_send_early(self) -> bool:
        """Whether a backward now makes the gradient of a whole step."""
        return self._is_remote() and self.batches_left == 0 and self._made == 0

    def finish(self) -> None:
        """The batches of a task without local steps are done."""
        exchange = self._exchange
        assert exchange is not None
        exchange.check_written()
        if self._made > 0:
            return
        # A GradScaler has left the step out, or the script has: its samples count all the same.
        check_left_out(self._tensors, self._gradients)
        if self._early is not None and self._early.is_any_sent:
            raise Error(
                "a batch without optimizer.step(), and the servers have its gradients already; "
                "leave overlap_backward out of spotps.Worker where steps are left out"
            )
        exchange.push_gradients(factor=0)

    def _is_remote(self) -> bool:
        task = self._task
        is_training = task is not None and not task.is_evaluation and not task.is_local
        return self._exchange is not None and is_training

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._exchange is None or self.is_over:
            return
        if self._task is None:
            raise Error("optimizer.step() comes after the first batch of worker.loader")
        given = [kwargs.get("closure"), *args]  # args may begin with the optimizer itself
        if any(item is not None and item is not optimizer for item in given):
            raise Error(
                "optimizer.step has a closure, which would compute the loss several times for one "
                "batch; use an optimizer without one"
            )
        if not self._is_remote():
            return
        if self._made > 0:
            raise Error("a second optimizer.step() for one batch; one step a batch")
        if self.batches_left > 0:
            raise Error(
                f"optimizer.step() came {self.batches_left} batches too early; call it after every "
                f"{self._accumulate} batches (accumulate of spotps.Worker)"
            )
        self._settings.check(optimizer, self.has_schedule)
        factor = scaled_by(optimizer)
        if factor != 1 and self._early is not None and self._early.is_any_sent:
            raise Error(
                "a GradScaler has scaled the gradients, and the servers have them so; leave "
                "overlap_backward out of spotps.Worker"
            )
        self._exchange.push_gradients(factor)
        # Without gradients the optimizer changes nothing: the servers do.
        for item in self._tensors:
            if item.rate == 0 and item.tensor.grad is not None:
                self._stashed.append((item.tensor, item.tensor.grad))
                item.tensor.grad = None

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        for parameter, gradient in self._stashed:
            parameter.grad = gradient
        self._stashed.clear()
        self._made += 1
        self.has_made_any = True
