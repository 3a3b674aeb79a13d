"""The script's optimizer as the job's servers have it."""

from typing import Any, Dict, Optional

import torch


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
        if any(
            other.get(key) != group.get(key)
            for key in ("lr", "momentum", "betas", "eps", "alpha", "nesterov")
        ):
            return None
    decay = max(g.get("weight_decay", 0) for g in optimizer.param_groups)
    kind = type(optimizer).__name__.lower()
    if group.get("amsgrad") or group.get("maximize") or group.get("centered"):
        return None
    out: Dict[str, Any] = {"kind": kind, "lr": float(group["lr"])}
    if kind == "sgd":
        if group["dampening"] != 0:
            return None
        out.update(momentum=group["momentum"], nesterov=group["nesterov"], weight_decay=decay)
    elif kind in ("adam", "adamw"):
        beta1, beta2 = group["betas"]
        out.update(beta1=beta1, beta2=beta2, epsilon=group["eps"], weight_decay=decay)
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
