#!/usr/bin/env python3
"""`weft eval` in blocks, as a share of the slowest of what it overlaps: disk, upload, compute, readback.

    bench/stream_eval.py [--weft build/release/bin/weft] [--bytes 2G] [--dir /tmp] [--seconds 50] [--json out.json]

For each expression, in turns: the file read in blocks by this process, a result's worth of bytes written and flushed as
Weft does (that is «disk»); the expression at once, whose upload, computing and readback are timed apart; and in blocks.
Medians. The file comes from the page cache where it fits there, so «disk» is what the system calls cost; --cold drops it
from the cache before each reading of it. Needs Python's standard library only, and room for the file and one result.
"""

import argparse
import array
import json
import os
import pathlib
import random
import shlex
import statistics
import subprocess
import sys
import time

EXPRESSIONS = [
    ("sum(x, 0)", 0),  # and how many times the input's bytes the result has
    ("x * 2 + 1", 1),
    ("softmax(x)", 1),
]
COLUMNS = 1024
BLOCK = 32 << 20


def size(text):
    factor = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1].upper())
    return int(float(text[:-1]) * factor) if factor else int(text)


def make_file(path, rows):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {COLUMNS}), }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    numbers = random.Random(1)
    row = array.array("f", (numbers.gauss(0, 1) for _ in range(COLUMNS * 64))).tobytes()
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
        left = rows * COLUMNS * 4
        chunk = row * 64
        while left:
            n = min(left, len(chunk))
            f.write(chunk[:n])
            left -= n
        f.flush()
        os.fsync(f.fileno())


def read_seconds(path, cold):
    fd = os.open(path, os.O_RDONLY)
    if cold:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    buffer = memoryview(bytearray(BLOCK))
    start = time.perf_counter()
    at = 0
    while n := os.preadv(fd, [buffer], at):
        at += n
    seconds = time.perf_counter() - start
    if cold:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    return seconds


def write_seconds(path, size):
    buffer = memoryview(random.Random(2).randbytes(1 << 20) * (BLOCK >> 20))
    start = time.perf_counter()
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.posix_fallocate(fd, 0, size)
    at = 0
    while at < size:
        at += os.pwrite(fd, buffer[: min(BLOCK, size - at)], at)
    os.fsync(fd)
    os.close(fd)
    seconds = time.perf_counter() - start
    os.unlink(path)
    return seconds


def run(weft, expression, file, out, mode):
    command = [*weft, "eval", expression, f"x={file}", "-o", str(out), "--json", "--no-progress", mode]
    if mode == "--no-stream":
        command += ["--memory", "1000G"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(command)}: {done.stderr}")
    out.unlink(missing_ok=True)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weft", default="build/release/bin/weft", help="the command, with what starts it")
    parser.add_argument("--bytes", default="2G", type=size)
    parser.add_argument("--dir", default="/tmp", type=pathlib.Path)
    parser.add_argument("--seconds", default=50, type=float, help="about how long in all")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    weft = shlex.split(options.weft)
    start = time.monotonic()
    file = options.dir / f"weft-stream-{os.getpid()}.npy"
    out = options.dir / f"weft-stream-{os.getpid()}-out.npy"
    rows = options.bytes // (4 * COLUMNS)
    total = rows * COLUMNS * 4
    results = {}
    device = None
    try:
        make_file(file, rows)
        samples = {expression: [] for expression, _ in EXPRESSIONS}
        rounds = 0
        longest = 0.0
        while rounds == 0 or time.monotonic() - start + longest < options.seconds:
            round_start = time.monotonic()
            for expression, share in EXPRESSIONS:
                sample = {"read": read_seconds(file, options.cold)}
                sample["write"] = write_seconds(out, total * share) if share else 0.0
                whole = run(weft, expression, file, out, "--no-stream")
                device = whole["device"]
                times = whole["stats"]["times_ms"]
                sample["upload"] = times["upload"] / 1e3
                sample["compute"] = max(times["compute"] - times["compile"], 0.0) / 1e3
                sample["readback"] = times["read"] / 1e3
                if options.cold:
                    read_seconds(file, True)
                blocks = run(weft, expression, file, out, "--stream")
                assert blocks["stats"]["blocks"] > 1
                sample["streamed"] = blocks["stats"]["times_ms"]["stream"] / 1e3
                samples[expression].append(sample)
            rounds += 1
            longest = max(longest, time.monotonic() - round_start)
        for expression, share in EXPRESSIONS:
            median = {k: statistics.median(s[k] for s in samples[expression]) for k in samples[expression][0]}
            disk = {"read": median["read"], "write": median["write"]}
            stages = {"disk": max(disk.values()), "upload": median["upload"], "compute": median["compute"],
                      "readback": median["readback"]}
            slowest = max(stages, key=stages.get)
            in_turn = sum(disk.values()) + median["upload"] + median["compute"] + median["readback"]
            results[expression] = {"seconds": median, "slowest": slowest, "bytes_in": total,
                                   "bytes_out": total * share, "share_of_slowest": stages[slowest] / median["streamed"], "samples": samples[expression],
                                   "times_as_fast_as_in_turn": in_turn / median["streamed"]}
    finally:
        file.unlink(missing_ok=True)
        out.unlink(missing_ok=True)
    print(f"{device['name']} ({device['driver']}), {total / 1e9:.2f} GB, {rounds} round{'s' if rounds > 1 else ''}, "
          f"{'cold' if options.cold else 'warm'} file")
    print(f"{'seconds':12} {'read':>7} {'write':>7} {'upload':>7} {'compute':>7} {'readback':>8} {'streamed':>8}   "
          "of the slowest   against one after another")
    for expression, r in results.items():
        s = r["seconds"]
        print(f"{expression:12} {s['read']:7.2f} {s['write']:7.2f} {s['upload']:7.2f} {s['compute']:7.2f} "
              f"{s['readback']:8.2f} {s['streamed']:8.2f}   {r['share_of_slowest']:.2f} ({r['slowest']})".ljust(85)
              + f"{r['times_as_fast_as_in_turn']:.2f} x")
    if options.json:
        options.json.write_text(json.dumps({"device": device, "cold": options.cold, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
