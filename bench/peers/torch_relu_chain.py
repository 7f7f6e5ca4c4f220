#!/usr/bin/env python3
"""A chain of relu over a few thousand floats in PyTorch, eager and as a captured CUDA graph, in turns with Weft's.

    torch_relu_chain.py 'COMMAND'... [--floats 4096] [--ops 1000] [--rounds 5]

Each COMMAND is a weft_bench_relu_chain (one an implementation), started once a round with the same numbers. Prints a
line of JSON: medians in microseconds an op, and the ratios.
"""
import argparse
import json
import shlex
import statistics
import subprocess
import time

import torch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commands", nargs="+")
    parser.add_argument("--floats", type=int, default=4096)
    parser.add_argument("--ops", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()

    x = torch.full((args.floats,), 1.5, device="cuda")

    def chain():
        y = x
        for _ in range(args.ops):
            y = torch.relu(y)
        return y

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        chain()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        chain()

    def seconds(work) -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        return time.perf_counter() - start

    times = {}
    for _ in range(args.rounds):
        for name, work in (("torch eager", chain), ("torch graph", graph.replay)):
            seconds(work)
            times.setdefault(name, []).append(min(seconds(work) for _ in range(3)))
        for i, command in enumerate(args.commands):
            out = subprocess.run([*shlex.split(command), str(args.floats), str(args.ops), "3"], check=True,
                                 capture_output=True, text=True).stdout
            rows = [line.split() for line in out.splitlines()]
            for kind in ("eager", "graph", "fused"):
                times.setdefault(f"weft {i} {kind}", []).append(min(float(s) for k, s in rows if k == kind))
    per_op = {name: statistics.median(t) / args.ops * 1e6 for name, t in times.items()}
    print(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "floats": args.floats,
                      "ops": args.ops, "commands": args.commands, "us_per_op": per_op,
                      "eager over weft": {n: per_op["torch eager"] / t for n, t in per_op.items() if n[0] == "w"},
                      "cuda graph over weft": {n: per_op["torch graph"] / t for n, t in per_op.items() if n[0] == "w"}}))


if __name__ == "__main__":
    main()
