"""linear.c in Python, without PyTorch: the package's Client.

Arguments: seconds that a step takes, at least (0), `fail` to raise an exception in step 5, `stop` to
leave the loop there, `linger` to be at work for another 8 s after it,
`frozen` for a tensor that nobody trains, `int8` for one of this type, and `other` for other values.
"""

import sys
import time
from array import array

import spotps

SAMPLES, TESTS = 4000, 500


def sample(number):
    a = number * 0.6180339887 % 1 - 0.5
    b = number * 0.7548776662 % 1 - 0.5
    return a, b, 3 * a - 2 * b + 0.5


def main():
    pause = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
    client = spotps.Client.open()
    if client is None:
        sys.exit("there is no job")
    weight = client.declare("weight", [2], array("f", [0, 0]), decays=True)
    bias = client.declare("bias", [], array("f", [0]))
    if "frozen" in sys.argv:
        base = [4.5, 6.5] if "other" in sys.argv else [4.5, 5.5]
        client.declare_frozen("base", [2], array("f", base))
    table = array("b", [4, 6] if "other" in sys.argv else [4, 5])
    if "int8" in sys.argv:
        client.declare_kept("table", "I8", [2], table.buffer_info()[0], is_compared=True)
    client.set_samples(SAMPLES, TESTS)
    while True:
        task = client.next()
        if task is None:
            break
        w0, w1 = client.values(weight)
        (b,) = client.values(bias)
        if task.is_evaluation:
            numbers = range(SAMPLES + task.begin, SAMPLES + task.end)
        else:
            numbers = client.order(task.epoch, task.begin, task.end)
        loss, correct, sums = 0.0, 0, [0.0, 0.0, 0.0]
        for x0, x1, target in map(sample, numbers):
            error = w0 * x0 + w1 * x1 + b - target
            loss += error * error / 2
            correct += error * error < 1e-4
            sums = [sums[0] + error * x0, sums[1] + error * x1, sums[2] + error]
        if not task.is_evaluation:
            count = len(numbers)
            client.figure("share right", correct / count)
            client.gradient(weight)[:] = [sums[0] / count, sums[1] / count]
            client.gradient(bias)[:] = [sums[2] / count]
            time.sleep(pause)
            if "fail" in sys.argv and task.step == 5:
                raise ValueError("this script was told to fail")
            if "stop" in sys.argv and task.step == 5:
                break
        client.finish(loss, correct)
    client.close()
    if "linger" in sys.argv:
        time.sleep(8)
        print("this script was let finish", flush=True)
    if "stop" in sys.argv:
        print("this script has enough")


main()
