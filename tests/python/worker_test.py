"""spotps.Worker without a run. Exit code 77: there is no PyTorch, or one before 2.0."""

import contextlib
import io
import json
import sys
import threading
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
from spotps import _data, _early, _model, _optimizer


def tensors(model, optimizer=None):
    return _model.tensors_of(model, optimizer or torch.optim.SGD(model.parameters(), lr=0.1))


class TensorsTest(unittest.TestCase):
    def test_parameters_and_running_statistics_are_declared_by_their_rules(self):
        model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3, momentum=0.25))
        found = {item.name: item.rate for item in tensors(model) if item.kept_as is None}
        self.assertEqual(
            found,
            {
                "0.weight": 0,
                "0.bias": 0,
                "1.weight": 0,
                "1.bias": 0,
                "1.running_mean": 0.25,
                "1.running_var": 0.25,
            },
        )

    def test_statistics_that_do_not_move_are_frozen(self):
        norm = nn.BatchNorm1d(3, momentum=0.0)
        frozen = [item.name for item in tensors(norm) if item.is_frozen]
        self.assertEqual(frozen, ["running_mean", "running_var", "num_batches_tracked"])

    def test_tied_weights_count_once_and_are_known_by_all_their_names(self):
        model = nn.ModuleDict({"a": nn.Linear(2, 2, bias=False), "b": nn.Linear(2, 2, bias=False)})
        model["b"].weight = model["a"].weight
        self.assertEqual([item.name for item in tensors(model)], ["a.weight"])
        self.assertEqual(tensors(model)[0].aliases, ["b.weight"])
        model["a"].weight.requires_grad_(False)
        model["c"] = nn.Linear(1, 1)
        self.assertEqual(tensors(model)[0].aliases, ["b.weight"])
        self.assertTrue(tensors(model)[0].is_frozen)

    def test_what_a_state_dict_has_is_known_in_any_type_and_nothing_else_is(self):
        class Everything(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(2, 2)
                self.base = nn.Parameter(torch.ones(2, dtype=torch.bfloat16), requires_grad=False)
                self.norm = nn.BatchNorm1d(2)
                shared = torch.tensor(2.5)
                for name, buffer in (
                    ("mask", torch.tensor([True, False])),
                    ("ids", torch.arange(3)),
                    ("none", torch.zeros(0, 2)),
                    ("wide", torch.ones(1, dtype=torch.float64)),
                    ("infinite", torch.tensor([float("inf")])),
                    ("scale", shared),
                    ("scale_again", shared),
                ):
                    self.register_buffer(name, buffer)
                self.register_buffer("hidden", torch.ones(2), persistent=False)

        model = Everything()
        with contextlib.redirect_stderr(io.StringIO()) as told:
            found = tensors(model, torch.optim.SGD(model.layer.parameters(), lr=0.1))
        names = [name for item in found for name in (item.name, *item.aliases)]
        self.assertEqual(sorted(names), sorted(model.state_dict()))
        kept = {item.name: (item.kept_as, item.is_counter) for item in found if item.kept_as}
        self.assertEqual(
            kept,
            {
                "base": ("BF16", False),
                "norm.num_batches_tracked": ("I64", True),
                "mask": ("BOOL", False),
                "ids": ("I64", False),
                "none": ("F32", False),
                "wide": ("F64", False),
                "infinite": ("F32", False),
            },
        )
        self.assertEqual(told.getvalue().count("stays on each worker"), 1)
        self.assertIn("wide is torch.float64", told.getvalue())

    def test_buffers_that_no_file_can_have_stay_on_the_worker_or_are_refused_with_the_remedy(self):
        layer = nn.Linear(2, 2)
        for count, values in enumerate(
            (
                torch.eye(2, dtype=torch.int64).to_sparse(),
                torch.eye(2, dtype=torch.float64).to_sparse(),
                torch.ones(2, dtype=torch.int64, device="meta"),
            )
        ):
            layer.register_buffer(f"odd{count}", values)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        with contextlib.redirect_stderr(io.StringIO()) as told:
            found = tensors(layer, optimizer)
        self.assertEqual([item.name for item in found], ["weight", "bias"])
        self.assertEqual(told.getvalue().count("stays on each worker, and is not in the"), 3)
        for values in (torch.eye(2).to_sparse(), torch.ones(2, device="meta")):
            layer.register_buffer("odd", values)
            with self.assertRaisesRegex(spotps.Error, r"^odd is .* persistent=False"):
                tensors(layer, optimizer)
            layer.register_buffer("odd", values, persistent=False)
            with contextlib.redirect_stderr(io.StringIO()):
                tensors(layer, optimizer)

    def test_two_parameters_in_the_same_memory_are_refused(self):
        model = nn.ModuleDict({"a": nn.Linear(2, 2, bias=False), "b": nn.Linear(2, 2, bias=False)})
        for values in (model["a"].weight.data, model["a"].weight.data.t()):
            model["b"].weight = nn.Parameter(values)
            with self.assertRaisesRegex(spotps.Error, "b.weight and a.weight share memory"):
                tensors(model)
        model["b"].weight.requires_grad_(False)
        with self.assertRaisesRegex(spotps.Error, "b.weight and a.weight share memory"):
            tensors(model)

    def test_parts_of_one_storage_that_have_no_element_in_common_are_tensors_of_their_own(self):
        flat = torch.zeros(2, 4)
        model = nn.ParameterDict({"a": flat[:, :2], "b": flat[:, 2:]})
        self.assertEqual([item.name for item in tensors(model)], ["a", "b"])

    def test_frozen_parameters_are_kept_and_not_trained(self):
        model = nn.Linear(2, 2)
        model.bias.requires_grad_(False)
        frozen = {item.name: item.is_frozen for item in tensors(model)}
        self.assertEqual(frozen, {"weight": False, "bias": True})

    def test_weight_decay_is_of_the_groups_that_have_it(self):
        model = nn.Linear(2, 2)
        optimizer = torch.optim.AdamW(
            [{"params": [model.weight]}, {"params": [model.bias], "weight_decay": 0}]
        )
        decays = {item.name: item.decays for item in tensors(model, optimizer)}
        self.assertEqual(decays, {"weight": True, "bias": False})

    def test_a_compiled_model_has_the_names_of_the_plain_one(self):
        model = nn.Linear(2, 2)
        try:
            compiled = torch.compile(model)
        except RuntimeError as error:  # PyTorch 2.0 can't with Python 3.11
            self.skipTest(str(error))
        self.assertEqual([item.name for item in tensors(compiled)], ["weight", "bias"])

    def test_what_no_server_holds_is_refused_in_one_sentence(self):
        class FSDPLinear(nn.Linear):  # as fully_shard names them
            pass

        class DataParallel(nn.Module):
            def __init__(self):
                super().__init__()
                self.module = nn.Linear(2, 2)

        for model, why in (
            (nn.Linear(2, 2, dtype=torch.float64), "weight is torch.float64; spotps takes float32"),
            (nn.Linear(2, 2, dtype=torch.bfloat16), "weight is torch.bfloat16"),
            (FSDPLinear(2, 2), "wrapped in FSDPLinear"),
            (DataParallel(), "wrapped in DataParallel"),
        ):
            with self.assertRaisesRegex(spotps.Error, why):
                tensors(model)
        with self.assertRaisesRegex(spotps.Error, "has parameters that the model doesn't"):
            tensors(nn.Linear(2, 2), torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=1))


