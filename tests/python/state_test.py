"""spotps.Worker.state_dict. Exit code 77: there is no PyTorch, or one before 2.0."""

import io
import random
import sys
import unittest

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

DATA = TensorDataset(torch.randn(64, 3), torch.randn(64, 1))


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=0.01)


def train(worker, model, optimizer, samples, state=None):
    """From the state that the first batch loads. Returns what the steps drew."""
    drawn = []
    for number, (x, y) in enumerate(worker.loader(torch.utils.data.Subset(DATA, range(samples)))):
        if number == 0 and state is not None:
            worker.load_state_dict(state)
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()
        worker.log(loss=1.0)
        drawn.append((random.random(), float(torch.rand(()))))
    return drawn


def through_a_file(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


class StateTest(unittest.TestCase):
    def test_moments_and_generators_go_on_where_they_were(self):
        model = nn.Linear(3, 1)
        first = adam(model)
        worker = worker_of(MemoryJob(minibatch=4, local_steps=4), model, first)
        train(worker, model, first, 32)
        state = through_a_file(worker.state_dict())
        expected = [(random.random(), float(torch.rand(()))) for _ in range(4)]

        random.seed(1)
        torch.manual_seed(1)
        successor = nn.Linear(3, 1)
        second = adam(successor)
        worker = worker_of(MemoryJob(minibatch=4, local_steps=4), successor, second)
        self.assertEqual(train(worker, successor, second, 16, through_a_file(state)), expected)
        self.assertEqual(float(second.state[successor.weight]["step"]), 8 + 4)

        third = adam(successor)
        worker_of(None, successor, third).load_state_dict(state)
        for name, value in first.state[model.weight].items():
            self.assertTrue(torch.equal(third.state[successor.weight][name], value), name)

    @unittest.skipIf("numpy" not in sys.modules, "there is no numpy")
    def test_the_generator_of_numpy_too(self):
        numpy = sys.modules["numpy"]
        model = nn.Linear(3, 1)
        worker = worker_of(None, model, adam(model))
        state = through_a_file(worker.state_dict())
        expected = numpy.random.rand(3).tolist()
        worker.load_state_dict(state)
        self.assertEqual(numpy.random.rand(3).tolist(), expected)

    def test_where_the_servers_step_it_has_no_moments(self):
        model = nn.Linear(3, 1)
        optimizer = adam(model)
        worker = worker_of(MemoryJob(), model, optimizer)
        train(worker, model, optimizer, 16)
        self.assertEqual(worker.state_dict()["optimizer"]["state"], {})

    def test_rates_are_those_that_the_script_has_now(self):
        model = nn.Linear(3, 1)
        old = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
        worker = worker_of(MemoryJob(minibatch=4, local_steps=4), model, old)
        train(worker, model, old, 16)
        state = through_a_file(worker.state_dict())
        for steps in (1, 4):
            new = torch.optim.SGD(model.parameters(), lr=0.25, momentum=0.8)
            worker = worker_of(MemoryJob(minibatch=4, local_steps=steps), model, new)
            train(worker, model, new, 16, state)
            group = new.param_groups[0]
            self.assertEqual((group["lr"], group["momentum"]), (0.25, 0.8))
            self.assertEqual(len(new.state), 2)

    def test_generators_that_torch_load_has_put_on_a_device_are_fetched(self):
        class OnDevice:
            def __init__(self, state):
                self.state = state

            def cpu(self):
                return self.state

        model = nn.Linear(3, 1)
        worker = worker_of(None, model, adam(model))
        state = worker.state_dict()
        expected = float(torch.rand(()))
        state["random"]["torch"] = OnDevice(state["random"]["torch"])
        worker.load_state_dict(state)
        self.assertEqual(float(torch.rand(())), expected)

    def test_what_is_no_such_state_is_refused(self):
        model = nn.Linear(3, 1)
        optimizer = adam(model)
        worker = worker_of(MemoryJob(), model, optimizer)
        state = worker.state_dict()
        with self.assertRaisesRegex(spotps.Error, "no 'random'; give what worker.state_dict"):
            worker.load_state_dict({"optimizer": state["optimizer"]})
        other = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1))
        with self.assertRaisesRegex(spotps.Error, "of another optimizer: .*other parameters"):
            worker_of(MemoryJob(), other, adam(other)).load_state_dict(state)
        train(worker, model, optimizer, 16)
        with self.assertRaisesRegex(spotps.Error, "before the first optimizer.step"):
            worker.load_state_dict(state)


if __name__ == "__main__":
    unittest.main()
