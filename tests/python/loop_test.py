"""What a script does to its model in the loop. Exit 77: there is no PyTorch, or one before 2.0."""

import contextlib
import io
import sys
import unittest
from unittest import mock

import spotps

try:
    import torch
    from torch import nn
    from torch.utils.data import TensorDataset
except ImportError:
    print(f"SKIP: {sys.executable} has no PyTorch (SPOTPS_TORCH_PYTHON names one that has)")
    sys.exit(77)
if int(torch.__version__.split(".")[0]) < 2:
    print(f"SKIP: PyTorch {torch.__version__} has no hooks of optimizers; 2.0 has")
    sys.exit(77)

from memory_job import MemoryJob, worker_of


def train(model, *, data=None, each=None, before=None, job=None, **arguments):
    """One loop. `before`: with the worker made; `each`: after each step. Returns the job and what
    was printed."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    job = job or MemoryJob(minibatch=4, lr=0.5)
    worker = worker_of(job, model, optimizer, **arguments)
    if before is not None:
        before(model)
    data = torch.ones(32, 2) if data is None else data
    with contextlib.redirect_stderr(io.StringIO()) as told:
        for (x,) in worker.loader(TensorDataset(data)):
            model(x).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            if each is not None:
                each(model)
            worker.log(loss=1)
    return job, told.getvalue()


class AssignedBufferTest(unittest.TestCase):
    class Average(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 1)
            self.register_buffer("mean", torch.zeros(1))

        def forward(self, x):
            self.mean = 0.5 * self.mean + 0.5 * x.mean()
            return self.layer(x)

    def test_a_buffer_that_the_script_assigns_is_exchanged(self):
        for steps in (1, 4):
            model = self.Average()
            job, _ = train(model, job=MemoryJob(minibatch=4, lr=0.5, local_steps=steps))
            self.assertEqual(job.value("mean"), 1 - 0.5**8)
            self.assertEqual(model.mean, 1 - 0.5**8)

    def test_a_buffer_that_is_a_view_of_data_leaves_the_data_alone(self):
        class Last(self.Average):
            def forward(self, x):
                self.mean = x[0, :1]
                return self.layer(x)

        data = torch.arange(64.0).view(32, 2)
        before = data.clone()
        job = MemoryJob(minibatch=4, lr=1e-6, local_steps=1)
        train(Last(), data=data, job=job)
        self.assertTrue(torch.equal(data, before))
        self.assertGreater(float(job.value("mean")), 0)

    def test_buffers_that_a_model_gets_anew_are_exchanged(self):
        model = nn.Sequential(nn.BatchNorm1d(2, momentum=0.5), nn.Linear(2, 1))
        job, _ = train(model, before=lambda model: model.double().float())
        self.assertTrue(torch.equal(job.value("0.running_mean"), torch.full((2,), 1 - 0.5**8)))

    def test_a_buffer_of_another_shape_or_type_is_refused(self):
        for other, what in ((torch.zeros(3), r"\[3\]"), (torch.zeros(1).double(), "float64")):

            def change(model, other=other):
                model.mean = other

            with self.assertRaisesRegex(spotps.Error, f"buffer mean was.*{what}"):
                train(self.Average(), each=change)

        def remove(model):
            model.mean = None

        with self.assertRaisesRegex(spotps.Error, "buffer mean is no longer in the model"):
            train(self.Average(), each=remove)

    def test_a_parameter_that_is_replaced_is_refused(self):
        def replace_layer(model):
            model[1] = nn.Linear(2, 1)

        def replace_weight(model):
            model[1].weight = nn.Parameter(torch.ones(1, 2))

        for change in (replace_layer, replace_weight):
            for when in ("before", "each"):
                model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
                with self.assertRaisesRegex(spotps.Error, "1.weight is no longer in the model"):
                    train(model, **{when: change})

    def test_a_parameter_that_has_moved_is_still_trained(self):
        def move(model):
            weight = model[1].weight
            del model[1].weight
            model[1].register_parameter("weight_orig", weight)
            model[1].weight = weight * 1

        model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
        job, _ = train(model, before=move, data=torch.ones(4, 2))
        self.assertIn("1.weight", job.pushed[0])


class WrittenTest(unittest.TestCase):
    """Without local steps the servers have the values, and the next ones overwrite the script's."""

    refused = "the script changes weight itself.*use local steps"

    @staticmethod
    def clamp(model):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.clamp_(-0.01, 0.01)

    def test_a_clamp_after_the_step_is_refused(self):
        with self.assertRaisesRegex(spotps.Error, self.refused):
            train(nn.Linear(2, 1), each=self.clamp)

    def test_a_change_that_has_no_version_is_refused(self):
        def clamp(model):
            model.weight.data = model.weight.data.clamp(-0.01, 0.01)

        with self.assertRaisesRegex(spotps.Error, self.refused):
            train(nn.Linear(2, 1), each=clamp)

    def test_a_change_that_begins_late_is_refused(self):
        steps = []

        def clamp(model):
            steps.append(1)
            if len(steps) > 6:
                self.clamp(model)

        with self.assertRaisesRegex(spotps.Error, self.refused):
            train(nn.Linear(2, 1), each=clamp)
        self.assertEqual(len(steps), 7)

    def test_a_second_optimizer_of_the_same_parameters_is_refused(self):
        model = nn.Linear(2, 1)
        other = torch.optim.SGD(model.parameters(), lr=0.5)

        def step(model):
            model(torch.ones(1, 2)).mean().backward()
            other.step()
            other.zero_grad()

        with self.assertRaisesRegex(spotps.Error, self.refused):
            train(model, each=step)

    def test_an_embedding_that_scales_its_rows_is_refused(self):
        model = nn.Sequential(nn.Embedding(4, 2, max_norm=0.1), nn.Linear(2, 1))
        with self.assertRaisesRegex(spotps.Error, "changes 0.weight itself.*max_norm"):
            train(model, data=torch.randint(0, 4, (32, 1)))

    def test_values_that_are_put_back_are_no_change(self):
        def perturb(model):
            with torch.no_grad():
                for parameter in model.parameters():
                    there = torch.full_like(parameter, 0.05)
                    parameter.add_(there)
                    parameter.sub_(there)

        model = nn.Linear(2, 1)
        with torch.no_grad():
            model.bias.fill_(1e-6)  # of which the addition leaves little
        job, _ = train(model, each=perturb)
        self.assertEqual(len(job.pushed), 8)

    def test_with_local_steps_what_it_has_become_is_handed_over(self):
        job, _ = train(
            nn.Linear(2, 1), each=self.clamp, job=MemoryJob(minibatch=4, lr=0.5, local_steps=4)
        )
        self.assertLessEqual(job.value("weight").abs().max(), 0.01 + 1e-6)


