#!/usr/bin/env python3
"""Ops through ONNX Runtime's WebGPU provider and through Weft's Python package, in one process, in turns.

Set-up:  a virtual environment with onnxruntime-webgpu, onnx and numpy; PYTHONPATH=build/release/python for Weft
Run:     VK_DRIVER_FILES=<a driver that Dawn takes> python bench/peers/ort_ops.py [--filter REGEX] [--rounds 7] [--out FILE]

Both sides take numpy arrays and give one: upload, op, readback. Results are compared with each other first. Prints a
line an op: medians in ms and the ratio (above 1: Weft is faster); FILE gets the seconds of each round as JSON. script/bench
starts it where it finds Weft's Python package beside the programs.
"""
import argparse
import json
import re
import statistics
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import weft

KINDS = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float16): TensorProto.FLOAT16,
         np.dtype(np.int64): TensorProto.INT64, np.dtype(np.int32): TensorProto.INT32, np.dtype(bool): TensorProto.BOOL}


def rows():
    """name, ONNX op, attributes, inputs, the same in Weft; `fixed` are inputs that the model holds."""
    rng = np.random.default_rng(1)
    f = lambda *shape: rng.standard_normal(shape, dtype=np.float32)
    x, y = f(1024, 2048), f(1024, 2048)
    w = weft
    yield "Add 2Mi", "Add", {}, [x, y], [], lambda a, b: a + b
    yield "Mul by a row", "Mul", {}, [x, y[:1]], [], lambda a, b: a * b
    for name, g in [("Relu", w.nn.relu), ("Exp", w.exp), ("Tanh", w.tanh), ("Sigmoid", w.nn.sigmoid), ("Sqrt", w.sqrt), ("Erf", w.erf)]:
        yield f"{name} 2Mi", name, {}, [np.abs(x) if name == "Sqrt" else x], [], g
    yield "Where 2Mi", "Where", {}, [x > 0, x, y], [], w.where
    yield "Softmax 1024x2048", "Softmax", {"axis": -1}, [x], [], lambda a: w.nn.softmax(a)
    yield "LayerNormalization 1024x2048", "LayerNormalization", {"axis": -1}, [x, f(2048), f(2048)], [], \
        lambda a, s, b: w.nn.layer_norm(a, weight=s, bias=b)
    yield "ReduceSum rows", "ReduceSum", {}, [x], [np.array([1])], lambda a: w.sum(a, axis=1, keepdims=True)
    yield "ReduceSum columns", "ReduceSum", {}, [x], [np.array([0])], lambda a: w.sum(a, axis=0, keepdims=True)
    yield "ReduceMax rows", "ReduceMax", {}, [x], [np.array([1])], lambda a: w.max(a, axis=1, keepdims=True)
    yield "ArgMax rows", "ArgMax", {"axis": 1, "keepdims": 0}, [x], [], lambda a: w.argmax(a, axis=1)
    yield "Transpose 1024x2048", "Transpose", {"perm": [1, 0]}, [x], [], lambda a: a.T
    yield "Concat", "Concat", {"axis": 1}, [x, y], [], lambda a, b: w.concat([a, b], axis=1)
    yield "Slice", "Slice", {}, [x], [np.array([0, 3]), np.array([1024, 2000]), np.array([0, 1]), np.array([2, 5])], \
        lambda a: a[0:1024:2, 3:2000:5]
    yield "Gather rows", "Gather", {"axis": 0}, [x, rng.integers(0, 1024, 4096)], [], lambda a, i: w.take(a, i, axis=0)
    yield "GatherElements", "GatherElements", {"axis": 1}, [x, rng.integers(0, 2048, (1024, 512))], [], \
        lambda a, i: w.take_along_axis(a, i, axis=1)
    yield "CumSum rows", "CumSum", {}, [x], [np.array(1)], lambda a: w.cumulative_sum(a, axis=1)
    yield "Pad", "Pad", {"mode": "constant"}, [x], [np.array([1, 2, 3, 4])], lambda a: w.pad(a, ((1, 3), (2, 4)))
    yield "Tile", "Tile", {}, [x[:256]], [np.array([4, 1])], lambda a: w.tile(a, (4, 1))
    yield "Expand", "Expand", {}, [x[:1]], [np.array([512, 2048])], lambda a: w.broadcast_to(a, (512, 2048))
    for n in (256, 512, 1024):
        a, b = f(n, n), f(n, n)
        yield f"MatMul {n}", "MatMul", {}, [a, b], [], lambda p, q: p @ q
    yield "MatMul 64 x 128x128", "MatMul", {}, [f(64, 128, 128), f(64, 128, 128)], [], lambda p, q: p @ q
    yield "Gemm 512, bias", "Gemm", {"transB": 1}, [f(512, 512), f(512, 512), f(512)], [], lambda p, q, c: p @ q.T + c
    yield "matrix x vector 2048", "MatMul", {}, [f(2048, 2048), f(2048, 1)], [], lambda p, q: p @ q
    for channels, size, outs, k, stride in [(64, 56, 64, 3, 1), (64, 56, 64, 1, 1), (3, 112, 32, 7, 2), (256, 14, 256, 3, 1)]:
        p = k // 2
        yield f"Conv {channels}x{size}x{size}, {outs} of {k}x{k} / {stride}", "Conv", \
            {"strides": [stride] * 2, "pads": [p] * 4}, [f(1, channels, size, size), f(outs, channels, k, k)], [], \
            lambda a, c, s=stride, p=p: w.nn.conv(a, c, stride=s, padding=p)
    image = f(1, 64, 56, 56)
    yield "depthwise Conv 64x56x56, 3x3", "Conv", {"group": 64, "pads": [1] * 4}, [image, f(64, 1, 3, 3)], [], \
        lambda a, c: w.nn.conv(a, c, padding=1, groups=64)
    yield "ConvTranspose 64x28x28, 32 of 3x3 / 2", "ConvTranspose", {"strides": [2, 2]}, [f(1, 64, 28, 28), f(64, 32, 3, 3)], [], \
        lambda a, c: w.nn.conv_transpose(a, c, stride=2)
    yield "MaxPool 64x56x56, 3x3 / 2", "MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2]}, [image], [], \
        lambda a: w.nn.max_pool(a, 3, stride=2)
    yield "AveragePool 64x56x56, 3x3 / 2", "AveragePool", {"kernel_shape": [3, 3], "strides": [2, 2]}, [image], [], \
        lambda a: w.nn.avg_pool(a, 3, stride=2)
    s = [np.abs(f(64)) for _ in range(4)]
    yield "BatchNormalization 64x56x56", "BatchNormalization", {}, [image, *s], [], \
        lambda a, g, b, m, v: w.nn.batch_norm(a, m, v, weight=g, bias=b)