class OptimizerTest(unittest.TestCase):
    def job(self, make):
        return _optimizer.optimizer_of(make(nn.Linear(2, 2).parameters()))

    def test_those_that_the_servers_have_are_told_as_the_job_has_them(self):
        o = torch.optim
        self.assertEqual(self.job(lambda p: o.SGD(p, lr=0.5)), {"kind": "sgd", "lr": 0.5})
        self.assertEqual(
            self.job(lambda p: o.SGD(p, lr=0.5, momentum=0.9, nesterov=True, weight_decay=0.1)),
            {"kind": "sgd", "lr": 0.5, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
        )
        self.assertEqual(
            self.job(lambda p: o.AdamW(p, lr=0.5, betas=(0.0, 0.5), eps=0.25, weight_decay=0)),
            {"kind": "adamw", "lr": 0.5, "beta1": 0.0, "beta2": 0.5, "epsilon": 0.25},
        )
        self.assertEqual(self.job(lambda p: o.RMSprop(p, lr=1))["kind"], "rmsprop")
        self.assertEqual(self.job(lambda p: o.Adagrad(p, lr=1))["kind"], "adagrad")

    def test_those_that_they_lack_are_none(self):
        o = torch.optim
        self.assertIsNone(self.job(lambda p: o.SGD(p, lr=1, momentum=0.5, dampening=0.1)))
        self.assertIsNone(self.job(lambda p: o.Adam(p, amsgrad=True)))
        self.assertIsNone(self.job(lambda p: o.Adam(p, maximize=True)))
        self.assertIsNone(self.job(lambda p: o.NAdam(p)))
        self.assertIsNone(
            self.job(lambda p: o.SGD([{"params": [q], "lr": 0.1 * (i + 1)} for i, q in enumerate(p)]))
        )


    def of_groups(self, kind, first, second, **defaults):
        layer = nn.Linear(2, 2)
        groups = [{"params": [layer.weight], **first}, {"params": [layer.bias], **second}]
        return _optimizer.optimizer_of(kind(groups, **defaults))

    def test_groups_may_differ_in_having_weight_decay_alone(self):
        o = torch.optim
        told = self.of_groups(o.AdamW, {"weight_decay": 0.1}, {"weight_decay": 0.0}, lr=0.5)
        self.assertEqual((told["kind"], told["weight_decay"]), ("adamw", 0.1))
        for kind, first, second in (
            (o.SGD, {"weight_decay": 0.1}, {"weight_decay": 0.001}),
            (o.Adam, {}, {"amsgrad": True}),
            (o.SGD, {}, {"maximize": True}),
            (o.SGD, {}, {"dampening": 0.5}),
            (o.RMSprop, {}, {"centered": True}),
            (o.Adagrad, {}, {"lr_decay": 0.5}),
        ):
            self.assertIsNone(self.of_groups(kind, first, second, lr=0.5), (kind, second))

    def test_an_optimizer_of_somebody_else_is_none_whatever_its_name(self):
        class SGD(torch.optim.Optimizer):
            def __init__(self, params, lr):
                super().__init__(params, {"lr": lr})

        class Adam(torch.optim.Adam):
            def step(self, closure=None):
                raise AssertionError

        for kind in (SGD, Adam):
            self.assertIsNone(self.job(lambda p, kind=kind: kind(p, lr=1)))

    def test_settings_may_be_tensors(self):
        beta, told = torch.tensor(0.5), None
        try:
            told = self.job(
                lambda p: torch.optim.Adam(
                    p, lr=torch.tensor(0.25), betas=(beta, beta), capturable=True, foreach=False
                )
            )
        except (TypeError, ValueError):
            self.skipTest(f"PyTorch {torch.__version__} takes none; 2.7 does")
        self.assertEqual(json.loads(json.dumps(told))["beta1"], 0.5)

    def test_a_state_that_was_loaded_is_told_to_be_of_no_use_without_local_steps(self):
        model = nn.Linear(2, 1)
        for steps, times in ((1, 1), (2, 0)):
            optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
            worker = worker_of(MemoryJob(local_steps=steps), model, optimizer)
            with contextlib.redirect_stderr(io.StringIO()) as told:
                for x, in worker.loader(TensorDataset(torch.ones(8, 2))):
                    model(x).mean().backward()
                    optimizer.step()
                    worker.log(loss=1)
            self.assertEqual(told.getvalue().count("the optimizer's state"), times)

    def test_groups_may_have_names(self):
        told = self.of_groups(torch.optim.SGD, {"name": "trunk"}, {"name": "head"}, lr=0.5)
        self.assertEqual(told["lr"], 0.5)

    def test_adam_with_decoupled_weight_decay_is_adamw(self):
        try:
            told = self.job(
                lambda p: torch.optim.Adam(p, weight_decay=0.25, decoupled_weight_decay=True)
            )
        except TypeError:
            self.skipTest(f"PyTorch {torch.__version__} has none; 2.7 has")
        self.assertEqual((told["kind"], told["weight_decay"]), ("adamw", 0.25))


class EarlyGradientsTest(unittest.TestCase):
    def setUp(self):
        if torch.__version__.startswith("2.0."):
            self.skipTest("PyTorch 2.0 has no hooks after a gradient")
        self.model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.BatchNorm1d(2, affine=False))
        self.model.append(nn.Linear(2, 1, bias=False))
        self.sent = []
        self.may_send = True
        found = [item for item in tensors(self.model) if not item.is_frozen]
        self.names = [item.name for item in found]
        self.early = _early.EarlyGradients(found, lambda: self.may_send, self.sent.append)

    def backward(self):
        self.model(torch.randn(4, 2)).sum().backward()

    def test_the_last_layer_is_sent_first_and_buffers_not_at_all(self):
        self.backward()
        self.assertEqual([self.names[number] for number in self.sent], ["2.weight", "0.weight"])
        self.assertTrue(self.early.is_any_sent)
        self.early.end_step()
        self.assertFalse(self.early.is_any_sent)

    def test_a_backward_that_is_a_part_of_a_step_sends_nothing(self):
        self.may_send = False
        self.backward()
        self.assertEqual(self.sent, [])
        self.may_send = True
        self.backward()  # adds to what is there
        self.assertEqual(len(self.sent), 2)
        self.early.end_step()

    def test_a_gradient_that_changes_afterwards_is_refused(self):
        parameters = list(self.model.parameters())

        def clip():
            nn.utils.clip_grad_norm_(parameters, 1.0)

        def replace():
            parameters[0].grad = torch.zeros(2, 2)

        for change in (clip, replace):
            for parameter in parameters:
                parameter.grad = None
            self.backward()
            change()
            with self.assertRaisesRegex(spotps.Error, "has changed since backward made it"):
                self.early.end_step()

    def test_a_second_backward_is_refused(self):
        self.backward()
        with self.assertRaisesRegex(spotps.Error, r"a second backward\(\) in one step"):
            self.backward()