class LeftOutTest(unittest.TestCase):
    @staticmethod
    def loop(does, job=None, **arguments):
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        job = job or MemoryJob(minibatch=4)
        worker = worker_of(job, model, optimizer, **arguments)
        with contextlib.redirect_stderr(io.StringIO()) as told:
            for number, (x,) in enumerate(worker.loader(TensorDataset(torch.ones(32, 2)))):
                does(number, model(x).mean(), optimizer)
                worker.log(loss=1)
        return job, told.getvalue()

    @staticmethod
    def add_up(number, loss, optimizer):
        loss.backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()

    def test_gradients_that_the_script_adds_up_itself_are_refused_with_the_remedy(self):
        with self.assertRaisesRegex(spotps.Error, "without optimizer.step.*accumulate=4"):
            self.loop(self.add_up)
        job, told = self.loop(self.add_up, accumulate=4)
        self.assertEqual((len(job.pushed), told), (8, ""))
        job, told = self.loop(self.add_up, job=MemoryJob(minibatch=4, local_steps=4))
        self.assertEqual((len(job.pushed), told), (2, ""))

    def test_a_batch_that_the_script_gives_up_counts(self):
        def skip(number, loss, optimizer):
            if number % 2 == 1:
                loss.backward()
                optimizer.step()
            optimizer.zero_grad(set_to_none=False)

        job, told = self.loop(skip)
        self.assertEqual((len(job.pushed), told), (8, ""))
        self.assertEqual([bool(p["weight"].any()) for p in job.pushed], [False, True] * 4)

    def test_a_batch_that_is_skipped_before_zero_grad_counts(self):
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        job = MemoryJob(minibatch=4, lr=0.5)
        worker = worker_of(job, model, optimizer)
        for number, (x,) in enumerate(worker.loader(TensorDataset(torch.ones(16, 2)))):
            worker.log(loss=1)
            if number == 2:
                continue  # the gradients are those of the step before
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
        self.assertEqual([float(step["weight"].abs().max()) > 0 for step in job.pushed],
                         [True, True, False, True])

    def test_a_step_whose_gradients_are_not_finite_may_be_left_out(self):
        def scale(number, loss, optimizer):
            optimizer.zero_grad()
            (loss * (float("inf") if number == 2 else 1)).backward()
            if number != 2:
                optimizer.step()

        job, told = self.loop(scale)
        self.assertEqual((len(job.pushed), told), (8, ""))
        self.assertFalse(job.pushed[2]["weight"].any())


