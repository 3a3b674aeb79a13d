"""What a PyTorch model is for the job's servers."""

import sys
from typing import Dict, List, Optional, Tuple

import torch

from spotps._client import Error

_BATCH_NORMS = (torch.nn.modules.batchnorm._BatchNorm,)  # also InstanceNorm's statistics
_ELEMENTS = {
    getattr(torch, name): element
    for name, element in (
        ("float64", "F64"),
        ("float32", "F32"),
        ("float16", "F16"),
        ("bfloat16", "BF16"),
        ("int64", "I64"),
        ("int32", "I32"),
        ("int16", "I16"),
        ("int8", "I8"),
        ("uint64", "U64"),  # this and the next two from PyTorch 2.3 on
        ("uint32", "U32"),
        ("uint16", "U16"),
        ("uint8", "U8"),
        ("bool", "BOOL"),
    )
    if hasattr(torch, name)
}
_KEEP_OUT = ", or keep it out of the model file by register_buffer(..., persistent=False)"
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
        self.aliases: List[str] = []  # more of its names in a state_dict
        self.kept_as: Optional[str] = None  # its element's type, where it is for the file alone
        self.is_counter = False
        self.is_compared = False  # kept, and the same on all workers

    def is_constant(self) -> bool:
        """Nobody would see it if it changed."""
        is_infinite = self.kept_as == "F32"  # or it would be a tensor of the servers
        return self.is_frozen and (isinstance(self.tensor, torch.nn.Parameter) or is_infinite)


def _keep(item: ModelTensor) -> None:
    """The model file has what it is when the job begins. Each worker has its own, unless it is a
    parameter."""
    item.is_frozen = True
    item.kept_as = _ELEMENTS[item.tensor.dtype]
    item.is_compared = isinstance(item.tensor, torch.nn.Parameter)
    is_one_number = not item.tensor.is_floating_point() and item.tensor.numel() == 1
    item.is_counter = is_one_number and not item.is_compared


def kept_of(tensors: List[ModelTensor]) -> List[Tuple[ModelTensor, int]]:
    """What the model file has as it is now, with its version, by which tell_changed sees that it
    has changed."""
    return [
        (item, item.tensor._version)
        for item in tensors
        if item.kept_as is not None and not item.is_constant()
    ]


def tell_changed(model: torch.nn.Module, kept: List[Tuple[ModelTensor, int]]) -> None:
    """Says which buffers the model file has as they were, and this worker otherwise."""
    now = {plain_name(name): buffer for name, buffer in model.named_buffers()}
    changed = [
        item.name
        for item, version in kept
        if item.tensor._version != version or now.get(item.name) is not item.tensor
    ]
    if changed:
        more = len(changed) - 1
        others = f" and {more} more buffer{'s' if more > 1 else ''}" if more else ""
        print(
            f"spotps: the model file has {changed[0]}{others} as "
            f"{'they were' if more else 'it was'} when the job began, and not what the loop has "
            "made of it: only float32 buffers are in the file as they are at the end",
            file=sys.stderr,
        )


def plain_name(name: str) -> str:
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
    for name, value in (*model.named_parameters(), *model.named_buffers()):
        if torch.nn.parameter.is_lazy(value):
            raise Error(
                f"{plain_name(name)} has no shape yet (a lazy module); give the model one batch "
                "before the optimizer and spotps.Worker are made"
            )
    trained: Dict[int, bool] = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            trained[id(parameter)] = group.get("weight_decay", 0) > 0
    tensors: List[ModelTensor] = []
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad or id(parameter) not in trained:
            item = ModelTensor(plain_name(name), parameter, 0.0, False, is_frozen=True)
            if parameter.dtype != torch.float32 and parameter.dtype in _ELEMENTS:
                _keep(item)
            tensors.append(item)
        else:
            tensors.append(ModelTensor(plain_name(name), parameter, 0.0, trained[id(parameter)]))
    known = {id(item.tensor) for item in tensors}
    if any(key not in known for key in trained):
        raise Error(
            "the optimizer has parameters that the model doesn't; make it of model.parameters()"
        )
    momenta: Dict[int, float] = {}
    for module in model.modules():
        if isinstance(module, _BATCH_NORMS):
            if module.momentum is None and module.running_mean is not None:
                raise Error(
                    f"a {type(module).__name__} has momentum None: its statistics are means over all "
                    "batches, which no successor of a worker could go on with; give it a momentum, "
                    "such as 0.1"
                )
            for buffer in module.buffers(recurse=False):
                momenta[id(buffer)] = float(module.momentum or 0)  # at 0 it stays as it is
    named: Dict[str, torch.Tensor] = dict(model.named_parameters(remove_duplicate=False))
    named.update(model.named_buffers(remove_duplicate=False))
    names = list(model.state_dict())
    state = {plain_name(name): named[name] for name in names if name in named}
    if any(name.endswith("_extra_state") for name in names):
        print(
            "spotps: what get_extra_state gives is no tensor; it stays on each worker, and is not in "
            "the model file",
            file=sys.stderr,
        )
    found = {id(item.tensor) for item in tensors}
    for name, buffer in model.named_buffers(remove_duplicate=False):
        name = plain_name(name)
        if name in state and id(buffer) not in found:
            found.add(id(buffer))
            tensors += _of_buffer(name, buffer, momenta.get(id(buffer), 1.0), accumulate)
    _name(tensors, state)
    for item in tensors:
        check_tensor(item)
    _check_memory([item for item in tensors if item.kept_as is None])
    return tensors


