"""A PyTorch model as a worker of a job."""

import atexit
import sys
from functools import partial
from itertools import islice
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

import torch

from spotps._client import Client, Error, Task
from spotps._data import Collate, Data, Key, Range, keys_after, parts_of
from spotps._early import EarlyGradients
from spotps._ending import end_worker
from spotps._evaluation import Evaluation
from spotps._exchange import Exchange
from spotps._loader import Loader
from spotps._model import Untrained, kept_of, tell_changed, tensors_of
from spotps._optimizer import optimizer_of, tell_dropped_state
from spotps._state import load_state, state_of
from spotps._steps import Steps
from spotps._told import Figures, Told, number_of, tell_without_loss

_DEFAULT_BATCH = 64
_TWO_WAYS = (
    "spotps.Worker has accumulate above 1 and local steps; use one of the two: a local step of more "
    "samples is train.minibatch"
)


class Worker:
    """Joins the job that the environment names and trains `model` as part of it. Without a job the
    script trains by itself.

    The job's servers have the parameters. Without local steps they also have the optimizer: each
    `optimizer.step()` hands the gradients over and changes nothing here; new values come with the
    next batch. With `local_steps` (or `train.local_steps` of the job) `optimizer` works here, on so
    many minibatches, and what has changed is handed over then.

    model        float32 parameters, on a CPU or a CUDA device; written by copy_
    optimizer    of the model's parameters, without a closure
    local_steps  minibatches between two exchanges; None: what the job says
    accumulate   batches that the loader gives for one step, always so many: the gradient of a job's
                 minibatch is added up over them. Scale the loss yourself, as ever. The last
                 minibatch of an epoch has smaller ones; where it has fewer samples than that, some
                 come twice, and count once
    overlap_backward  each gradient leaves as backward makes it, so that the network works while
                 the rest is computed. For loops that take gradients as backward leaves them, and
                 every batch to optimizer.step(): no clipping by the script, no GradScaler. PyTorch
                 2.1 on. Nothing with local steps

    Connects at the first batch. Use it from one thread, and not in forked children. Errors:
    spotps.Error, in one sentence.
    """

    _is_there = False  # a worker of a job is, in this process

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        local_steps: Optional[int] = None,
        accumulate: int = 1,
        overlap_backward: bool = False,
    ) -> None:
        if accumulate < 1:
            raise Error(f"accumulate is {accumulate}; allowed: 1 or more")
        if local_steps is not None and local_steps < 1:
            raise Error(f"local_steps is {local_steps}; allowed: 1 or more")
        if local_steps is not None and local_steps > 1 and accumulate > 1:
            raise Error(_TWO_WAYS)
        self._model = model
        self._optimizer = optimizer
        self._accumulate = accumulate
        self._wanted_steps = local_steps
        tensors = tensors_of(model, optimizer, accumulate)
        self._tensors = [item for item in tensors if not item.is_frozen]
        self._frozen = [item for item in tensors if item.is_frozen]
        self._untrained = Untrained(model, optimizer, [])  # what is frozen is looked at later
        self._client = self._open()
        self._task: Optional[Task] = None
        self._is_in_hand = False  # the task, until all of it is done
        self._samples_given = 0
        self._batches_given = 0  # of the task in hand, with the one that the script has now
        self._loss = Told()
        self._right = Told()  # share of the samples
        self._figures = Figures()
        self._batch_samples = 0
        self._next: Iterator[Key] = iter(())
        self._misses_loss = False
        self._evaluation: Optional[Evaluation] = None
        self._job: Dict[str, Any] = {}
        self._is_over = False
        self._has_told_over = False
        self._steps = Steps(optimizer, self._tensors, accumulate)
        early: Optional[EarlyGradients] = None
        if overlap_backward:
            early = EarlyGradients(
                self._tensors,
                self._steps.may_send_early,
                lambda number: self._exchanged().push_gradient(number),
            )
        self._exchange: Optional[Exchange] = None
        if self._client is not None:
            self._exchange = Exchange(self._client, model, self._tensors, early)
            self._steps.join(self._exchange, early)
            atexit.register(self._at_exit)

    @classmethod
    def _open(cls) -> Optional[Client]:
        client = Client.open()
        if client is not None and cls._is_there:
            client.close()
            raise Error(
                "a second spotps.Worker in one process, which is one worker of the job; put all that "
                "is trained into one model and one optimizer, and make the worker once"
            )
        cls._is_there = client is not None
        return client

    # -- what scripts use ------------------------------------------------------------------------

    @property
    def is_alone(self) -> bool:
        """There is no job: the script trains by itself."""
        return self._client is None

    @property
    def step(self) -> int:
        """Of this worker, from 1; 0 before the first batch."""
        return 0 if self._task is None else self._task.step

    @property
    def seat(self) -> int:
        """Of this worker in the job, from 0; who takes its place after a loss has the same one."""
        return 0 if self._client is None or self._task is None else self._client.seat()[0]

    @property
    def job(self) -> Dict[str, Any]:
        """The job file with all defaults; empty before the first batch and without a job."""
        return self._job

    @property
    def progress(self) -> float:
        """The share of the job's samples that was done when this batch's step began, about."""
        if self._task is None or not self._job:
            return 0.0
        total = self._job["data"]["train_samples"] * self._job["train"]["epochs"]
        return min(float(self._task.samples_done / max(total, 1)), 1.0)

    @property
    def notice(self) -> bool:
        """This worker was told to go; the loop ends after the step in hand."""
        return self._client is not None and self._client.is_leaving

    def log(self, *, loss: Any = None, correct: Any = None, **figures: Any) -> None:
        """What the last batch came to. `loss`: the mean over its samples, a number or a tensor;
        `correct`: how many were right. Before the next batch; where only some batches tell, the
        others are taken to be as the last. Other figures are numbers, too: psctl
        top and status, metrics and TensorBoard show their means over the workers; other values go
        to the worker's log."""
        if loss is not None:
            self._loss.add(number_of(loss), self._batch_samples)
        if correct is not None:
            self._right.add(int(correct) / max(self._batch_samples, 1), self._batch_samples)
        if self._client is not None:
            self._figures.tell(self._client, figures)

    def state_dict(self) -> Dict[str, Any]:
        """What this process alone has: the state of its optimizer (with local steps the moments, else
        nothing, since the servers have it) and of the random generators. Parameters are not in it.
        For torch.save, by a loop that ends with `notice`, or now and then."""
        return state_of(self._optimizer)

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """What `state_dict` has made, on this worker or on one whose place it takes: before the first
        optimizer.step(), so that the first batch may ask for `seat`."""
        if self._steps.has_made_any:
            raise Error("worker.load_state_dict comes before the first optimizer.step()")
        load_state(self._optimizer, state)

    def evaluate(
        self,
        function: Callable[..., Tuple[Any, Any]],
        dataset: Any,
        batch_size: int = 256,
        *,
        collate_fn: Collate = None,
    ) -> None:
        """From now on `function` is called for batches of the test set, with the model in eval mode
        and without gradients: function(*batch) gives the sum of the losses of its samples, and how
        many were right. All workers get parts of the set. Call it before the loop. `collate_fn`: as
        a DataLoader's; a batch that is no tuple or list is function's one argument."""
        if batch_size < 1:
            raise Error(f"worker.evaluate has batch_size {batch_size}; allowed: 1 or more")
        if self._task is not None:
            raise Error("worker.evaluate comes before the loop, so that the job knows of it")
        self._evaluation = Evaluation(self._model, function, dataset, batch_size, collate_fn)

    def loader(
        self,
        dataset: Any,
        batch_size: Optional[int] = None,
        *,
        num_workers: int = 0,
        collate_fn: Collate = None,
        epochs: int = 1,
    ) -> Loader:
        """Batches of `dataset`, which is map-style (len and []), until the job is over: all of its
        epochs. What a batch has is for the job to say; a sample counts once its gradient has
        reached the servers.

        batch_size   samples; of a job it has to be its minibatch, or None
        num_workers  threads that fetch the next batches, all from this one data set, whose [] may
                     be called by several at a time (os.pread, and not seek and read); 0: none
        collate_fn   as a DataLoader's
        epochs       without a job: passes over the data
        """
        data = Data(dataset, collate_fn, num_workers)

        def batches() -> Iterator[Any]:
            return self._batches(data, self.ranges(len(data), batch_size, epochs=epochs))

        return Loader(batches, lambda: self._length(len(data), batch_size))

    def ranges(
        self, samples: int, batch_size: Optional[int] = None, *, epochs: int = 1
    ) -> Iterator[Range]:
        """Which samples the batches have, for a script that reads them itself: a stream that can
        seek, files, a generator of examples. One range is one batch: `loader` without the reading.

        samples      how many there are. Read those of `Range.samples`; what is best read in
                     its own order may take the places [Range.begin, Range.end) for numbers of
                     samples: each comes once an epoch as well
        """
        if samples < 1:
            raise Error(f"worker.ranges has {samples} samples; allowed: 1 or more")
        if self._client is None:
            return self._ranges_alone(samples, batch_size or _DEFAULT_BATCH, epochs)
        return self._ranges(samples, batch_size)

    # -- the loop --------------------------------------------------------------------------------

    def _length(self, samples: int, batch_size: Optional[int]) -> int:
        accumulate = self._accumulate
        if self._client is None:
            size, accumulate = batch_size or _DEFAULT_BATCH, 1
        elif self._job and self._task is not None and self._task.minibatch > 0:
            size, samples = self._task.minibatch, self._job["data"]["train_samples"]
        elif batch_size is not None:
            size = batch_size * accumulate
        else:
            raise TypeError(
                "a loader without batch_size has no len before the first batch, since the job says "
                "what a batch has; for a schedule take worker.progress"
            )
        return -(-samples // size) * accumulate

    def _batches(self, data: Data, ranges: Iterator[Range]) -> Iterator[Any]:
        for current in ranges:
            batch = data.fetch(current)
            if self._client is not None:
                for key in islice(self._next, data.num_workers):
                    data.foresee(key, partial(self._client.order, *key))
            yield batch

    def _ranges(self, samples: int, batch_size: Optional[int]) -> Iterator[Range]:
        client = self._client
        assert client is not None
        if self._is_in_hand:
            raise Error(
                "an earlier loop of this worker was left in the middle of a step (break, "
                "next(iter(loader)), or a second loader at the same time); have one loop, which ends "
                "with the job: end the job by train.epochs, run.stop_at_loss or psctl stop"
            )
        if self._is_over:
            self._tell_over()
        elif self._task is None:
            self._declare(client, samples, batch_size)
        kept = kept_of(self._frozen)
        while not self._is_over:
            task = client.next()
            if task is None:
                self._is_over = self._steps.is_over = True
                tell_changed(self._model, kept)
                break
            if not self._job:
                self._begin(client)
            self._task = task
            self._steps.begin(task)
            self._is_in_hand = True
            self._exchanged().take_values()
            if task.is_evaluation:
                self._evaluate(client, task)
            else:
                if task.step == 1:
                    self._check_batch(batch_size, task.minibatch)
                yield from self._run_task(client, task)
            self._is_in_hand = False

    def _tell_over(self) -> None:
        if not self._has_told_over:
            self._has_told_over = True
            print(
                "spotps: the job is over, and this loop has no batches: the first one had those of "
                "all epochs (train.epochs)",
                file=sys.stderr,
            )

    def _declare(self, client: Client, samples: int, batch_size: Optional[int]) -> None:
        if self._evaluation is not None and client.is_describing:
            self._evaluation.try_out()
        self._exchanged().declare(self._frozen)
        tests = 0 if self._evaluation is None else len(self._evaluation)
        client.set_samples(samples, tests)
        self._steps.declare(self._optimizer)
        self._untrained.check(self._optimizer)
        self._untrained = Untrained(self._model, self._optimizer, self._frozen)
        own = optimizer_of(self._optimizer)
        if own is not None:
            client.set_optimizer(own)
        if self._wanted_steps is not None:
            client.set_local_steps(self._wanted_steps)
        client.set_minibatch((batch_size or 0) * self._accumulate)
        client.set_device(str(self._tensors[0].tensor.device))

    def _evaluate(self, client: Client, task: Task) -> None:
        if self._evaluation is None:
            raise Error(
                "the job evaluates, and this script does not; call worker.evaluate before the loop"
            )
        loss_sum, correct = self._evaluation.run(task.begin, task.end)
        client.finish(loss_sum, correct)

    def _begin(self, client: Client) -> None:
        self._job = client.job()
        schedule = self._job["optimizer"]["schedule"]
        self._steps.has_schedule = schedule["kind"] != "constant" or schedule["warmup"] > 0
        seat, threads = client.seat()
        torch.set_num_threads(threads)
        if self._job["train"]["local_steps"] <= 1:
            tell_dropped_state(self._optimizer)
        if self._accumulate > 1 and self._job["train"]["local_steps"] > 1:
            raise Error(_TWO_WAYS)

    def _check_batch(self, batch_size: Optional[int], minibatch: int) -> None:
        if batch_size is not None and batch_size * self._accumulate != minibatch:
            raise Error(
                f"worker.loader has batch_size {batch_size} and spotps.Worker accumulate "
                f"{self._accumulate}, and a step of this worker has {minibatch} samples "
                "(train.minibatch); make the product of the first two equal, or leave batch_size out"
            )

    def _run_task(self, client: Client, task: Task) -> Iterator[Range]:
        self._samples_given = 0
        self._batches_given = 0
        self._loss.clear()
        self._right.clear()
        accumulate = 1 if task.is_local else self._accumulate
        parts = parts_of(task, accumulate)
        for number, (begin, end) in enumerate(parts):
            self._steps.batches_left = 0 if task.is_local else len(parts) - number - 1
            self._next = keys_after(task, number, accumulate, self._job["data"]["train_samples"])
            self._batch_samples = end - begin
            self._batches_given += 1
            yield Range(task.epoch, begin, end, client.order(task.epoch, begin, end))
            self._samples_given += self._batch_samples
            is_last = number == len(parts) - 1
            if task.is_local and not is_last and client.local_step(self._batch_samples):
                break  # this worker is taken back: what is done is handed over
        self._finish(client, task)

    def _finish(self, client: Client, task: Task) -> None:
        self._untrained.check(self._optimizer)
        if task.is_local:
            self._exchanged().push_difference(self._batches_given)
        else:
            self._steps.finish()
        if not self._loss.has_any and not self._misses_loss:
            self._misses_loss = True  # once
            tell_without_loss(self._job)
        done = self._samples_given if task.is_local else task.samples
        correct = round(self._right.sum_over(done))
        client.finish(self._loss.sum_over(done), correct, done if task.is_local else 0)

    def _exchanged(self) -> Exchange:
        assert self._exchange is not None  # there is a job
        return self._exchange

    # -- without a job, and the end --------------------------------------------------------------

    def _ranges_alone(self, count: int, size: int, epochs: int) -> Iterator[Range]:
        for epoch in range(epochs):
            order = torch.randperm(count).tolist()
            for at in range(0, count, size):
                end = min(at + size, count)
                self._batch_samples = end - at
                self._loss.clear()
                self._right.clear()
                yield Range(epoch, at, end, order[at:end])
            if self._evaluation is not None:
                self._evaluation.print_epoch(epoch)

    def _at_exit(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            end_worker(client, is_early=not self._is_over and self._task is not None)