class LoaderTest(unittest.TestCase):
    data = TensorDataset(torch.ones(10, 2))

    @staticmethod
    def worker(job, **arguments):
        model = nn.Linear(2, 1)
        return worker_of(job, model, torch.optim.SGD(model.parameters(), lr=0.1), **arguments)

    def test_alone_one_loader_is_good_for_many_loops(self):
        loader = self.worker(None).loader(self.data, 4)
        self.assertEqual([len(list(loader)) for _ in range(3)], [3, 3, 3])
        self.assertEqual(len(loader), 3)

    def test_in_a_job_the_first_loop_has_all_and_others_are_told_to_have_none(self):
        worker = self.worker(MemoryJob(minibatch=4, epochs=2))
        loader = worker.loader(self.data)
        with contextlib.redirect_stderr(io.StringIO()) as told:
            counts = []
            for _ in range(3):
                counts.append(0)
                for _ in loader:
                    counts[-1] += 1
                    worker.log(loss=1)
        self.assertEqual(counts, [6, 0, 0])
        self.assertEqual(told.getvalue().count("this loop has no batches"), 1)

    def test_its_length_is_an_epoch_once_it_is_known_what_a_batch_has(self):
        worker = self.worker(MemoryJob(minibatch=4, epochs=2), accumulate=2)
        loader = worker.loader(self.data)
        with self.assertRaisesRegex(TypeError, "no len before the first batch.*worker.progress"):
            len(loader)
        self.assertEqual(len(worker.loader(self.data, 2)), 6)
        next(iter(loader))
        self.assertEqual(len(loader), 6)

    def test_a_batch_that_is_only_looked_at_is_refused(self):
        loader = self.worker(MemoryJob()).loader(self.data)
        next(iter(loader))
        with self.assertRaisesRegex(spotps.Error, r"next\(iter\(loader\)\)"):
            next(iter(loader))

    def test_the_job_is_told_of_a_batch_size(self):
        for size, told in ((None, 0), (2, 4)):
            job = MemoryJob(minibatch=4)
            next(iter(self.worker(job, accumulate=2).loader(self.data, size)))
            self.assertEqual(job.told_minibatch, told)

    def test_one_way_to_make_a_step_of_many_batches_is_enough(self):
        with self.assertRaisesRegex(spotps.Error, "accumulate above 1 and local steps"):
            self.worker(None, local_steps=4, accumulate=2)
        self.worker(None, local_steps=1, accumulate=2)


class EndTest(unittest.TestCase):
    """The process ends; `_at_exit` is called."""

    def leave_early(self, job):
        model = nn.Linear(2, 1)
        worker = worker_of(job, model, torch.optim.SGD(model.parameters(), lr=0.1))
        for _ in worker.loader(TensorDataset(torch.ones(16, 2))):
            break
        with contextlib.redirect_stderr(io.StringIO()) as told:
            worker._at_exit()
        return told.getvalue()

    def test_a_loop_that_is_left_is_told_and_no_notice(self):
        job = MemoryJob()
        self.assertIn("the script ends before the job", self.leave_early(job))
        self.assertIn("its loop was left by break", job.failure)
        self.assertFalse(job.has_left)

    def test_an_exception_is_the_workers_failure(self):
        job = MemoryJob()
        with mock.patch.object(sys, "last_value", ValueError("bad batch"), create=True):
            self.assertIn("this worker has failed: ValueError: bad batch", self.leave_early(job))
        self.assertEqual(job.failure, "ValueError: bad batch")
        self.assertFalse(job.has_left)

    def test_on_notice_it_hands_over_what_is_done(self):
        job = MemoryJob()
        job.is_leaving = True
        self.assertEqual(self.leave_early(job), "")
        self.assertTrue(job.has_left)
        self.assertIsNone(job.failure)