class AccumulationTest(unittest.TestCase):
    def train(self, samples, accumulate, minibatch=4):
        torch.manual_seed(2)
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        job = MemoryJob(minibatch=minibatch, epochs=2)
        worker = worker_of(job, model, optimizer, accumulate=accumulate)
        data = TensorDataset(torch.randn(samples, 2), torch.randn(samples, 1))
        seen = []
        for number, (x, y) in enumerate(worker.loader(data)):
            loss = nn.functional.mse_loss(model(x), y) / accumulate
            loss.backward()
            seen.append(len(x))
            if (number + 1) % accumulate == 0:  # as scripts count
                optimizer.step()
                optimizer.zero_grad()
            worker.log(loss=loss * accumulate)
        return job, seen

    def test_each_step_has_as_many_batches_whatever_is_left_of_the_epoch(self):
        for samples in range(1, 17):
            for accumulate in (1, 2, 3, 4, 5, 8):
                job, seen = self.train(samples, accumulate)
                steps = 2 * -(-samples // 4)
                self.assertEqual(len(job.finished), steps)
                self.assertEqual(len(seen), steps * accumulate, (samples, accumulate))
                for pushed in job.pushed:
                    self.assertGreater(pushed["weight"].abs().sum(), 0)

    def test_batches_differ_by_one_sample_at_most(self):
        self.assertEqual(_data.even_parts(10, 15, 4, 5), [(10, 11), (11, 12), (12, 13), (13, 15)])
        self.assertEqual(_data.even_parts(8, 12, 4, 4), [(8, 9), (9, 10), (10, 11), (11, 12)])
        self.assertEqual(_data.even_parts(0, 10, 4, 16), [(0, 2), (2, 5), (5, 7), (7, 10)])

    def test_samples_that_are_fewer_than_batches_come_again(self):
        self.assertEqual(_data.even_parts(5, 7, 4, 4), [(5, 6), (5, 6), (6, 7), (6, 7)])
        self.assertEqual(_data.even_parts(5, 6, 3, 9), [(5, 6)] * 3)

    def test_no_batch_has_one_sample_alone_where_those_of_whole_minibatches_have_two(self):
        for size in range(2, 17):
            for count in (2, 3, 4, 5, 8):
                parts = _data.even_parts(100, 100 + size, count, 16)
                self.assertEqual(len(parts), count)
                self.assertTrue(all(end - begin >= 2 for begin, end in parts), parts)
                places = {place for part in parts for place in range(*part)}
                self.assertEqual(places, set(range(100, 100 + size)))
        model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        worker = worker_of(MemoryJob(minibatch=16), model, optimizer, accumulate=4)
        for number, (x,) in enumerate(worker.loader(TensorDataset(torch.randn(22, 2)))):
            model(x).mean().backward()  # raises for a batch of one
            if (number + 1) % 4 == 0:
                optimizer.step()
            worker.log(loss=1)

    def test_the_gradient_of_a_step_is_that_of_its_minibatch(self):
        self.assertTrue(
            torch.allclose(
                self.train(4, 1)[0].pushed[0]["weight"], self.train(4, 4)[0].pushed[0]["weight"]
            )
        )


class RunningStatisticsTest(unittest.TestCase):
    def make(self):
        torch.manual_seed(5)
        return nn.Sequential(nn.BatchNorm1d(2, momentum=0.25), nn.Linear(2, 1))

    def test_they_are_those_of_the_plain_loop_and_weigh_as_all_forward_passes_of_a_push(self):
        data = TensorDataset(torch.randn(24, 2) + 3)
        for accumulate, local_steps, rate in ((1, 1, 0.25), (2, 1, 0.4375), (1, 3, 0.25)):
            model = self.make()
            job = MemoryJob(minibatch=4 * accumulate, local_steps=local_steps)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            worker = worker_of(job, model, optimizer, accumulate=accumulate)
            plain = self.make()
            for number, (x,) in enumerate(worker.loader(data)):
                plain(x)
                model(x).mean().backward()
                if (number + 1) % accumulate == 0:
                    optimizer.step()
                worker.log(loss=1)
            declared = job.rates[job.names.index("0.running_mean")]
            self.assertAlmostEqual(declared, rate)
            server = job.value("0.running_mean")
            self.assertTrue(torch.allclose(server, plain[0].running_mean, rtol=1e-4), accumulate)
            # The observation is one: no further off than the data, so that two workers may push it.
            self.assertLess((job.pushed[0]["0.running_mean"] - 3).abs().max(), 2)

    def test_a_local_step_that_the_script_leaves_out_was_a_forward_pass(self):
        model = self.make()
        job = MemoryJob(minibatch=4, local_steps=3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        worker = worker_of(job, model, optimizer)
        for x, in worker.loader(TensorDataset(torch.full((12, 2), 3.0))):
            model(x)
            worker.log(loss=1)
        self.assertTrue(torch.allclose(job.pushed[0]["0.running_mean"], torch.full((2,), 3.0)))


class PrefetchTest(unittest.TestCase):
    class Rows:
        """Counts how many are fetched at once: waits until so many are, or once for seconds."""

        def __init__(self, wanted):
            self.wanted, self.now, self.most = wanted, 0, 0
            self.changed = threading.Condition()

        def __len__(self):
            return 64

        def __getitem__(self, row):
            with self.changed:
                self.now += 1
                self.most = max(self.most, self.now)
                self.changed.notify_all()
                if threading.current_thread() is not threading.main_thread():
                    if not self.changed.wait_for(lambda: self.most >= self.wanted, 10):
                        self.wanted = 0
                self.now -= 1
            return torch.full((2,), float(row))

    def train(self, data, **arguments):
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        worker = worker_of(MemoryJob(minibatch=4, epochs=2), model, optimizer)
        seen = []
        for x in worker.loader(data, **arguments):
            seen += x[:, 0].int().tolist()
            worker.log(loss=1)
        self.assertEqual(seen, 2 * list(range(64)))

    def test_all_threads_of_the_loader_fetch_at_once(self):
        data = self.Rows(4)
        self.train(data, num_workers=4)
        self.assertEqual(data.wanted, 4)

    def test_batches_are_the_same_without_threads(self):
        self.train(self.Rows(1))

    def test_guesses_that_do_not_come_true_make_room(self):
        data = _data.Data(self.Rows(0), None, 2)
        for begin in range(0, 64, 4):
            data.foresee((0, begin, begin + 4), lambda b=begin: list(range(b, b + 4)))
        self.assertEqual(list(data._ahead), [(0, begin, begin + 4) for begin in (48, 52, 56, 60)])

    def test_a_number_of_threads_below_0_is_refused(self):
        with self.assertRaisesRegex(spotps.Error, "num_workers -1; allowed: 0 or more"):
            self.train(self.Rows(1), num_workers=-1)


class OneLoopTest(unittest.TestCase):
    def setUp(self):
        self.model = nn.Linear(2, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.data = TensorDataset(torch.randn(16, 2))
        self.job = MemoryJob(minibatch=4)
        self.worker = worker_of(self.job, self.model, self.optimizer)

    def test_a_loop_that_was_left_is_not_begun_again(self):
        for _ in self.worker.loader(self.data):
            break
        with self.assertRaisesRegex(spotps.Error, r"left in the middle of a step \(break"):
            next(iter(self.worker.loader(self.data)))

    def test_two_loaders_at_once_are_refused(self):
        with self.assertRaisesRegex(spotps.Error, "a second loader at the same time"):
            for _ in zip(self.worker.loader(self.data), self.worker.loader(self.data)):
                pass

    def test_a_loop_after_the_job_is_over_has_no_batches(self):
        for wanted in (4, 0):
            batches = 0
            for _ in self.worker.loader(self.data):
                self.worker.log(loss=1)
                batches += 1
            self.assertEqual(batches, wanted)

    def test_a_second_worker_in_a_process_is_refused(self):
        second = MemoryJob()
        with mock.patch("spotps._worker.Client.open", lambda: second):
            with self.assertRaisesRegex(spotps.Error, "a second spotps.Worker in one process"):
                spotps.Worker(self.model, self.optimizer)


class BufferTest(unittest.TestCase):
    class Masked(nn.Module):
        def __init__(self, mask, **arguments):
            super().__init__()
            self.layer = nn.Linear(2, 1)
            self.register_buffer("mask", mask, **arguments)
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x):
            self.calls += 1
            return self.layer(x)

    def train(self, model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        job = MemoryJob(minibatch=4)
        worker = worker_of(job, model, optimizer)
        with contextlib.redirect_stderr(io.StringIO()) as told:
            for x, in worker.loader(TensorDataset(torch.randn(32, 2))):
                model(x).mean().backward()
                optimizer.step()
                worker.log(loss=1)
        return job, told.getvalue()

    def test_constants_are_pushed_as_they_came_whatever_the_servers_have(self):
        job, _ = self.train(self.Masked(torch.rand(8, 8)))
        self.assertEqual(job.value("calls"), 8)
        for pushed in job.pushed:  # what is no other bits than before does not travel
            self.assertTrue(torch.equal(pushed["mask"], job.value("mask")))
        job, _ = self.train(self.Masked(torch.ones(8, 8), persistent=False))
        self.assertNotIn("mask", job.names)

    def test_a_mask_of_infinite_values_is_for_the_model_file_alone(self):
        mask = torch.full((2, 2), float("-inf")).triu(1)
        job, _ = self.train(self.Masked(mask))
        self.assertEqual(job.kept, {"mask": ("F32", [2, 2], False)})
        self.assertEqual(job.compared, {})
        job, _ = self.train(self.Masked(mask, persistent=False))
        self.assertEqual(job.kept, {})

    def test_what_is_for_the_file_alone_is_copied_by_the_process_that_psctl_asks(self):
        model = self.Masked(torch.tensor([True, False]))
        model.base = nn.Parameter(torch.ones(1, dtype=torch.bfloat16), requires_grad=False)
        for is_describing, copied in ((False, ["base"]), (True, ["base", "mask"])):
            job = MemoryJob()
            job.is_describing = is_describing
            worker = worker_of(job, model, torch.optim.SGD(model.layer.parameters(), lr=0.1))
            next(iter(worker.loader(TensorDataset(torch.randn(4, 2)))))
            self.assertEqual(job.has_values, copied)

    def test_what_the_file_has_as_it_began_and_has_changed_is_told_once(self):
        class Counting(self.Masked):
            def forward(self, x):
                self.mask += 1
                self.other = self.other + 1
                return super().forward(x)

        model = Counting(torch.zeros(2, dtype=torch.int64))
        model.register_buffer("other", torch.zeros(1, dtype=torch.int64))
        model.register_buffer("ids", torch.arange(2))
        _, told = self.train(model)
        self.assertEqual(told.count("the model file has"), 1)
        self.assertIn("mask and 1 more buffer as they were when the job began", told)
        self.assertNotIn("model file", self.train(self.Masked(torch.arange(2)))[1])

    def test_infinite_values_that_change_on_this_worker_alone_are_refused(self):
        class Observer(self.Masked):  # as those of quantization
            def forward(self, x):
                self.mask.copy_(torch.minimum(self.mask, x.min()))
                return super().forward(x)

        with self.assertRaisesRegex(spotps.Error, "buffer mask had values.*begin with finite"):
            self.train(Observer(torch.tensor(float("inf"))))
        self.train(Observer(torch.tensor(float("inf")), persistent=False))


class LogTest(unittest.TestCase):
    def train(self, log, samples=12, **job):
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.job = MemoryJob(minibatch=4, **job)
        worker = worker_of(self.job, model, optimizer)
        for number, (x,) in enumerate(worker.loader(TensorDataset(torch.randn(samples, 2)))):
            model(x).mean().backward()
            optimizer.step()
            log(worker, number)
        return self.job.finished

    def test_steps_that_tell_nothing_are_as_the_last_one_that_did(self):
        def log(worker, number):
            if number % 2 == 0:
                worker.log(loss=number + 1, correct=2)

        finished = self.train(log, samples=15)
        self.assertEqual([loss for loss, _, _ in finished], [4, 4, 12, 9])
        self.assertEqual([correct for _, correct, _ in finished], [2, 2, 2, 2])

    def test_batches_of_a_step_that_tell_nothing_are_as_the_others(self):
        def log(worker, number):
            if number % 3 == 0:
                worker.log(loss=torch.tensor(2.0))

        finished = self.train(log, samples=24, local_steps=3)
        self.assertEqual([loss for loss, _, _ in finished], [24, 24])

    def test_a_job_that_waits_for_a_loss_is_not_ended_by_one_that_is_missing(self):
        with self.assertRaisesRegex(spotps.Error, "add worker.log.*where the first batch comes by"):
            self.train(
                lambda worker, n: worker.log(loss=1) if n else None, run={"stop_at_loss": 0.5}
            )

    def test_a_loss_of_each_sample_is_refused(self):
        with self.assertRaisesRegex(spotps.Error, r"a loss of shape \[4\]; give the mean"):
            self.train(lambda worker, _: worker.log(loss=torch.zeros(4)))


class EvaluationTest(unittest.TestCase):
    def test_modules_that_the_script_keeps_in_eval_stay_there(self):
        model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout())
        job = MemoryJob(tests=3)
        worker = worker_of(job, model, torch.optim.SGD(model.parameters(), lr=0.1))
        modes = []

        def evaluate(x):
            modes.append([module.training for module in model])
            return x.sum(), 1

        worker.evaluate(evaluate, TensorDataset(torch.ones(3, 2)))
        model.train()
        model[1].eval()
        for _ in worker.loader(TensorDataset(torch.randn(8, 2))):
            self.assertEqual([module.training for module in model], [True, False, True])
            worker.log(loss=1)
        self.assertEqual(modes, [[False] * 3] * 2)
        self.assertEqual(job.evaluated, [(6, 1)] * 2)

    def test_modules_that_do_more_when_their_mode_changes_are_told(self):
        class Merging(nn.Linear):  # as adapters do
            is_merged = False

            def train(self, mode=True):
                self.is_merged = not mode
                return super().train(mode)

        model = nn.Sequential(Merging(2, 2))
        job = MemoryJob(tests=3)
        worker = worker_of(job, model, torch.optim.SGD(model.parameters(), lr=0.1))
        merged = []

        def evaluate(x):
            merged.append(model[0].is_merged)
            return x.sum(), 1

        worker.evaluate(evaluate, TensorDataset(torch.ones(3, 2)))
        model.train()
        for _ in worker.loader(TensorDataset(torch.randn(8, 2))):
            self.assertFalse(model[0].is_merged)
            worker.log(loss=1)
        self.assertEqual(merged, [True, True])

    def test_samples_of_several_lengths_are_put_together_by_the_script(self):
        model = nn.Linear(1, 1)
        job = MemoryJob(tests=3)
        worker = worker_of(job, model, torch.optim.SGD(model.parameters(), lr=0.1))
        seen = []

        def evaluate(batch):
            seen.append(batch["text"])
            return len(batch["text"]), 0

        worker.evaluate(
            evaluate,
            [torch.arange(length) for length in (1, 2, 3)],
            2,
            collate_fn=lambda items: {"text": nn.utils.rnn.pad_sequence(items)},
        )
        for _ in worker.loader(TensorDataset(torch.randn(4, 1))):
            worker.log(loss=1)
        self.assertEqual([batch.tolist() for batch in seen], [[[0, 0], [0, 1]], [[0], [1], [2]]])
        self.assertEqual(job.evaluated, [(5, 0)])
        with self.assertRaisesRegex(spotps.Error, "batch_size 0; allowed: 1 or more"):
            worker_of(MemoryJob(), model, torch.optim.SGD(model.parameters())).evaluate(None, [], 0)


class SeedTest(unittest.TestCase):
    def masks(self, seat, does_seed):
        torch.manual_seed(7)
        model = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
        job = MemoryJob(minibatch=4, seat=seat)
        worker = worker_of(job, model, torch.optim.SGD(model.parameters(), lr=0.1))
        masks = []
        for number, _ in enumerate(worker.loader(TensorDataset(torch.ones(64, 2)))):
            if number == 0 and does_seed:  # as docs/pytorch.md has it
                torch.manual_seed(7 + 1000 * worker.seat + int(1e9 * worker.progress))
            masks.append(model[1](torch.ones(8)))
            worker.log(loss=1)
        return torch.stack(masks)

    def test_dropout_is_the_same_on_all_workers_until_the_loop_seeds_by_seat(self):
        self.assertTrue(torch.equal(self.masks(0, False), self.masks(1, False)))
        self.assertFalse(torch.equal(self.masks(0, True), self.masks(1, True)))
        self.assertTrue(torch.equal(self.masks(1, True), self.masks(1, True)))


class GradScalerTest(unittest.TestCase):
    def train(self, make, has_scaler=True, **arguments):
        torch.manual_seed(4)
        model = nn.Linear(2, 1)
        job = MemoryJob(minibatch=4)
        optimizer = make(model.parameters())
        worker = worker_of(job, model, optimizer, **arguments)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, enabled=has_scaler)
        for number, (x,) in enumerate(worker.loader(TensorDataset(torch.randn(12, 2)))):
            optimizer.zero_grad()
            loss = model(x).mean() * (float("inf") if number == 1 and has_scaler else 1)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            worker.log(loss=1)
        return job.pushed

    def setUp(self):
        if not hasattr(torch.amp, "GradScaler"):
            self.skipTest(f"PyTorch {torch.__version__} has no GradScaler of a CPU; 2.3 has")

    def test_the_servers_get_gradients_without_the_scale_and_zeros_for_a_step_that_is_left_out(self):
        o = torch.optim
        for make in (
            lambda p: o.SGD(p, lr=0.1),
            lambda p: o.SGD(p, lr=0.1, fused=True),
            lambda p: o.Adam(p, lr=0.1, fused=True),
        ):
            plain = self.train(make, has_scaler=False)
            scaled = self.train(make)
            self.assertTrue(torch.equal(scaled[0]["weight"], plain[0]["weight"]))
            self.assertEqual(scaled[1]["weight"].tolist(), [[0, 0]])
            self.assertEqual(scaled[2]["bias"].tolist(), [1])

    def test_gradients_that_left_during_backward_are_scaled_which_is_refused(self):
        with self.assertRaisesRegex(spotps.Error, "overlap_backward"):
            self.train(lambda p: torch.optim.SGD(p, lr=0.1, fused=True), overlap_backward=True)


class SchedulerTest(unittest.TestCase):
    def train(self, make, change=None, steps=3, **job):
        """`make`: a scheduler of an optimizer. The lr of each step."""
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.5)
        scheduler = make(optimizer) if make else None
        self.job = MemoryJob(minibatch=4, **job)
        worker = worker_of(self.job, model, optimizer)
        rates = []
        for x, in worker.loader(TensorDataset(torch.randn(4 * steps, 2))):
            rates.append(optimizer.param_groups[0]["lr"])
            model(x).mean().backward()
            optimizer.step()
            if scheduler:
                scheduler.step()
            if change:
                change(optimizer)
            worker.log(loss=1)
        return rates

    SCHEDULERS = (
        lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 1.0, total_steps=10),
        lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda step: step / 10),
        lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 10),
        lambda o: torch.optim.lr_scheduler.StepLR(o, 1),
    )

    def test_the_servers_would_not_follow_one_which_is_refused_with_the_remedy(self):
        for make in self.SCHEDULERS:
            with self.assertRaisesRegex(spotps.Error, "a scheduler.*optimizer.schedule.*local steps"):
                self.train(make)
            self.assertEqual(self.job.finished, [])
            self.assertIsNone(self.job.optimizer)  # so that psctl check asks for the job's

    def test_where_the_job_has_a_schedule_it_is_passed_over_and_told_once(self):
        for make in self.SCHEDULERS:
            with contextlib.redirect_stderr(io.StringIO()) as told:
                self.train(make, optimizer={"schedule": {"kind": "cosine", "warmup": 0}})
            self.assertEqual(len(self.job.finished), 3)
            self.assertEqual(told.getvalue().count("the servers go by optimizer.schedule"), 1)

    def test_a_state_dict_of_an_optimizer_that_had_one_is_no_scheduler(self):
        other = torch.optim.SGD(nn.Linear(2, 1).parameters(), lr=0.25, momentum=0.5)
        torch.optim.lr_scheduler.StepLR(other, 1)

        def load(optimizer):
            optimizer.load_state_dict(other.state_dict())

        self.assertEqual(self.train(load), [0.25] * 3)
        self.assertEqual(self.job.optimizer["lr"], 0.25)

    def test_what_an_optimizer_counts_for_itself_is_no_change(self):
        def count(optimizer):
            group = optimizer.param_groups[0]
            group["k"] = group.get("k", 0) + 1

        self.train(count, count)
        self.assertEqual(len(self.job.finished), 3)

    def test_with_local_steps_they_work(self):
        rates = self.train(self.SCHEDULERS[3], local_steps=2)
        self.assertEqual([round(rate, 6) for rate in rates], [0.5, 0.05, 0.005])

    def test_a_rate_or_momentum_that_the_script_changes_is_refused(self):
        for name in ("lr", "momentum", "weight_decay"):
            def change(optimizer, name=name):
                optimizer.param_groups[0][name] *= 0.5
                optimizer.param_groups[0][name] += 0.125

            with self.assertRaisesRegex(spotps.Error, f"has changed {name} of .* group 0"):
                self.train(None, change)
            self.assertEqual(len(self.job.finished), 1)
            self.train(None, change, local_steps=2)

    def test_a_rate_that_is_set_before_the_loop_is_the_one_that_is_told(self):
        model = nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        job = MemoryJob()
        worker = worker_of(job, model, optimizer)
        optimizer.param_groups[0]["lr"] = 0.25
        for x, in worker.loader(TensorDataset(torch.randn(4, 2))):
            model(x).mean().backward()
            optimizer.step()
            worker.log(loss=1)
        self.assertEqual(job.optimizer["lr"], 0.25)


