"""Which samples a batch has, and how it is fetched."""

import io
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch
from torch.utils.data import TensorDataset, default_collate

from spotps._client import Error, Task

Collate = Optional[Callable[[Any], Any]]
Key = Tuple[int, int, int]  # epoch, begin, end

_GUESSES_MAX = 2  # batches that are fetched ahead, for each worker


@dataclass(frozen=True)
class Range:
    """The samples of one batch. Each place of an epoch counts once, and is given to one batch, but
    where a minibatch has fewer samples than batches (`accumulate` of spotps.Worker)."""

    epoch: int  # from 0
    begin: int  # places [begin, end) in the epoch's order
    end: int
    samples: List[int]  # which samples are there: numbers from 0, in another order each epoch

    def __len__(self) -> int:
        return self.end - self.begin


def collated(dataset: Any, samples: List[int], collate: Collate) -> Any:
    """The batch of these samples."""
    if collate is None and type(dataset) is TensorDataset:  # a subclass may have its own []
        return [tensor[torch.as_tensor(samples)] for tensor in dataset.tensors]
    if hasattr(dataset, "__getitems__"):
        items = dataset.__getitems__(samples)
    else:
        items = [dataset[sample] for sample in samples]
    return (collate or default_collate)(items)


def minibatches(begin: int, end: int, size: int) -> List[Tuple[int, int]]:
    """The last one may be smaller."""
    return [(at, min(at + size, end)) for at in range(begin, end, size)]


def even_parts(begin: int, end: int, count: int, minibatch: int) -> List[Tuple[int, int]]:
    """So many parts of a minibatch, the last of which may be short. Each part has a place or, where
    those of a whole minibatch have two, as batch norm needs, two: some places come twice then."""
    size = end - begin
    least = max(1, min(2, minibatch // count, size))
    starts = [begin + number * size // count for number in range(count)] + [end]
    parts = []
    for start, after in zip(starts, starts[1:]):
        start = min(start, end - least)
        parts.append((start, max(after, start + least)))
    return parts


def parts_of(task: Task, accumulate: int) -> List[Tuple[int, int]]:
    """The batches of a train task; `accumulate` 1 with local steps."""
    if task.is_local:
        return minibatches(task.begin, task.end, task.minibatch)
    return even_parts(task.begin, task.end, accumulate, task.minibatch)


def keys_after(task: Task, number: int, accumulate: int, train_samples: int) -> Iterator[Key]:
    """The batches that will probably come after the task's batch `number`, if this worker gets
    them."""
    for part in parts_of(task, accumulate)[number + 1 :]:
        yield (task.epoch, *part)
    for begin in range(task.end, train_samples, task.minibatch):
        end = min(begin + task.minibatch, train_samples)
        for part in even_parts(begin, end, accumulate, task.minibatch):
            yield (task.epoch, *part)


def _tell_open_files(dataset: Any) -> None:
    """A place in a file is for all threads: each would read where another one has sought."""
    for name, value in getattr(dataset, "__dict__", {}).items():
        if isinstance(value, io.IOBase):
            print(
                f"spotps: {type(dataset).__name__}.{name} is an open file, and num_workers threads "
                "use it at the same time; if [] seeks or reads there, samples get mixed up: take "
                "os.pread, or open it in each call",
                file=sys.stderr,
            )


class Data:
    """A data set and how batches of it are made; threads fetch what will probably be next."""

    def __init__(self, dataset: Any, collate: Collate, num_workers: int) -> None:
        if num_workers < 0:
            raise Error(f"worker.loader has num_workers {num_workers}; allowed: 0 or more")
        if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
            raise Error(
                f"the data set ({type(dataset).__name__}) has no len and [], so no batch of chosen "
                "samples can be fetched; read them yourself: for r in worker.ranges(samples)"
            )
        if num_workers > 0:
            _tell_open_files(dataset)
        self._dataset = dataset
        self._collate = collate
        self.num_workers = num_workers
        self._pool = ThreadPoolExecutor(num_workers) if num_workers > 0 else None
        self._ahead: Dict[Key, "Future[Any]"] = {}

    def __len__(self) -> int:
        return len(self._dataset)

    def fetch(self, of: Range) -> Any:
        found = self._ahead.pop((of.epoch, of.begin, of.end), None)
        if found is not None:
            return found.result()
        return collated(self._dataset, of.samples, self._collate)

    def foresee(self, key: Key, samples: Callable[[], List[int]]) -> None:
        if self._pool is None or key in self._ahead:
            return
        if len(self._ahead) >= _GUESSES_MAX * self.num_workers:  # some did not come true
            oldest = next(iter(self._ahead))
            self._ahead.pop(oldest).cancel()
        self._ahead[key] = self._pool.submit(collated, self._dataset, samples(), self._collate)
