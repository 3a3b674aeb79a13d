"""What worker.loader gives."""

from typing import Any, Callable, Iterator


class Loader:
    """Batches of a data set. Its first loop has all of the job's, of all epochs; later ones have
    none. Without a job each loop has them anew.

    len: batches of an epoch, of all workers together. TypeError before the first batch, where only
    the job says what a batch has.
    """

    def __init__(self, batches: Callable[[], Iterator[Any]], length: Callable[[], int]) -> None:
        self._batches = batches
        self._length = length

    def __iter__(self) -> Iterator[Any]:
        return self._batches()

    def __len__(self) -> int:
        return self._length()
