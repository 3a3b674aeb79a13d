"""A worker of a job without PyTorch: tensors are addresses, tasks are ranges of samples."""

import ctypes
import json
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence

from spotps import _library as lib

_WHY_BYTES_MAX = 1000
_POLL_MS = 200  # between two looks whether Ctrl-C was pressed


class Error(RuntimeError):
    """Why the worker can't go on: one sentence with what, where, and what to do."""


@dataclass(frozen=True)
class Task:
    """What there is to do. `begin` and `end` are places in the epoch's order (`Client.order`), or
    numbers of test samples when `is_evaluation`."""

    is_evaluation: bool
    epoch: int
    step: int
    begin: int
    end: int
    minibatch: int
    local_steps: int
    samples_done: int  # of the whole job, about, when it begins
    is_local: bool  # train by yourself, then push the difference

    @property
    def samples(self) -> int:
        return self.end - self.begin


class Client:
    """One worker. Use it from one thread at a time; `is_leaving` from any. A forked child can't
    use it. Errors: every method raises Error."""

    def __init__(self, library: lib.Library, handle: int) -> None:
        self._lib = library
        self._handle: Optional[int] = handle
        self._keep: List[Any] = []  # first values, until they are read
        self._elements: List[int] = []
        self._is_open = False
        # psctl has started this process to learn what the script trains
        self.is_describing = "SPOTPS_DESCRIBE" in os.environ

    @classmethod
    def open(cls) -> "Optional[Client]":
        """The job's worker that the environment names; None: there is no job."""
        if "SPOTPS_WORKER" not in os.environ and "SPOTPS_DESCRIBE" not in os.environ:
            return None
        library, why = lib.load()
        if library is None:
            raise Error(why)
        handle = ctypes.c_void_p()
        result = library.open(lib.ABI, ctypes.byref(handle))
        if result != lib.OK or handle.value is None:
            raise Error(library.error(None).decode())
        return cls(library, handle.value)

    def _check(self, result: int) -> int:
        if result == lib.ERROR:
            raise Error(self._lib.error(self._handle).decode())
        return result

    def declare(
        self,
        name: str,
        shape: Sequence[int],
        values: Any,
        *,
        average_rate: float = 0.0,
        decays: bool = False,
    ) -> int:
        """The next tensor: f32, dense, row-major. `values`: a writable buffer of its first values,
        or an address. `average_rate` above 0: what is pushed is an observation, such as a running
        mean. Returns its number."""
        dims, elements, address = self._memory_of(shape, values)
        rule = lib.AVERAGE if average_rate > 0 else lib.GRADIENT
        self._check(
            self._lib.declare(
                self._handle,
                name.encode(),
                dims,
                len(shape),
                rule,
                average_rate,
                1 if decays else 0,
                address,
            )
        )
        self._elements.append(elements)
        return len(self._elements) - 1

    def declare_frozen(self, name: str, shape: Sequence[int], values: Any) -> None:
        """A tensor that nobody trains: it never travels, and is in the run's model file. Every
        worker of the job has the same values by itself. Else as declare."""
        dims, _, address = self._memory_of(shape, values)
        self._check(
            self._lib.frozen(self._handle, name.encode(), dims, len(shape), address)
        )

    def declare_kept(
        self,
        name: str,
        element: str,
        shape: Sequence[int],
        address: int,
        *,
        is_counter: bool = False,
        is_compared: bool = False,
    ) -> None:
        """A tensor for the run's model file alone, dense, as it is: nothing of it travels.
        `element`: its type as safetensors calls it, "I64". `address`: of its values, until the
        first next; 0 where nobody reads them: neither is_compared nor `is_describing`.
        `is_counter`: model.from may have other values. `is_compared`: a worker with other values is
        refused; else each may have its own."""
        dims = (ctypes.c_int64 * len(shape))(*shape)
        number = lib.TYPES.index(element)
        self._check(
            self._lib.kept(
                self._handle,
                name.encode(),
                number,
                dims,
                len(shape),
                int(is_counter),
                int(is_compared),
                address,
            )
        )

    def declare_alias(self, name: str, of: str) -> None:
        """Another name of a tensor that is declared: the run's model file has it by both."""
        self._check(self._lib.alias(self._handle, name.encode(), of.encode()))

    def _memory_of(self, shape: Sequence[int], values: Any) -> "tuple[Any, int, int]":
        """The shape for C, how many elements that is, and where the values are."""
        dims = (ctypes.c_int64 * len(shape))(*shape)
        elements = 1
        for size in shape:
            elements *= size
        if isinstance(values, int):
            return dims, elements, values
        buffer = (ctypes.c_float * elements).from_buffer(values)
        self._keep.append(buffer)
        return dims, elements, ctypes.addressof(buffer)

    def set_samples(self, train: int, test: int = 0) -> None:
        self._check(self._lib.samples(self._handle, train, test))

    def set_optimizer(self, optimizer: Dict[str, Any]) -> None:
        """What the job's `optimizer` would be for the script's own."""
        self._check(self._lib.optimizer(self._handle, json.dumps(optimizer).encode()))

    def set_local_steps(self, steps: int) -> None:
        self._check(self._lib.local_steps(self._handle, steps))

    def set_minibatch(self, samples: int) -> None:
        """What a step of the script's loop has; a job with another number is refused."""
        self._check(self._lib.minibatch(self._handle, samples))

    def set_device(self, name: str) -> None:
        self._check(self._lib.device(self._handle, name.encode()))

    def next(self) -> Optional[Task]:
        """Waits for the next task; None: the job is over or this worker has left. The first call
        connects. Raises SystemExit(0) in the process that psctl starts to learn what the script
        trains."""
        task = lib.CTask()
        while True:
            result = self._check(self._lib.next(self._handle, _POLL_MS, ctypes.byref(task)))
            self._keep = []
            if result == lib.DESCRIBED:
                raise SystemExit(0)
            if result == lib.END:
                return None
            if result == lib.TASK:
                return Task(
                    task.kind == lib.EVALUATE,
                    task.epoch,
                    task.step,
                    task.begin,
                    task.end,
                    task.minibatch,
                    task.local_steps,
                    task.samples_done,
                    task.is_local != 0,
                )

    def _memory(self, address: Optional[int], tensor: int) -> Any:
        if address is None:
            raise Error(self._lib.error(self._handle).decode())
        return (ctypes.c_float * self._elements[tensor]).from_address(address)

    def values(self, tensor: int) -> Any:
        """The task's values of a tensor, flat, as they lie in memory: read them until `finish`."""
        return self._memory(self._lib.values(self._handle, tensor), tensor)

    def gradient(self, tensor: int) -> Any:
        """Where to write what is pushed, flat. It begins with any values."""
        return self._memory(self._lib.gradient(self._handle, tensor), tensor)

    def ready(self, tensor: int) -> None:
        """Its gradient is final and may travel."""
        self._check(self._lib.ready(self._handle, tensor))

    def local_step(self, samples: int) -> bool:
        """A minibatch of local steps is done. True: end the task with what is done."""
        return self._check(self._lib.local_step(self._handle, samples)) == lib.END

    def finish(self, loss_sum: float = 0.0, correct: int = 0, samples: int = 0) -> None:
        """The task is done. `samples`: of how many of its samples; 0: all."""
        self._check(self._lib.finish(self._handle, loss_sum, correct, samples))

    def order(self, epoch: int, begin: int, end: int) -> List[int]:
        """The samples at these places of the epoch's order. Needs a task in hand."""
        out = (ctypes.c_uint64 * max(end - begin, 0))()
        self._check(self._lib.order(self._handle, epoch, begin, end, out))
        return list(out)

    def job(self) -> Dict[str, Any]:
        """The job file with all defaults; valid from the first task on."""
        text = self._lib.job(self._handle)
        if text is None:
            raise Error("the job is not known before the first task")
        return dict(json.loads(text))

    def job_device(self) -> str:
        """What the job says that this worker computes on; valid from the first task on."""
        text = self._lib.job_device(self._handle)
        return "cpu" if text is None else text.decode()

    def seat(self) -> "tuple[int, int]":
        """The worker's number and how many threads it is to use; from the first task on."""
        seat, threads = ctypes.c_uint32(), ctypes.c_uint32()
        self._check(
            self._lib.seat(self._handle, ctypes.byref(seat), ctypes.byref(threads))
        )
        return seat.value, threads.value

    def figure(self, name: str, value: float) -> None:
        """A figure of the training for psctl, metrics and TensorBoard, which show the mean over the
        workers. At most 16 names."""
        self._check(self._lib.figure(self._handle, name.encode(), value))

    def log(self, event: str, text: str) -> None:
        """A line of the worker's log."""
        self._check(self._lib.log(self._handle, event.encode(), text.encode()))

    @property
    def end_reason(self) -> str:
        """After next() gave None: why; empty when the job was done."""
        return str(self._lib.error(self._handle).decode())

    @property
    def is_leaving(self) -> bool:
        """This worker was told to go: it finishes what it has."""
        return self._handle is not None and self._lib.notice(self._handle) == 1

    def leave(self, why: str, seconds: float = 5.0) -> None:
        """Leaves before the job is over; the task in hand is others' then."""
        self._check(self._lib.leave(self._handle, why.encode(), int(seconds * 1000)))

    def fail(self, why: str, seconds: float = 5.0) -> None:
        """Ends though the job does not, which is a failure, and no machine that is taken back; the
        task in hand is others' then."""
        text = why.encode(errors="replace")[:_WHY_BYTES_MAX]
        self._check(self._lib.fail(self._handle, text, int(seconds * 1000)))

    def close(self) -> None:
        """Ends the connection at once."""
        if self._handle is not None:
            self._lib.close(self._handle)
            self._handle = None