def _of_buffer(
    name: str, buffer: torch.Tensor, momentum: float, accumulate: int
) -> List[ModelTensor]:
    """None where it can be in no file."""
    rate = 1 - (1 - momentum) ** accumulate
    shared = [ModelTensor(name, buffer, rate, False, is_frozen=rate == 0)]
    is_f32 = buffer.dtype == torch.float32
    if is_f32 and not _is_dense(buffer):
        return shared  # for check_tensor to refuse
    if is_f32 and buffer.numel() > 0 and torch.isfinite(buffer).all():
        return shared
    item = ModelTensor(name, buffer, 0.0, False, is_frozen=True)
    if buffer.dtype not in _ELEMENTS or not _is_dense(buffer):
        print(
            f"spotps: buffer {name} is {buffer.dtype}, {buffer.layout} on {buffer.device}, stays "
            "on each worker, and is not in the model file",
            file=sys.stderr,
        )
        return []
    if buffer.dtype != torch.float32 and buffer.is_floating_point():
        print(
            f"spotps: buffer {name} is {buffer.dtype} and stays on each worker; the model file has "
            "it as it is when the job begins",
            file=sys.stderr,
        )
    _keep(item)
    return [item]


def _name(tensors: List[ModelTensor], state: Dict[str, torch.Tensor]) -> None:
    """Finds the other names of tensors that a state_dict has several times."""
    by_tensor = {id(item.tensor): item for item in tensors}
    names = {item.name for item in tensors}
    for name, value in state.items():
        item = by_tensor.get(id(value))
        if item is not None and name not in names:
            item.aliases.append(name)


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
            if item.is_constant() and id(item.tensor) not in scaled
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
                if not isinstance(item.tensor, torch.nn.Parameter):
                    raise Error(
                        f"buffer {item.name} had values that are infinite or not a number when the "
                        "loop began, as masks have, and has changed since, on this worker alone; "
                        f"begin with finite ones{_KEEP_OUT}"
                    )
                raise Error(
                    f"{item.name} was frozen or not in the optimizer of spotps.Worker when the loop "
                    "began, and has changed since, on this worker alone; put all that is trained "
                    "into that one optimizer, with requires_grad on, before spotps.Worker, and make "
                    "averages of parameters, such as a teacher's, buffers"
                )

    def _refuse(self, now: List[int]) -> None:
        names = {id(value): plain_name(name) for name, value in self._model.named_parameters()}
        odd = next(iter(set(now) ^ set(self._trained)), None)
        name = "their order" if odd is None else names.get(odd, "one that the model doesn't have")
        raise Error(
            f"the optimizer's parameters have changed since spotps.Worker was made ({name}), which "
            "the servers know nothing of; add all parameters to it before"
        )


def _is_dense(tensor: torch.Tensor) -> bool:
    return tensor.layout == torch.strided and tensor.device.type in ("cpu", "cuda")


def check_tensor(item: ModelTensor) -> None:
    tensor = item.tensor
    if type(tensor).__name__ == "DTensor" or hasattr(tensor, "placements"):
        raise Error(
            f"{item.name} is a DTensor, spread over processes; spotps takes whole tensors, one "
            "model a process"
        )
    if tensor.dtype != torch.float32 and item.kept_as is None:
        raise Error(
            f"{item.name} is {tensor.dtype}; spotps takes float32 parameters (autocast may compute "
            "in less)"
        )
    if not _is_dense(tensor):
        remedy = "" if isinstance(tensor, torch.nn.Parameter) else _KEEP_OUT
        raise Error(
            f"{item.name} is {tensor.layout} on {tensor.device}; spotps takes dense tensors on a "
            f"CPU or a CUDA device{remedy}"
        )
    if tensor.numel() == 0 and item.kept_as is None:
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
