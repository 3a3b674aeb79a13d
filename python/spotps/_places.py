"""Where a model has its tensors: scripts put others there."""

from typing import Any, Dict, List, Tuple

import torch

from spotps._client import Error
from spotps._model import ModelTensor, check_tensor, plain_name

Place = Tuple[Dict[str, Any], str]  # a module's parameters or buffers, the name there


class Places:
    """Follows buffers that the script assigns (`self.mean = ...`) or that model.to() makes anew, and
    refuses parameters that are no longer the model's."""

    def __init__(self, model: torch.nn.Module, tensors: List[ModelTensor]) -> None:
        self._model = model
        self._tensors = tensors
        self._note()

    def _note(self) -> None:
        found: Dict[str, Place] = {}
        self._children = []
        for path, module in self._model.named_modules(remove_duplicate=False):
            for tensors in (module._parameters, module._buffers):
                for key in tensors:
                    found[plain_name(f"{path}.{key}" if path else key)] = (tensors, key)
            for key, child in module._modules.items():
                self._children.append((module._modules, key, child))
        nowhere: Place = ({}, "")
        self._places = [found.get(item.name, nowhere) for item in self._tensors]

    def update(self) -> None:
        """Each tensor is that which the model has now. Raises Error, by its name."""
        if any(modules.get(key) is not child for modules, key, child in self._children):
            self._note()
        for item, (tensors, key) in zip(self._tensors, self._places):
            now = tensors.get(key)
            if now is item.tensor:
                continue
            if isinstance(item.tensor, torch.nn.Parameter):
                self._find(item)
            else:
                _replace(item, tensors, key)

    def _find(self, item: ModelTensor) -> None:
        """Under another name, as pruning gives one, it is still trained."""
        if not any(parameter is item.tensor for parameter in self._model.parameters()):
            raise Error(
                f"{item.name} is no longer in the model: the script has put something else in its "
                "place, which the servers know nothing of; change the model before its optimizer "
                "and spotps.Worker are made"
            )


def _replace(item: ModelTensor, tensors: Dict[str, Any], key: str) -> None:
    now = tensors.get(key)
    before = item.tensor
    if now is None:
        raise Error(f"buffer {item.name} is no longer in the model; leave it there while it trains")
    if now.shape != before.shape or now.dtype != before.dtype:
        raise Error(
            f"buffer {item.name} was {before.dtype} of shape {list(before.shape)} when the job "
            f"began and is {now.dtype} of shape {list(now.shape)} now; the servers average it, so it "
            "has to stay as it was, or be registered with persistent=False"
        )
    size = now.numel() * now.element_size()
    if now.layout == torch.strided and now.untyped_storage().nbytes() != size:
        # A view of something else, as of a batch: values of the servers are not written there.
        now = tensors[key] = now.detach().clone()
    item.tensor = now
    check_tensor(item)