class TrainedElsewhereTest(unittest.TestCase):
    def train(self, step, model, optimizer, **job):
        worker = worker_of(MemoryJob(minibatch=4, **job), model, optimizer)
        for x, in worker.loader(TensorDataset(torch.randn(16, 2))):
            model(x).mean().backward()
            optimizer.step()
            step()
            worker.log(loss=1)

    def refused(self, sentence, change):
        for local_steps in (1, 2):
            model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
            mine = torch.optim.SGD(model[0].parameters(), lr=0.1)
            theirs = torch.optim.SGD(model[1].parameters(), lr=0.1)
            with self.assertRaisesRegex(spotps.Error, sentence):
                self.train(
                    lambda m=model, o=mine, t=theirs: change(m, o, t),
                    model,
                    mine,
                    local_steps=local_steps,
                )

    def test_a_second_optimizer_trains_where_nobody_sees_it(self):
        self.refused("1.weight was frozen or not in the optimizer", lambda m, o, t: t.step())

    def test_a_group_that_is_added_later_is_refused_with_a_name(self):
        self.refused(
            r"have changed since .* \(1.weight\)",
            lambda m, o, t: len(o.param_groups) > 1 or o.add_param_group({"params": m[1].weight}),
        )

    def test_parameters_that_are_thawed_in_the_loop_are_refused(self):
        model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
        model[1].bias.requires_grad_(False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with self.assertRaisesRegex(spotps.Error, "1.bias was frozen"):
            self.train(lambda: model[1].bias.requires_grad_(True), model, optimizer)

    def test_values_that_are_loaded_between_worker_and_loop_are_the_first_ones(self):
        model = nn.Linear(2, 2)
        optimizer = torch.optim.SGD([model.weight], lr=0.1)
        job = MemoryJob()
        worker = worker_of(job, model, optimizer)
        with torch.no_grad():
            model.bias.fill_(3)
        for _ in worker.loader(TensorDataset(torch.randn(8, 2))):
            worker.log(loss=1)
        self.assertEqual(job.frozen, ["bias"])

    def test_frozen_parameters_of_any_type_are_compared_between_workers_by_their_bytes(self):
        model = nn.ModuleDict({"adapter": nn.Linear(2, 1), "norm": nn.BatchNorm1d(1)})
        base = torch.tensor([1.5, -2], dtype=torch.bfloat16)
        model.base = nn.Parameter(base, requires_grad=False)
        model.scale = nn.Parameter(torch.tensor(3, dtype=torch.int8), requires_grad=False)
        job = MemoryJob()
        worker = worker_of(job, model, torch.optim.SGD(model["adapter"].parameters(), lr=0.1))
        for x, in worker.loader(TensorDataset(torch.randn(4, 2))):
            model["adapter"](x).mean().backward()
            worker._optimizer.step()
            worker.log(loss=1)
        self.assertEqual(job.kept["scale"], ("I8", [], False), "it is no counter")
        self.assertEqual(
            job.compared, {"base": bytes(base.view(torch.int8).numpy()), "scale": b"\3"}
        )

    def test_a_frozen_embedding_may_scale_the_rows_that_it_reads(self):
        words = nn.Embedding(4, 2, max_norm=0.1)
        words.weight.requires_grad_(False)
        model = nn.Sequential(words, nn.Linear(2, 1))
        worker = worker_of(MemoryJob(), model, torch.optim.SGD(model[1].parameters(), lr=0.1))
        for x, in worker.loader(TensorDataset(torch.randint(0, 4, (8, 1)))):
            model(x).mean().backward()
            worker._optimizer.step()
            worker.log(loss=1)

    def test_statistics_that_do_not_move_may_be_written(self):
        model = nn.Sequential(nn.BatchNorm1d(2, momentum=0.0), nn.Linear(2, 1))
        self.train(lambda: None, model, torch.optim.SGD(model.parameters(), lr=0.1))


class AloneTest(unittest.TestCase):
    def test_without_a_job_the_script_trains_by_itself(self):
        torch.manual_seed(1)
        model = nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        worker = spotps.Worker(model, optimizer)
        self.assertTrue(worker.is_alone)
        x = torch.linspace(-1, 1, 100).view(-1, 1)
        seen = 0
        for a, b in worker.loader(TensorDataset(x, 3 * x + 1), 10, epochs=20, num_workers=2):
            seen += len(a)
            optimizer.zero_grad()
            loss = ((model(a) - b) ** 2).mean()
            loss.backward()
            optimizer.step()
            worker.log(loss=loss)
        self.assertEqual(seen, 2000)
        self.assertAlmostEqual(model.weight.item(), 3, places=2)
        self.assertAlmostEqual(model.bias.item(), 1, places=2)

    def test_a_script_that_reads_by_itself_gets_ranges_of_samples(self):
        model = nn.Linear(1, 1)
        worker = spotps.Worker(model, torch.optim.SGD(model.parameters(), lr=0.1))
        epochs = {0: [], 1: []}
        for r in worker.ranges(10, 4, epochs=2):
            self.assertEqual(len(r), len(r.samples))
            self.assertEqual(r.samples, r.samples[: r.end - r.begin])
            epochs[r.epoch] += r.samples
        for seen in epochs.values():
            self.assertEqual(sorted(seen), list(range(10)))
        self.assertNotEqual(epochs[0], epochs[1])
        with self.assertRaisesRegex(spotps.Error, "0 samples; allowed: 1 or more"):
            worker.ranges(0)

    def test_a_data_set_without_places_is_refused_with_the_remedy(self):
        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter([])

        model = nn.Linear(1, 1)
        worker = spotps.Worker(model, torch.optim.SGD(model.parameters(), lr=0.1))
        with self.assertRaisesRegex(spotps.Error, "Stream.* has no len.*worker.ranges"):
            worker.loader(Stream())

    def test_arguments_that_make_no_sense_are_refused(self):
        model = nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for arguments in ({"accumulate": 0}, {"local_steps": 0}):
            with self.assertRaisesRegex(spotps.Error, "allowed: 1 or more"):
                spotps.Worker(model, optimizer, **arguments)


if __name__ == "__main__":
    unittest.main()
