"""What Python adds to a warm `x + y`: the call through the binding against the same op in a C++ loop.

    PYTHONPATH=build/release/python python bench/python_overhead.py [--check]

Microseconds until the op is recorded, each the best of several batches; the device's own work is waited for between
batches and not counted. --check: exit status 1 when Python adds more than 3 us (the target of issue 7).
"""

import json
import sys
import time

import numpy as np

import weft

BATCHES, CALLS, LIMIT_US = 20, 500, 3.0


def best(batch):
    """Microseconds a call; batch() gives the seconds that CALLS of them took."""
    found = []
    for _ in range(BATCHES):
        found.append(batch())
        weft.synchronize()
    return min(found) / CALLS * 1e6


def calls(f):
    def batch():
        start = time.perf_counter()
        for _ in range(CALLS):
            f()
        return time.perf_counter() - start

    return best(batch)


def main():
    x = weft.asarray(np.ones(16, np.float32))
    y = weft.asarray(np.ones(16, np.float32))
    step = weft.jit(lambda a, b: a + b)
    chain = weft.jit(lambda a, b: weft.nn.relu(a * b + a) @ weft.ones((16, 16)))
    step(x, y), chain(x, y)
    with weft.lazy():
        lazy = calls(lambda: x + y)
    results = {
        "device": weft.default_device().name,
        "implementation": weft.implementation,
        "python": sys.version.split()[0],
        "empty call": calls(lambda: None),
        "C++ x + y": best(lambda: weft._weft._time_add(x, y, CALLS)),
        "x + y": calls(lambda: x + y),
        "x + 1.0": calls(lambda: x + 1.0),
        "-x": calls(lambda: -x),
        "weft.add(x, y)": calls(lambda: weft.add(x, y)),
        "x + y, lazy": lazy,
        "x.T": calls(lambda: x.T),
        "x[1:5]": calls(lambda: x[1:5]),
        "jit x + y": calls(lambda: step(x, y)),
        "jit relu(a * b + a) @ w": calls(lambda: chain(x, y)),
    }
    results["added to x + y"] = results["x + y"] - results["C++ x + y"]
    print(json.dumps({k: round(v, 3) if isinstance(v, float) else v for k, v in results.items()}, indent=1))
    if "--check" in sys.argv[1:] and results["added to x + y"] > LIMIT_US:
        sys.exit(f"Python adds {results['added to x + y']:.2f} us to x + y, over {LIMIT_US}")


if __name__ == "__main__":
    main()
