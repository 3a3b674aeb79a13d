"""What a kill costs a PyTorch loop: spotps beside torchft and hivemind, in one run.

    script_peers.py BIN [--seconds N] [--only NAME ...]     BIN: the programs of a release build

Two workers of one thread each train a small convolutional network on this machine, on minibatches
of 32. After a third of the time worker 1 is killed with -9; where nobody replaces it, this program
starts it again at once, as a launcher would. In one row the server of spotps is killed instead.
Prints samples/s before the kill, of two plain loops beside each other; how long the other worker
stood still, and the killed one was away; and how many samples were computed whose gradients were in
no step, or given to nobody. Needs PyTorch, torchft and hivemind in the Python that runs it; leaves
out what isn't there.
"""

import argparse
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import script_job

HERE = Path(__file__).resolve()
MINIBATCH = 32
SAMPLES = 64_000  # more than are trained on
TARGET = 1024  # samples of one step of hivemind


class Log:
    """A line for each minibatch that is begun, and each that a step has taken in."""

    def __init__(self, options):
        self._file = open(options.out, "a", buffering=1)
        self._index = options.index

    def say(self, what, samples=MINIBATCH):
        self._file.write(f"{time.time():.4f} {self._index} {os.getpid()} {what} {samples}\n")


def make():
    import torch

    torch.set_num_threads(1)
    model, data = script_job.cnn(SAMPLES)
    return model, data, torch.nn.CrossEntropyLoss()


def batches(data):
    import torch

    while True:
        yield from torch.utils.data.DataLoader(data, MINIBATCH, shuffle=True)


def sgd(parameters):
    import torch

    return torch.optim.SGD(parameters, lr=0.001, momentum=0.9)


def plain(options):
    model, data, loss_of = make()
    optimizer, log = sgd(model.parameters()), Log(options)
    for x, y in batches(data):
        log.say("begun")
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()
        log.say("stepped")


def spotps(options):
    import spotps as ours

    model, data, loss_of = make()
    optimizer = sgd(model.parameters())
    worker = ours.Worker(model, optimizer)
    log = None
    for x, y in worker.loader(data):
        if log is None:
            options.index = worker.seat
            log = Log(options)
        log.say("begun")
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        worker.log(loss=loss)
        log.say("stepped")


def torchft(options):
    from datetime import timedelta

    import torch
    import torchft as peer
    import torchft.ddp

    model, data, loss_of = make()
    inner = sgd(model.parameters())

    def load(state):
        model.load_state_dict(state["model"])
        inner.load_state_dict(state["inner"])

    store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    limit = timedelta(seconds=10)
    manager = peer.Manager(
        pg=peer.ProcessGroupGloo(timeout=limit),
        min_replica_size=1,
        load_state_dict=load,
        state_dict=lambda: {"model": model.state_dict(), "inner": inner.state_dict()},
        replica_id=f"worker{options.index}_",
        store_addr="localhost",
        store_port=store.port,
        rank=0,
        world_size=1,
        timeout=limit,
        quorum_timeout=limit,
        connect_timeout=limit,
    )
    wrapped = peer.ddp.PureDistributedDataParallel(manager, model)
    optimizer, log = peer.Optimizer(manager, inner), Log(options)
    for x, y in batches(data):
        log.say("begun")
        before = manager.current_step()
        optimizer.zero_grad()
        loss_of(wrapped(x), y).backward()
        optimizer.step()
        log.say("stepped" if manager.current_step() > before else "dropped")


def lighthouse(options):
    """What torchft's workers meet at."""
    from torchft.coordination import LighthouseServer

    server = LighthouseServer(
        bind="127.0.0.1:0",
        min_replicas=1,
        join_timeout_ms=1000,
        quorum_tick_ms=50,
        heartbeat_timeout_ms=2000,
    )
    print(server.address(), flush=True)
    while True:
        time.sleep(60)


