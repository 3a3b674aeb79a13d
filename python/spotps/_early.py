"""Gradients that are handed over while backward goes on."""

from typing import Callable, Dict, List, Tuple

import torch

from spotps._client import Error
from spotps._model import ModelTensor


class EarlyGradients:
    """Calls `send(number)` as soon as backward has made the gradient of tensor `number`, and finds
    out if anybody changes it afterwards: the servers have it then as it was.

    may_send    whether this backward makes the whole gradient of a step
    """

    def __init__(
        self,
        tensors: List[ModelTensor],
        may_send: Callable[[], bool],
        send: Callable[[int], None],
    ) -> None:
        self._tensors = tensors
        self._may_send = may_send
        self._send = send
        self._sent: Dict[int, Tuple[torch.Tensor, int]] = {}  # the gradient, its version
        for number, item in enumerate(tensors):
            if item.rate > 0:
                continue  # a buffer
            parameter = item.tensor
            if not hasattr(parameter, "register_post_accumulate_grad_hook"):
                raise Error(
                    f"overlap_backward needs PyTorch 2.1 or newer, and this is {torch.__version__}; "
                    "leave it out"
                )
            parameter.register_post_accumulate_grad_hook(lambda _, n=number: self._on_gradient(n))

    def has_sent(self, number: int) -> bool:
        return number in self._sent

    @property
    def is_any_sent(self) -> bool:
        return bool(self._sent)

    def _on_gradient(self, number: int) -> None:
        if not self._may_send():
            return
        item = self._tensors[number]
        if number in self._sent:
            raise Error(
                f"a second backward() in one step adds to the gradient of {item.name}, which the "
                "servers have already; add the losses before one backward(), or leave "
                "overlap_backward out of spotps.Worker"
            )
        self._send(number)
        gradient = item.tensor.grad
        assert gradient is not None
        self._sent[number] = (gradient, gradient._version)

    def end_step(self) -> None:
        """Before the next backward. Raises Error if the servers have other gradients than the
        script."""
        sent, self._sent = self._sent, {}
        for number, (gradient, version) in sent.items():
            item = self._tensors[number]
            if item.tensor.grad is not gradient or gradient._version != version:
                raise Error(
                    f"the gradient of {item.name} has changed since backward made it, and the "
                    "servers have it as it was; leave overlap_backward out of spotps.Worker where "
                    "gradients are clipped or scaled (the servers cut them by optimizer.clip_value "
                    "of the job)"
                )
