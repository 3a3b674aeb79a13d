"""The package without PyTorch and without a run: how the library is found, and what is refused."""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from array import array
from pathlib import Path

import spotps
from spotps import _library


def environment(**variables):
    """Sets these variables, and removes those that are None, for one `with`."""

    class Changed:
        def __enter__(self):
            self.before = dict(os.environ)
            for name, value in variables.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

        def __exit__(self, *_):
            os.environ.clear()
            os.environ.update(self.before)

    return Changed()


class LibraryTest(unittest.TestCase):
    def test_without_a_job_neither_library_nor_torch_is_needed(self):
        code = "import spotps, sys; print(spotps.Client.open(), 'torch' in sys.modules)"
        out = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "SPOTPS_LIBRARY": "/nowhere"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        self.assertEqual(out, "None False\n")

    def test_a_missing_library_is_named_with_the_remedy(self):
        with environment(SPOTPS_WORKER="[]", SPOTPS_LIBRARY="/nowhere/libspotps.so"):
            with self.assertRaisesRegex(spotps.Error, "no libspotps.so at /nowhere.*SPOTPS_LIBRARY"):
                spotps.Client.open()

    def test_a_file_that_is_no_library_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "libspotps.so"
            path.write_text("no library")
            with environment(SPOTPS_WORKER="[]", SPOTPS_LIBRARY=str(path)):
                with self.assertRaisesRegex(spotps.Error, "can't be loaded"):
                    spotps.Client.open()

    def test_the_package_has_the_number_of_the_librarys_interface(self):
        library, why = _library.load()
        self.assertEqual(why, "")
        self.assertEqual(library.abi(), _library.ABI)

    def test_errors_of_the_library_are_exceptions_with_its_sentence(self):
        with environment(SPOTPS_WORKER='["--coordinater=a:1"]', SPOTPS_DESCRIBE=None):
            with self.assertRaisesRegex(spotps.Error, "did you mean --coordinator"):
                spotps.Client.open()


class DescribeTest(unittest.TestCase):
    def test_a_program_that_is_asked_describes_itself_and_ends(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "described"
            with environment(SPOTPS_DESCRIBE=str(path), SPOTPS_WORKER=None):
                client = spotps.Client.open()
            client.declare("weight", [2, 1], array("f", [1.5, 2.5]), decays=True)
            with self.assertRaisesRegex(spotps.Error, "tensor weight: it is declared twice"):
                client.declare("weight", [1], array("f", [0]))
            client.declare("mean", [1], array("f", [3.5]), average_rate=0.1)
            client.declare_frozen("base", [2], array("f", [4.5, 5.5]))
            with self.assertRaisesRegex(spotps.Error, "tensor base: it is declared twice"):
                client.declare("base", [1], array("f", [0]))
            mask = ctypes.create_string_buffer(b"\1\0", 2)
            client.declare_kept("mask", "BOOL", [2], ctypes.addressof(mask), is_compared=True)
            client.declare_alias("head", "weight")
            with self.assertRaisesRegex(spotps.Error, "tensor head: it is declared twice"):
                client.declare_alias("head", "base")
            client.set_samples(7, 1)
            client.set_optimizer({"kind": "sgd"})
            with self.assertRaises(SystemExit) as ended:
                client.next()
            self.assertEqual(ended.exception.code, 0)
            client.close()
            data = path.read_bytes()
            self.assertEqual(array("f", data[-12:]), array("f", [1.5, 2.5, 3.5]))
            self.assertIn(b'\\"train_samples\\":7', data)
            frozen = Path(folder, "described.frozen.safetensors").read_bytes()
            self.assertEqual(array("f", frozen[-10:-2]), array("f", [4.5, 5.5]))
            self.assertEqual(frozen[-2:], b"\1\0")  # the smallest elements are last
            self.assertIn(b'\\"aliases\\":[[\\"head\\",\\"weight\\"]]', frozen)

    def test_values_that_do_not_fill_the_tensor_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            with environment(SPOTPS_DESCRIBE=folder + "/described", SPOTPS_WORKER=None):
                client = spotps.Client.open()
            with self.assertRaises(ValueError):
                client.declare("weight", [3], array("f", [1, 2]))
            client.close()

    def test_a_client_that_is_closed_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            with environment(SPOTPS_DESCRIBE=folder + "/described", SPOTPS_WORKER=None):
                client = spotps.Client.open()
            client.close()
            client.close()
            self.assertFalse(client.is_leaving)
            self.assertIsNone(_library.load()[0].job(None))
            for call in (
                client.finish,
                client.next,
                client.seat,
                lambda: client.declare("weight", [1], array("f", [1])),
                lambda: client.order(0, 0, 1),
                lambda: client.set_samples(1),
                lambda: client.values(0),
                lambda: client.leave("why"),
                lambda: client.fail("why"),
                lambda: client.set_minibatch(1),
            ):
                with self.assertRaisesRegex(spotps.Error, "closed, or was never opened"):
                    call()


# A worker whose loop has begun, though no coordinator answers.
BEGUN = """
import ctypes, os, signal, sys, time
from array import array
import spotps
from spotps import _library as lib

client = spotps.Client.open()
client.declare("weight", [1], array("f", [0]))

def look():
    return lib.load()[0].next(client._handle, 200, ctypes.byref(lib.CTask()))

def end_of(child, seconds):
    for _ in range(int(seconds * 100)):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
"""


class SignalTest(unittest.TestCase):
    def run_begun(self, code):
        with tempfile.TemporaryDirectory() as folder:
            token = Path(folder, "token")
            token.write_text("0123456789abcdef" * 2)
            token.chmod(0o600)
            words = f'["--coordinator=127.0.0.1:9", "--token-file={token}"]'
            return subprocess.run(
                [sys.executable, "-c", BEGUN + code],
                env={**os.environ, "SPOTPS_WORKER": words},
                capture_output=True,
                text=True,
                timeout=60,
            )

    def test_a_forked_child_is_ended_by_sigterm_which_is_no_notice_of_its_parent(self):
        done = self.run_begun(
            """
assert look() == lib.WAIT
child = os.fork()
if child == 0:
    time.sleep(20)
    os._exit(7)
os.kill(child, signal.SIGTERM)
print(end_of(child, 10), look() == lib.WAIT, client.is_leaving)
"""
        )
        self.assertEqual(done.stdout, f"{-signal.SIGTERM} True False\n", done.stderr)

    def test_a_child_has_the_handler_that_the_program_had_before(self):
        done = self.run_begun(
            """
signal.signal(signal.SIGTERM, lambda *_: os._exit(9))
assert look() == lib.WAIT
child = os.fork()
if child == 0:
    time.sleep(20)
    os._exit(7)
time.sleep(0.5)  # Python drops what comes at once in a child
os.kill(child, signal.SIGTERM)
print(end_of(child, 10))
"""
        )
        self.assertEqual(done.stdout, "9\n", done.stderr)

    def test_after_the_loop_sigterm_ends_the_process_again(self):
        done = self.run_begun(
            """
assert look() == lib.WAIT
os.kill(os.getpid(), signal.SIGTERM)
while look() != lib.END:
    pass
print(client.end_reason, flush=True)
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(20)
"""
        )
        self.assertEqual(done.stdout, "SIGTERM\n", done.stderr)
        self.assertEqual(done.returncode, -signal.SIGTERM)


if __name__ == "__main__":
    unittest.main()
