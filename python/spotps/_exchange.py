"""The values of a model's tensors from the servers, and what is pushed for them."""

from typing import List, Optional

import torch

from spotps._client import Client
from spotps._early import EarlyGradients
from spotps._model import ModelTensor
from spotps._places import Places
from spotps._written import Written


class Exchange:
    """Copies between the model's tensors and the memory of the client's task in hand."""

    def __init__(
        self,
        client: Client,
        model: torch.nn.Module,
        tensors: List[ModelTensor],
        early: Optional[EarlyGradients],
    ) -> None:
        self._client = client
        self._tensors = tensors
        self._places = Places(model, tensors)
        self._written = Written(tensors)
        self._early = early

    def declare(self, frozen: List[ModelTensor]) -> None:
        """The tensors, and `frozen` ones besides, with their first values."""
        self._places.update()
        first = []  # lives until the first next()
        for item in self._tensors + frozen:
            shape = list(item.tensor.shape)
            is_read = item.kept_as is None or item.is_compared or self._client.is_describing
            values = item.tensor.detach().cpu().contiguous() if is_read else torch.empty(0)
            first.append(values)
            if item.kept_as is not None:
                self._client.declare_kept(
                    item.name,
                    item.kept_as,
                    shape,
                    values.data_ptr(),
                    is_counter=item.is_counter,
                    is_compared=item.is_compared,
                )
            elif item.is_frozen:
                self._client.declare_frozen(item.name, shape, values.data_ptr())
            else:
                self._client.declare(
                    item.name,
                    shape,
                    values.data_ptr(),
                    average_rate=item.rate,
                    decays=item.decays,
                )
            for alias in item.aliases:
                self._client.declare_alias(alias, item.name)
        self._client._keep.append(first)

    @torch.no_grad()
    def take_values(self) -> None:
        self._places.update()
        for number, item in enumerate(self._tensors):
            item.tensor.copy_(self._values(number))
        self._written.note()

    @torch.no_grad()
    def check_written(self) -> None:
        """Raises Error if trained values are others than take_values has made them."""
        self._written.check(self._values)

    def push_gradients(self, factor: float = 1.0) -> None:
        """`factor`: of the gradients; 0: zeros, whatever they are."""
        self._places.update()
        for number in range(len(self._tensors)):
            if self._early is None or not self._early.has_sent(number):
                self.push_gradient(number, factor)
        if self._early is not None:
            self._early.end_step()

    @torch.no_grad()
    def push_gradient(self, number: int, factor: float = 1.0) -> None:
        item = self._tensors[number]
        out = self._pushed(number)
        if item.rate > 0:
            self._observe(number, item.rate)
        elif factor == 0 or item.tensor.grad is None:
            out.zero_()
        else:
            gradient = item.tensor.grad
            out.copy_(gradient.to_dense() if gradient.is_sparse else gradient)
            if factor != 1:
                out.mul_(factor)
        self._client.ready(number)

    @torch.no_grad()
    def push_difference(self, batches: int) -> None:
        """What local steps have changed, in so many forward passes."""
        self._places.update()
        for number, item in enumerate(self._tensors):
            if item.rate > 0:
                self._observe(number, 1 - (1 - item.rate) ** batches)
                continue
            out = self._pushed(number)
            out.copy_(item.tensor)
            torch.sub(self._values(number), out, out=out)

    def _observe(self, number: int, rate: float) -> None:
        """Pushes what moves the servers' value, where this worker's began, to where it is: value +=
        rate * (observation - value)."""
        out = self._pushed(number)
        out.copy_(self._tensors[number].tensor)
        if rate < 1:
            old = self._values(number)
            out.sub_(old).div_(rate).add_(old)

    def _values(self, number: int) -> torch.Tensor:
        values = torch.frombuffer(self._client.values(number), dtype=torch.float32)
        return values.view(self._tensors[number].tensor.shape)

    def _pushed(self, number: int) -> torch.Tensor:
        memory = torch.frombuffer(self._client.gradient(number), dtype=torch.float32)
        return memory.view(self._tensors[number].tensor.shape)
