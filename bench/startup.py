#!/usr/bin/env python3
"""Start-up: whole processes of `weft eval` beside a bare WebGPU program that opens a device and ends.

    bench/startup.py [--build build/release] [--rounds 40] [--json FILE]
    bench/startup.py --build build/dawn --run .weft/dawn/run

Each round starts every command once, in an order drawn anew, so that what else the machine does meets all alike. Two
states: `cold` has no cache of compiled pipelines, neither Weft's nor Mesa's; `warm` has both, filled by a run before.
The files of programs and drivers are in the page cache in both. `control` is the bare program once more: its ratio
shows what the measurement is worth. `bare + kernel` also compiles and runs the smallest kernel: without a cache no
expression that computes on the device can be quicker, and on lavapipe that first compile alone is most of a device's own
start. The verdict is on `weft eval 1+1` and `a+1`, against `bare`. Needs the programs weft and weft_bench_bare_start, and nothing beyond Python.
"""
import argparse
import json
import os
import random
import resource
import shlex
import statistics
import struct
import subprocess
import sys
import tempfile
import time

TARGET = 1.5


def write_npy(path: str, values: list[float]) -> None:
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(values)},), }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack(f"<{len(values)}f", *values))


def one(command: list[str], environment: dict[str, str], want: str | None) -> tuple[float, float]:
    """Seconds from start to end of one process, and its CPU time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    took = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0 or (want is not None and done.stdout.strip() != want):
        sys.exit(f"{shlex.join(command)} ended with {done.returncode} and said {done.stdout!r} {done.stderr!r}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return took, cpu


def quartiles(values: list[float]) -> list[float]:
    return [round(q * 1e3, 2) for q in statistics.quantiles(values, n=4)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release", help="build folder (build/release)")
    parser.add_argument("--run", default="", help="program that starts the others, as Dawn's prefix wants (none)")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--json", help="write the figures to this file too")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        array = os.path.join(folder, "tiny.npy")
        write_npy(array, [1.0, 2.0, 3.0, 4.0])
        start = shlex.split(args.run)
        bare = start + [os.path.join(args.build, "bin", "weft_bench_bare_start")]
        weft = start + [os.path.join(args.build, "bin", "weft")]
        commands = {
            "bare": (bare, None),
            "control": (bare, None),
            "bare + kernel": (bare + ["--kernel"], None),
            "weft eval 1+1": (weft + ["eval", "1+1"], "2"),
            "weft eval a+1": (weft + ["eval", "a+1", "a=" + array], "[2. 3. 4. 5.]"),
            "weft eval a@a": (weft + ["eval", "a@a", "a=" + array], "30.0"),
        }
        plain = {k: v for k, v in os.environ.items() if k not in ("WEFT_CACHE", "MESA_SHADER_CACHE_DISABLE")}
        plain.setdefault("XDG_RUNTIME_DIR", folder)
        states = {
            "cold": plain | {"WEFT_CACHE": "0", "MESA_SHADER_CACHE_DISABLE": "true"},
            "warm": plain | {"XDG_CACHE_HOME": os.path.join(folder, "cache")},
        }
        version = subprocess.run(weft + ["--version"], capture_output=True, text=True, check=True).stdout.strip()
        times: dict[tuple[str, str], list[tuple[float, float]]] = {}
        for state, environment in states.items():
            for command, want in commands.values():  # files into the page cache, and what is warm into its cache
                one(command, environment, want)
        for _ in range(args.rounds):
            turns = [(s, c) for s in states for c in commands]
            random.shuffle(turns)
            for state, name in turns:
                times.setdefault((state, name), []).append(one(commands[name][0], states[state], commands[name][1]))

    print(f"{version}, {args.rounds} rounds; medians of whole processes")
    results = []
    for state in states:
        base = times[state, "bare"]
        for name in commands:
            mine = times[state, name]
            # Of one round each: what slows a round slows both.
            ratio = statistics.median(m[0] / b[0] for m, b in zip(mine, base))
            cpu_ratio = statistics.median(m[1] for m in mine) / statistics.median(b[1] for b in base)
            low, middle, high = quartiles([m[0] for m in mine])
            results.append({"state": state, "command": name, "ms": middle, "quartiles_ms": [low, high],
                            "ratio": round(ratio, 3), "cpu_ms": round(statistics.median(m[1] for m in mine) * 1e3, 2),
                            "cpu_ratio": round(cpu_ratio, 3)})
            verdict = ""
            if name.startswith("weft"):
                verdict = f"  {'within' if ratio <= TARGET else 'over'} {TARGET}"
            print(f"  {state}  {name:14}  {middle:7.2f} ms ({low:.2f} to {high:.2f})  {ratio:5.2f} x bare"
                  f"   CPU {results[-1]['cpu_ms']:7.2f} ms  {cpu_ratio:5.2f} x{verdict}")
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"version": version, "rounds": args.rounds, "target": TARGET, "results": results}, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
