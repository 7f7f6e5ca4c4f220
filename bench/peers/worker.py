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
    """One row, ready to run. `call()` does `items` ops; `wait()` returns when all calls so far are done."""

    def __init__(self, call, wait=lambda: None, items=1, calls=None):
        self.call, self.wait, self.items, self.calls = call, wait, items, calls


def options(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", action="store_true", help="rows for a CPU device: smaller, and one call a wait")
    parser.add_argument("--min-time", type=float, default=0.05, help="seconds for each row")
    return parser.parse_args()


def measure(work, min_time, calls):
    """Seconds of one op: the mean over at least min_time, each round `calls` calls and one wait."""
    calls = work.calls or calls

    def one_round():
        for _ in range(calls):
            work.call()
        work.wait()

    one_round()  # compiles
    rounds, start = 0, time.perf_counter()
    while rounds == 0 or time.perf_counter() - start < min_time:
        one_round()
        rounds += 1
    return (time.perf_counter() - start) / (rounds * calls * work.items)


def serve(hello, rows, args):
    """`rows`: name -> a function that gives the Work. What libraries print on stdout goes to stderr."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(line):
        out.write(json.dumps(line) + "\n")
        out.flush()

    answer({**hello, "rows": list(rows)})
    calls = 1 if args.cpu else 8
    last = (None, None)  # a row comes several times in a row: what it prepared is kept meanwhile
    for name in sys.stdin:
        name = name.strip()
        try:
            if last[0] != name:
                last = (None, None)
                gc.collect()
                last = (name, rows[name]())
            answer({"row": name, "seconds": measure(last[1], args.min_time, calls)})
        except Exception as e:  # a peer's failure is a row that says why
            last = (None, None)
            answer({"row": name, "error": f"{type(e).__name__}: {str(e).strip().splitlines()[0] if str(e).strip() else ''}"[:300]})
