#!/usr/bin/env python3
"""MatMul through ONNX Runtime's WebGPU execution provider, transfers in: the peer of `weft_bench_gemm`.

Set-up:  python3 -m venv /tmp/ort && /tmp/ort/bin/pip install onnxruntime-webgpu onnx numpy
Run:     /tmp/ort/bin/python bench/peers/ort_matmul.py 1024 [--dtype float32] [--beside 'COMMAND']

The WebGPU provider stands on Dawn, which refuses Debian 12's own Mesa: on lavapipe set VK_DRIVER_FILES to the driver
that script/dawn unpacked (.weft/dawn/root/usr/share/vulkan/icd.d/lvp_icd.json). Without an adapter ONNX Runtime goes on
with its CPU provider and says so on stderr only; this script stops then.

ONNX Runtime's Python can't hold the result on the device and tell when it is done, so a run is timed as run(): upload of
both operands, product, readback. --beside names a command that prints seconds per run of the same work, one number a
line (weft_bench_gemm_transfers); it is started in turns with ours, and the ratio's median is printed.
"""
import argparse
import shlex
import statistics
import subprocess
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper


def session(n: int, dtype: str) -> onnxruntime.InferenceSession:
    kind = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16}[dtype]
    values = {name: helper.make_tensor_value_info(name, kind, [n, n]) for name in "abc"}
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["c"])], "matmul", [values["a"], values["b"]],
                              [values["c"]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    made = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["WebGpuExecutionProvider"])
    if made.get_providers()[0] != "WebGpuExecutionProvider":
        raise SystemExit("ONNX Runtime found no WebGPU adapter and would run on its CPU provider. "
                         "Fix: set VK_DRIVER_FILES to a Vulkan driver that Dawn takes.")
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("n", type=int, nargs="?", default=1024)
    parser.add_argument("--dtype", default="float32", choices=["float32", "float16"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--beside", help="command that does the same work; run in turns with ONNX Runtime")
    args = parser.parse_args()

    made = session(args.n, args.dtype)
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((args.n, args.n), dtype=np.float32).astype(args.dtype) for _ in range(2))
    got = made.run(None, {"a": a, "b": b})[0]  # compiles
    want = a[:64].astype(np.float64) @ b.astype(np.float64)
    error = np.abs(got[:64] - want).max()
    if not error < (1e-2 if args.dtype == "float32" else 1.0):
        raise SystemExit(f"wrong result: largest difference {error}")

    flop = 2.0 * args.n**3
    ours, ratios = [], []
    for _ in range(args.rounds):
        start = time.perf_counter()
        made.run(None, {"a": a, "b": b})
        ours.append(time.perf_counter() - start)
        line = f"onnxruntime {ours[-1] * 1e3:9.1f} ms {flop / ours[-1] / 1e9:9.2f} GFLOP/s"
        if args.beside:
            out = subprocess.run(shlex.split(args.beside), check=True, capture_output=True, text=True).stdout
            other = statistics.median(float(s) for s in out.split())
            ratios.append(ours[-1] / other)
            line += f"   beside {other * 1e3:9.1f} ms {flop / other / 1e9:9.2f} GFLOP/s   ratio {ratios[-1]:.2f}"
        print(line, flush=True)
    print(f"onnxruntime {onnxruntime.__version__} MatMul {args.dtype} {args.n}: median "
          f"{flop / statistics.median(ours) / 1e9:.2f} GFLOP/s with transfers"
          + (f"; median ratio {statistics.median(ratios):.2f}" if ratios else ""))


if __name__ == "__main__":
    main()
