"""PyTorch scripts as workers of a spotps job.

    import spotps
    worker = spotps.Worker(model, optimizer)
    for x, y in worker.loader(dataset):
        loss = loss_function(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        worker.log(loss=loss)

`psctl train` starts such a script as the job's `worker.program`; without a job in the environment
it trains by itself. `Client` is what `Worker` is made of, for programs without PyTorch.
"""

from typing import TYPE_CHECKING, Any

from spotps._client import Client, Error, Task

if TYPE_CHECKING:
    from spotps._data import Range
    from spotps._worker import Worker

__all__ = ["Client", "Error", "Range", "Task", "Worker"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # PyTorch is imported by those alone who use it.
    if name == "Worker":
        from spotps._worker import Worker

        return Worker
    if name == "Range":
        from spotps._data import Range

        return Range
    raise AttributeError(f"module 'spotps' has no attribute {name!r}")