def hivemind(options):
    import hivemind as peer

    model, data, loss_of = make()
    dht = peer.DHT(
        initial_peers=json.loads(options.peers),
        host_maddrs=["/ip4/127.0.0.1/tcp/0"],
        start=True,
    )
    optimizer = peer.Optimizer(
        dht=dht,
        run_id="job",
        params=model.parameters(),
        optimizer=sgd,
        batch_size_per_step=MINIBATCH,
        target_batch_size=TARGET,
        matchmaking_time=2.0,
        averaging_timeout=10.0,
    )
    log, kept, epoch = Log(options), 0, 0
    for x, y in batches(data):
        log.say("begun")
        loss_of(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        kept += MINIBATCH
        if optimizer.local_epoch > epoch:
            epoch = optimizer.local_epoch
            log.say("stepped", kept)
            kept = 0


CHILDREN = {f.__name__: f for f in (plain, spotps, torchft, lighthouse, hivemind)}


def wait_for(path, predicate, limit):
    end = time.time() + limit
    while time.time() < end:
        lines = read(path)
        if predicate(lines):
            return lines
        time.sleep(0.05)
    sys.exit(f"waited for {limit} s; see {path}")


def read(path):
    if not path.exists():
        return []
    lines = (line.split() for line in path.read_text().splitlines())
    return [(float(t), int(i), int(p), what, int(n)) for t, i, p, what, n in lines]


def is_each_at_work(lines):
    return len({line[1] for line in lines if line[3] == "stepped"}) == 2


def away(path, options, victim=None, restart=None):
    """Lets two workers train, kills one, lets go on. Returns when, until when, and its process."""
    wait_for(path, is_each_at_work, 200)
    time.sleep(options.seconds / 3)
    pid = victim() if victim is not None else [line for line in read(path) if line[1] == 1][-1][2]
    killed = time.time()
    os.kill(pid, signal.SIGKILL)
    if restart is not None:
        restart()
        time.sleep(2 * options.seconds / 3)
    return killed, time.time(), pid


def figures(lines, killed, until, victim):
    begun_at = max(
        min(line[0] for line in lines if line[1] == i and line[3] == "stepped") for i in (0, 1)
    )
    warm = begun_at + 0.2 * (killed - begun_at)
    done = sum(line[4] for line in lines if line[3] == "stepped" and warm < line[0] <= killed)
    other = [line[0] for line in lines if line[1] == 0 and line[3] == "stepped"] + [until]
    still = max(b - a for a, b in zip(other, other[1:]) if b > killed)
    back = [line[0] for line in lines if line[1] == 1 and line[2] != victim and line[3] == "stepped"]
    pids = {line[2] for line in lines}
    begun = sum(line[4] for line in lines if line[2] == victim and line[3] == "begun")
    stepped = sum(line[4] for line in lines if line[2] == victim and line[3] == "stepped")
    dropped = sum(line[4] for line in lines if line[3] == "dropped" and line[0] > killed)
    return {
        "rate": done / (killed - warm),
        "still": still,
        "away": back[0] - killed if back and victim in pids else float("nan"),
        "vain": begun - stepped + dropped,
    }


def through_own(name, options, folder):
    """Of children that this program starts itself."""
    path, children, more, ends = folder / "log", [], [], []
    environment = dict(os.environ)
    if name == "torchft":
        lighthouse = subprocess.Popen(
            [sys.executable, str(HERE), "--child", "lighthouse"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        ends.append(lighthouse.kill)
        environment["TORCHFT_LIGHTHOUSE"] = lighthouse.stdout.readline().strip()
    if name == "hivemind":
        import hivemind as peer

        dht = peer.DHT(host_maddrs=["/ip4/127.0.0.1/tcp/0"], start=True)
        ends.append(dht.shutdown)
        addresses = [str(address) for address in dht.get_visible_maddrs()]
        more = ["--peers", json.dumps(addresses)]

    def start(index):
        words = ["--child", name, "--index", str(index), "--out", str(path), *more]
        log = open(folder / f"{index}.err", "a")
        children.append(
            subprocess.Popen(
                [sys.executable, str(HERE), *words],
                env=environment,
                stderr=log,
                stdout=log,
                start_new_session=True,
            )
        )

    start(0)
    start(1)
    try:
        found = away(path, options, restart=lambda: start(1))
        if children[0].poll() is not None:
            reason = (folder / "0.err").read_text().rstrip()[-300:]
            print(f"{name}: the worker that was not killed has ended:\n{reason}", file=sys.stderr)
            return None
        return figures(read(path), *found)
    finally:
        for child in children:
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for end in ends:
            end()


def server():
    """The newest process of the name: nothing else runs on this machine."""
    found = subprocess.run(["pgrep", "-n", "-x", "ps_server"], capture_output=True, check=True)
    return int(found.stdout)


def through_psctl(mode, who, options, folder):
    path = folder / "log"
    words = [str(HERE), "--child", "spotps", "--out", str(path)]
    samples = round(1200 * options.seconds)
    training = script_job.begin(
        options.bin,
        folder,
        words,
        train={"epochs": 1, "minibatch": MINIBATCH, "mode": mode},
        workers=2,
        samples=samples,
        checkpoint={"every_s": 2},
    )
    try:
        found = away(path, options, victim=server if who == "server" else None)
        summary = script_job.end(training)
    finally:
        training.kill()
    lines = read(path)
    # To the end: what was in a step and what was not is for the job's ledger to say.
    begun = sum(line[4] for line in lines if line[3] == "begun")
    counted = summary["samples_counted"]
    if counted != samples:
        sys.exit(f"{counted} of {samples} samples counted")
    vain = begun - counted + summary["samples_undone"]
    return dict(figures(lines, *found), vain=vain)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("bin", nargs="?")
    parser.add_argument("--seconds", type=float, default=45)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--index", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--peers", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        CHILDREN[options.child](options)
        return
    if not options.bin:
        parser.error("BIN is missing: build/release/bin")
    options.bin = Path(options.bin).resolve()
    rows = {
        "plain": None,
        "spotps, async": partial(through_psctl, "async", "worker"),
        "spotps, bsp": partial(through_psctl, "bsp", "worker"),
        "its server": partial(through_psctl, "async", "server"),
        "torchft": partial(through_own, "torchft"),
        "hivemind": partial(through_own, "hivemind"),
    }
    print(
        f"{'':14} {'samples/s':>9} {'of plain':>8} {'stood still s':>13} {'away s':>7} {'in vain':>8}"
    )
    reference = None
    for name, measure in rows.items():
        if options.only and name not in options.only and name != "plain":
            continue
        if name in ("torchft", "hivemind") and importlib.util.find_spec(name) is None:
            print(f"{name:14} is not there: pip install {name}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            if name == "plain":
                reference = through_own("plain", options, Path(folder))["rate"]
                print(f"{name:14} {reference:9.1f}", flush=True)
                continue
            found = measure(options, Path(folder))
        if found is None:
            continue
        print(
            f"{name:14} {found['rate']:9.1f} {found['rate'] / reference:8.2f} {found['still']:13.2f} "
            f"{found['away']:7.1f} {found['vain']:8}",
            flush=True,
        )


main()