class EvaluateTest(unittest.TestCase):
    def test_a_function_that_gives_something_else_is_known_before_the_job(self):
        model = nn.Linear(2, 1)
        called = []
        for function, what in (
            (lambda x: x.mean(), "gives a Tensor"),
            (lambda x: None, "gives a NoneType"),
            (lambda x: (x, 1), "gives a tuple"),
            (lambda x: (1, 2, 3), "gives a tuple"),
            (lambda x: called.append(len(x)) or (x.sum(), 0), ""),
        ):
            job = MemoryJob()
            job.is_describing = True
            worker = worker_of(job, model, torch.optim.SGD(model.parameters(), lr=0.1))
            worker.evaluate(function, TensorDataset(torch.ones(5, 2)))
            batches = iter(worker.loader(TensorDataset(torch.ones(8, 2))))
            if not what:
                next(batches)
                continue
            with self.assertRaisesRegex(spotps.Error, f"two numbers, the sum of the losses.*{what}"):
                next(batches)
        self.assertEqual(called, [2])


class FiguresTest(unittest.TestCase):
    def test_one_too_many_is_passed_over_and_told_once(self):
        class Full(MemoryJob):
            def figure(self, name, value):
                if name != "known":
                    raise spotps.Error(f"figure {name} is one too many; allowed: 16 names")
                self.known = value

        model = nn.Linear(2, 1)
        job = Full()
        worker = worker_of(job, model, torch.optim.SGD(model.parameters(), lr=0.1))
        with contextlib.redirect_stderr(io.StringIO()) as told:
            for number, _ in enumerate(worker.loader(TensorDataset(torch.ones(8, 2)))):
                worker.log(loss=1, another=1, more=2, known=number)
        self.assertEqual(told.getvalue().count("one too many"), 1)
        self.assertEqual(job.known, 1)


class ModelTest(unittest.TestCase):
    def refused(self, model, why):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with self.assertRaisesRegex(spotps.Error, why):
            worker_of(MemoryJob(), model, optimizer)

    def test_statistics_that_are_means_over_all_batches_are_refused(self):
        self.refused(nn.BatchNorm1d(2, momentum=None), "BatchNorm1d has momentum None.*0.1")
        norm = nn.BatchNorm1d(2, momentum=None, track_running_stats=False)
        worker_of(MemoryJob(), norm, torch.optim.SGD(norm.parameters(), lr=0.1))

    def test_a_lazy_module_is_refused_with_the_remedy(self):
        self.refused(nn.Sequential(nn.LazyLinear(2)), "0.weight has no shape yet.*one batch")

    def test_state_that_is_no_tensor_is_told(self):
        class Extra(nn.Linear):
            def get_extra_state(self):
                return {"a": 1}

            def set_extra_state(self, state):
                pass

        model = Extra(2, 1)
        with contextlib.redirect_stderr(io.StringIO()) as told:
            worker_of(MemoryJob(), model, torch.optim.SGD(model.parameters(), lr=0.1))
        self.assertIn("get_extra_state gives is no tensor", told.getvalue())


class DataSetTest(unittest.TestCase):
    def test_a_file_that_threads_share_is_told(self):
        class Rows:
            def __init__(self, **attributes):
                self.__dict__.update(attributes)

            def __len__(self):
                return 4

            def __getitem__(self, number):
                return torch.ones(2)

        model = nn.Linear(2, 1)
        worker = worker_of(MemoryJob(), model, torch.optim.SGD(model.parameters(), lr=0.1))
        for attributes, threads, times in (
            ({"file": io.BytesIO()}, 2, 1),
            ({"file": io.BytesIO()}, 0, 0),
            ({"path": "rows"}, 2, 0),
        ):
            with contextlib.redirect_stderr(io.StringIO()) as told:
                worker.loader(Rows(**attributes), num_workers=threads)
            self.assertEqual(told.getvalue().count("Rows.file is an open file"), times)

    def test_a_data_set_of_tensors_may_have_its_own_rows(self):
        class Augmented(TensorDataset):
            def __getitem__(self, number):
                return tuple(tensor + 100 for tensor in super().__getitem__(number))

        model = nn.Linear(2, 1)
        seen = []
        job = MemoryJob(minibatch=4, tests=3)
        worker = worker_of(job, model, torch.optim.SGD(model.parameters(), lr=0.1))
        data = Augmented(torch.zeros(8, 2))
        worker.evaluate(lambda x: (x.min(), 0), data, 3)
        with contextlib.redirect_stderr(io.StringIO()):
            for (x,) in worker.loader(data):
                seen.append(float(x.min()))
                worker.log(loss=1)
        self.assertEqual(seen, [100, 100])
        self.assertEqual(job.evaluated, [(100, 0)] * 2)


if __name__ == "__main__":
    unittest.main()
