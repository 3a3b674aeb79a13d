"""A job in memory for spotps.Worker: one worker, servers that take a step of SGD for each push."""

import ctypes
from unittest import mock

import spotps
import torch
from spotps import _worker

_BYTES = {"F64": 8, "F32": 4, "BF16": 2, "I64": 8, "I8": 1, "BOOL": 1}


class MemoryJob:
    """Has the methods of spotps.Client. `pushed` has what each step has pushed, by name; `finished`
    its (loss_sum, correct, samples)."""

    is_leaving = False
    is_describing = False

    def __init__(self, minibatch=4, epochs=1, local_steps=1, lr=0.1, tests=0, seat=0, **sections):
        self.minibatch, self.epochs, self.local_steps, self.lr = minibatch, epochs, local_steps, lr
        self.tests = tests  # evaluated before each step
        self.own_seat = seat
        self.sections = sections
        self.names, self.tensors, self.rates, self.frozen = [], [], [], []
        self.kept, self.compared, self.aliases = {}, {}, {}
        self.has_values = []  # of those kept
        self.optimizer = None
        self.pushed, self.finished, self.evaluated, self.ordered = [], [], [], []
        self.has_left = False
        self.failure = None
        self._keep = []
        self._tasks = None
        self._in_hand = None

    def declare(self, name, shape, values, *, average_rate=0.0, decays=False):
        first = (ctypes.c_float * max(torch.Size(shape).numel(), 1)).from_address(values)
        self.names.append(name)
        self.tensors.append(torch.tensor(list(first)).view(shape))
        self.rates.append(average_rate)

    def declare_frozen(self, name, shape, values):
        self.frozen.append(name)

    def declare_kept(
        self, name, element, shape, address, *, is_counter=False, is_compared=False
    ):
        self.kept[name] = (element, list(shape), is_counter)
        if address != 0:
            self.has_values.append(name)
        if is_compared:
            size = torch.Size(shape).numel() * _BYTES[element]
            self.compared[name] = ctypes.string_at(address, size)

    def declare_alias(self, name, of):
        self.aliases[name] = of

    def set_samples(self, train, test=0):
        self.samples = train

    def set_optimizer(self, optimizer):
        self.optimizer = optimizer

    def set_local_steps(self, steps):
        self.local_steps = steps

    def set_minibatch(self, samples):
        self.told_minibatch = samples

    def set_device(self, name):
        pass

    def _all_tasks(self):
        step = 0
        is_local = self.local_steps > 1
        size = self.minibatch * self.local_steps
        for epoch in range(self.epochs):
            for begin in range(0, self.samples, size):
                end = min(begin + size, self.samples)
                if self.tests:
                    yield spotps.Task(True, epoch, step, 0, self.tests, 0, 1, 0, False)
                step += 1
                yield spotps.Task(
                    False, epoch, step, begin, end, self.minibatch, self.local_steps, 0, is_local
                )

    def next(self):
        assert self._in_hand is None, "a task is in hand"
        self._tasks = self._tasks or self._all_tasks()
        self._in_hand = next(self._tasks, None)
        self._out = [torch.full_like(value, torch.nan) for value in self.tensors]
        return self._in_hand

    @staticmethod
    def _memory(tensor):
        return (ctypes.c_float * tensor.numel()).from_address(tensor.data_ptr())

    def values(self, number):
        return self._memory(self.tensors[number])

    def gradient(self, number):
        return self._memory(self._out[number])

    def ready(self, number):
        pass

    def local_step(self, samples):
        return False

    def finish(self, loss_sum=0.0, correct=0, samples=0):
        if self._in_hand.is_evaluation:
            self.evaluated.append((loss_sum, correct))
        else:
            self.finished.append((loss_sum, correct, samples))
            self.pushed.append({n: t.clone() for n, t in zip(self.names, self._out)})
            for value, out, rate in zip(self.tensors, self._out, self.rates):
                if rate > 0:
                    value += (1 - (1 - rate) ** self.local_steps) * (out - value)
                else:
                    value -= out if self.local_steps > 1 else self.lr * out
        self._in_hand = None

    def order(self, epoch, begin, end):
        self.ordered.append((begin, end))
        return list(range(begin, end))

    def job(self):
        job = {
            "data": {"train_samples": self.samples},
            "train": {"epochs": self.epochs, "local_steps": self.local_steps},
            "optimizer": {"schedule": {"kind": "constant", "warmup": 0}},
            "run": {"stop_at_loss": 0},
            "goal": {"loss": 0},
        }
        return {name: {**section, **self.sections.get(name, {})} for name, section in job.items()}

    def seat(self):
        return self.own_seat, 1

    def figure(self, name, value):
        pass

    def log(self, event, text):
        pass

    def leave(self, why, seconds=5.0):
        self.has_left = True

    def fail(self, why, seconds=5.0):
        self.failure = why

    def close(self):
        pass

    def value(self, name):
        return self.tensors[self.names.index(name)]


def worker_of(job, model, optimizer, **arguments):
    """A spotps.Worker of this job, as in a process of its own."""
    spotps.Worker._is_there = False
    with mock.patch.object(_worker.Client, "open", lambda: job), mock.patch("atexit.register"):
        return spotps.Worker(model, optimizer, **arguments)