def session(op, attributes, inputs, fixed):
    names = [f"i{i}" for i in range(len(inputs))]
    constants = [onnx.numpy_helper.from_array(c, f"c{i}") for i, c in enumerate(fixed)]
    node = helper.make_node(op, names + [c.name for c in constants], ["out"], **attributes)
    graph = helper.make_graph([node], op, [helper.make_tensor_value_info(n, KINDS[a.dtype], a.shape) for n, a in zip(names, inputs)],
                              [helper.make_empty_tensor_value_info("out")], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    made = onnxruntime.InferenceSession(onnx.shape_inference.infer_shapes(model).SerializeToString(), options,
                                        providers=["WebGpuExecutionProvider"])
    if made.get_providers()[0] != "WebGpuExecutionProvider":
        raise SystemExit("ONNX Runtime found no WebGPU adapter. Fix: set VK_DRIVER_FILES to a driver that Dawn takes.")
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default=".")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out")
    args = parser.parse_args()
    print(f"ONNX Runtime {onnxruntime.__version__}; Weft on {weft.default_device()}")
    found = {}
    for name, op, attributes, inputs, fixed, ours in rows():
        if not re.search(args.filter, name):
            continue
        try:
            found[name] = compare(op, attributes, inputs, fixed, ours, args.rounds)
        except Exception as e:  # an op that fails is a row that says why
            found[name] = {"error": f"{type(e).__name__}: {' '.join(str(e).split())}"[:300]}
            print(f"{name:44} failed: {found[name]['error']}", flush=True)
            continue
        theirs, mine = (statistics.median(found[name][who]) * 1e3 for who in ("onnxruntime", "weft"))
        print(f"{name:44} {theirs:9.2f} {mine:9.2f} {theirs / mine:7.2f}", flush=True)
    if args.out:
        with open(args.out, "w") as f:
            json.dump({"device": str(weft.default_device()), "onnxruntime": onnxruntime.__version__, "rows": found}, f, indent=1)
            f.write("\n")


def compare(op, attributes, inputs, fixed, ours, rounds):
    """Seconds of each round on both sides, after their results were found to agree."""
    made = session(op, attributes, inputs, fixed)
    feed = {f"i{i}": a for i, a in enumerate(inputs)}
    sides = {"onnxruntime": lambda: made.run(None, feed)[0], "weft": lambda: np.asarray(ours(*[weft.asarray(a) for a in inputs]))}
    want, got = sides["onnxruntime"](), sides["weft"]()
    np.testing.assert_allclose(got.reshape(want.shape), want, rtol=2e-3, atol=2e-3)
    times = {who: [] for who in sides}
    for _ in range(rounds):
        for who, work in sides.items():
            start = time.perf_counter()
            work()
            times[who].append(time.perf_counter() - start)
    return times


if __name__ == "__main__":
    main()
