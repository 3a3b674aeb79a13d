"""The script's optimizer as the job's servers have it, and whether it stays so."""

import sys
from typing import Any, Dict, Optional

import torch

from spotps._client import Error

_REMEDY = (
    "say it in the job file (optimizer.schedule, by the job's progress), or train with local steps, "
    "with which PyTorch's optimizer and its schedulers work on each worker"
)

# What groups may differ in: each tensor says whether it decays, and the rest is how PyTorch computes.
_FREE = {
    "params", "param_names", "weight_decay", "foreach", "fused", "capturable", "differentiable",
}  # fmt: skip


# What a script may want to change while it trains. Other values of a group may be an optimizer's own.
_LOOKED_AT = ("lr", "momentum", "betas", "eps", "alpha", "weight_decay")


def has_scheduler(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a scheduler of PyTorch is attached: it wraps step. `initial_lr` in a group would not
    do, since an optimizer's state_dict brings that along from an earlier run."""
    step = optimizer.step
    return hasattr(step, "_wrapped_by_lr_sched") or hasattr(step, "_with_counter")  # before 2.4


class Settings:
    """What an optimizer had been made with, in each of its groups. The servers step by the job's
    optimizer, which knows of no change."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._groups = [self._of(group) for group in optimizer.param_groups]
        self._has_told = False

    @staticmethod
    def _of(group: Dict[str, Any]) -> Dict[str, Any]:
        found: Dict[str, Any] = {}
        for name in _LOOKED_AT:
            value = group.get(name)
            if isinstance(value, torch.Tensor):
                found[name] = (id(value), value._version)
            else:
                found[name] = value
        return found

    def check(self, optimizer: torch.optim.Optimizer, job_has_schedule: bool) -> None:
        """Raises Error if the script changes them, or is about to, and the job has no schedule in
        its place."""
        why = self._change(optimizer)
        if why is None or self._has_told:
            return
        if not job_has_schedule:
            raise Error(f"{why}, and the servers, which step, do not know of it; {_REMEDY}")
        self._has_told = True
        print(f"spotps: {why}; the servers go by optimizer.schedule of the job", file=sys.stderr)

    def _change(self, optimizer: torch.optim.Optimizer) -> Optional[str]:
        if has_scheduler(optimizer):
            return "a scheduler of PyTorch changes the optimizer's lr"
        for number, group in enumerate(optimizer.param_groups):
            if number >= len(self._groups):
                return None  # another check's
            before, now = self._groups[number], self._of(group)
            for name in before:
                if now.get(name) != before[name]:
                    return f"the script has changed {name} of the optimizer's group {number}"
        return None


def tell_dropped_state(optimizer: torch.optim.Optimizer) -> None:
    """Where the servers step: says that the moments which the script has loaded are not used."""
    # Adagrad has some when it is made.
    if any(float(state.get("step", 1)) > 0 for state in optimizer.state.values() if state):
        print(
            "spotps: the optimizer's state (optimizer.load_state_dict, or steps before the loop) is "
            "not used: without local steps the servers step, and their moments begin at 0",
            file=sys.stderr,
        )


def scaled_by(optimizer: torch.optim.Optimizer) -> float:
    """What the gradients of this step have to be multiplied by, 0 where it is to be left out: a
    GradScaler leaves both to optimizers that are fused."""
    if float(getattr(optimizer, "found_inf", None) or 0) != 0:
        return 0.0
    scale = getattr(optimizer, "grad_scale", None)
    return 1.0 if scale is None else 1 / float(scale)


def optimizer_of(optimizer: torch.optim.Optimizer) -> Optional[Dict[str, Any]]:
    """As the job file has it; None: the servers have none like it."""
    group = optimizer.param_groups[0]
    for other in optimizer.param_groups[1:]:
        if any(other.get(key) != group.get(key) for key in {*optimizer.defaults} - _FREE):
            return None
    decays = {float(g["weight_decay"]) for g in optimizer.param_groups if g.get("weight_decay")}
    if len(decays) > 1:
        return None
    decay = max(decays, default=0.0)
    kind = type(optimizer).__name__.lower()
    if not type(optimizer).__module__.startswith("torch.optim"):
        return None  # somebody else's of the same name may step otherwise
    if group.get("amsgrad") or group.get("maximize") or group.get("centered"):
        return None
    if has_scheduler(optimizer):
        return None  # lr is what its first step has
    if kind == "adam" and group.get("decoupled_weight_decay"):
        kind = "adamw"
    out: Dict[str, Any] = {"kind": kind, "lr": float(group["lr"])}
    if kind == "sgd":
        if group["dampening"] != 0:
            return None
        out.update(momentum=group["momentum"], nesterov=group["nesterov"], weight_decay=decay)
    elif kind in ("adam", "adamw"):
        beta1, beta2 = group["betas"]
        out.update(beta1=float(beta1), beta2=float(beta2), epsilon=group["eps"], weight_decay=decay)
    elif kind == "rmsprop":
        out.update(
            alpha=group["alpha"],
            momentum=group["momentum"],
            epsilon=group["eps"],
            weight_decay=decay,
        )
    elif kind == "adagrad":
        if group["lr_decay"] != 0 or group["initial_accumulator_value"] != 0 or decay != 0:
            return None
        out.update(epsilon=group["eps"])
    else:
        return None
    for key in ("momentum", "nesterov", "weight_decay"):
        if not out.get(key):
            out.pop(key, None)  # the job's own default, where its kind has the field at all
    return out
