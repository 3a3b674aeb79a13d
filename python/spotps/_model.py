"""What a PyTorch model is for the job's servers."""

import sys
from typing import Dict, List

import torch

from spotps._client import Error

_BATCH_NORMS = (torch.nn.modules.batchnorm._BatchNorm,)  # also InstanceNorm's statistics
_WRAPPERS = ("DistributedDataParallel", "FullyShardedDataParallel", "DataParallel")


class ModelTensor:
    """A tensor of the model: where it is, and what is pushed for it."""

    def __init__(
        self, name: str, tensor: torch.Tensor, rate: float, decays: bool, is_frozen: bool = False
    ) -> None:
        self.name = name
        self.tensor = tensor
        self.rate = rate  # 0: its gradient is pushed; else an observation is averaged
        self.decays = decays
        self.is_frozen = is_frozen  # nothing is pushed or pulled


def _plain(name: str) -> str:
    return name.replace("_orig_mod.", "")  # of torch.compile


def tensors_of(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, accumulate: int = 1
) -> List[ModelTensor]:
    """In the order of the model. Tied tensors count once. `accumulate`: forward passes between two
    pushes, each of which moves a running statistic."""
    for module in model.modules():
        name = type(module).__name__
        if name in _WRAPPERS or name.startswith("FSDP"):
            raise Error(
                f"the model is wrapped in {name}, which spreads it over processes by itself; give "
                "spotps.Worker the plain model, one a process"
            )
    trained: Dict[int, bool] = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            trained[id(parameter)] = group.get("weight_decay", 0) > 0
    tensors: List[ModelTensor] = []
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad or id(parameter) not in trained:
            tensors.append(ModelTensor(_plain(name), parameter, 0.0, False, is_frozen=True))
        else:
            tensors.append(ModelTensor(_plain(name), parameter, 0.0, trained[id(parameter)]))
    known = {id(item.tensor) for item in tensors}
    if any(key not in known for key in trained):
        raise Error(
            "the optimizer has parameters that the model doesn't; make it of model.parameters()"
        )
    momenta: Dict[int, float] = {}
    for module in model.modules():
        if isinstance(module, _BATCH_NORMS):
            for buffer in module.buffers(recurse=False):
                # Without a momentum it is a mean over all batches; at 0 it stays as it is.
                momenta[id(buffer)] = 0.1 if module.momentum is None else float(module.momentum)
    kept = {_plain(name) for name in model.state_dict()}
    for name, buffer in model.named_buffers():
        name = _plain(name)
        if name not in kept or name.endswith("num_batches_tracked"):
            continue  # the module makes it again
        if buffer.dtype != torch.float32:
            print(
                f"spotps: buffer {name} is {buffer.dtype} and stays on each worker", file=sys.stderr
            )
            continue
        if not torch.isfinite(buffer).all():
            raise Error(
                f"buffer {name} has values that are infinite or not a number, as masks have; where "
                "it is a constant, register_buffer(..., persistent=False) keeps it on the worker and "
                "out of the model file"
            )
        rate = 1 - (1 - momenta.get(id(buffer), 1.0)) ** accumulate
        tensors.append(ModelTensor(name, buffer, rate, False, is_frozen=rate == 0))
    for item in tensors:
        _check(item)
    _check_memory(tensors)
    return tensors


class Untrained:
    """What the servers don't have: parameters that were frozen when the model was declared. Nobody
    but this worker would see it if they were trained."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        frozen: List[ModelTensor],
    ) -> None:
        self._model = model
        self._trained = self._ids(optimizer)
        # Batch norms write their statistics also where a momentum of 0 leaves them as they are, and
        # an embedding with max_norm scales the rows that it reads.
        scaled = {
            id(module.weight)
            for module in model.modules()
            if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag))
            and module.max_norm is not None
        }
        self._frozen = [
            (item, item.tensor._version)
            for item in frozen
            if isinstance(item.tensor, torch.nn.Parameter) and id(item.tensor) not in scaled
        ]

    @staticmethod
    def _ids(optimizer: torch.optim.Optimizer) -> List[int]:
        return [id(p) for group in optimizer.param_groups for p in group["params"]]

    def check(self, optimizer: torch.optim.Optimizer) -> None:
        """Raises Error with the name of the first parameter that is trained here alone."""
        now = self._ids(optimizer)
        if now != self._trained:
            self._refuse(now)
        for item, version in self._frozen:
            if item.tensor._version != version:
                raise Error(
                    f"{item.name} was frozen or not in the optimizer of spotps.Worker when the loop "
                    "began, and has changed since, on this worker alone; put all that is trained "
                    "into that one optimizer, with requires_grad on, before spotps.Worker, and make "
                    "averages of parameters, such as a teacher's, buffers"
                )

    def _refuse(self, now: List[int]) -> None:
        names = {id(parameter): _plain(name) for name, parameter in self._model.named_parameters()}
        odd = next(iter(set(now) ^ set(self._trained)), None)
        name = "their order" if odd is None else names.get(odd, "one that the model doesn't have")
        raise Error(
            f"the optimizer's parameters have changed since spotps.Worker was made ({name}), which "
            "the servers know nothing of; add all parameters to it before"
        )


def _check(item: ModelTensor) -> None:
    tensor = item.tensor
    if type(tensor).__name__ == "DTensor" or hasattr(tensor, "placements"):
        raise Error(
            f"{item.name} is a DTensor, spread over processes; spotps takes whole tensors, one "
            "model a process"
        )
    if tensor.dtype != torch.float32:
        raise Error(
            f"{item.name} is {tensor.dtype}; spotps takes float32 parameters (autocast may compute "
            "in less)"
        )
    if tensor.layout != torch.strided or tensor.device.type not in ("cpu", "cuda"):
        raise Error(
            f"{item.name} is {tensor.layout} on {tensor.device}; spotps takes dense tensors on a "
            "CPU or a CUDA device"
        )
    if tensor.numel() == 0:
        raise Error(f"{item.name} has no elements; leave it out of the model")


def _check_memory(tensors: List[ModelTensor]) -> None:
    """Each element is one tensor's, though several may be parts of one storage."""
    of_storage: Dict[int, List[ModelTensor]] = {}
    for item in tensors:
        of_storage.setdefault(item.tensor.untyped_storage().data_ptr(), []).append(item)
    for items in of_storage.values():
        if len(items) == 1:
            continue
        size = items[0].tensor.untyped_storage().nbytes() // items[0].tensor.element_size()
        owner = torch.zeros(size, dtype=torch.int32)
        for number, item in enumerate(items, 1):
            tensor = item.tensor
            own = owner.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
            taken = int(own.max())
            if taken > 0:
                raise Error(
                    f"{item.name} and {items[taken - 1].name} share memory and are two tensors to "
                    "the servers; tie them as one Parameter (b.weight = a.weight), or copy one"
                )
            own.fill_(number)
