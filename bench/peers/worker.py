"""What the Python peers share: serving rows by name to bench/driver, as --serve of Weft's own programs does.

The first line on stdout says who serves (JSON: worker, version, adapter, toggles, rows); each line on stdin names a row,
which is prepared, run and answered by {"row", "seconds" (one op)} or {"row", "error"}. Names are those of Weft's rows;
ROW#VARIANT is another way of this peer to do the same row. Standard library only.
"""
import argparse
import gc
import json
import os
import sys
import time


class Work:
    """One row, ready to run. `call()` does `items` ops; `wait()` returns when all calls so far are done. `calls` share a
    wait: if not given, as many as take 30 ms, at most 200, as in Weft's programs (calls_a_wait in bench_device.h)."""

    def __init__(self, call, wait=lambda: None, items=1, calls=None):
        self.call, self.wait, self.items, self.calls = call, wait, items, calls


def options(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", action="store_true", help="rows for a CPU device: smaller")
    parser.add_argument("--min-time", type=float, default=0.05, help="seconds for each row")
    return parser.parse_args()


LONG_ENOUGH, MOST = 0.03, 200  # seconds of the calls before a wait, and how many these may be


def one_round(work, calls):
    start = time.perf_counter()
    for _ in range(calls):
        work.call()
    work.wait()
    return time.perf_counter() - start


def more(count, took):
    """How many to try next, when `count` took so long, which was too short."""
    return min(MOST, max(2 * count, int(count * 1.5 * LONG_ENOUGH / took)))


def calls_a_wait(work):
    calls = 1
    while True:
        took = one_round(work, calls)
        if took > LONG_ENOUGH or calls == MOST:
            return calls
        calls = more(calls, took)


def measure(work, min_time):
    """Seconds of one op: the mean over at least min_time."""
    one_round(work, 1)  # compiles
    work.calls = work.calls or calls_a_wait(work)
    rounds, start = 0, time.perf_counter()
    while rounds == 0 or time.perf_counter() - start < min_time:
        one_round(work, work.calls)
        rounds += 1
    return (time.perf_counter() - start) / (rounds * work.calls * work.items)


def serve(hello, rows, args):
    """`rows`: name -> a function that gives the Work. What libraries print on stdout goes to stderr."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(line):
        out.write(json.dumps(line) + "\n")
        out.flush()

    answer({**hello, "rows": list(rows)})
    last = (None, None)  # a row comes several times in a row: what it prepared is kept meanwhile
    for name in sys.stdin:
        name = name.strip()
        try:
            if last[0] != name:
                last = (None, None)
                gc.collect()
                last = (name, rows[name]())
            answer({"row": name, "seconds": measure(last[1], args.min_time)})
        except Exception as e:  # a peer's failure is a row that says why
            last = (None, None)
            answer({"row": name, "error": f"{type(e).__name__}: {str(e).strip().splitlines()[0] if str(e).strip() else ''}"[:300]})
