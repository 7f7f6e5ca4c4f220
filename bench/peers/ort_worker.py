#!/usr/bin/env python3
"""ONNX Runtime's side of script/bench: its WebGPU execution provider.

Operands on the device: a model of k nodes in a row whose operands are the model's own constants, so that a run moves
only its last four bytes back; k grows until a run takes 30 ms (200 at most), and a row's time is the run's over k.
Constant folding is off, which would run the model at load; all else is as users get it. in/ rows are one node, all
operands fed from numpy and the result read back, as run() does.
"""
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from worker import LONG_ENOUGH, MOST, Work, more, options, serve

KINDS = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float16): TensorProto.FLOAT16}


def session(graph, com_microsoft):
    opsets = [helper.make_opsetid("", 18)] + ([helper.make_opsetid("com.microsoft", 1)] if com_microsoft else [])
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 9
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    made = onnxruntime.InferenceSession(model.SerializeToString(), settings, providers=["WebGpuExecutionProvider"],
                                        disabled_optimizers=["ConstantFolding"])
    if made.get_providers()[0] != "WebGpuExecutionProvider":
        raise RuntimeError("no WebGPU adapter: ONNX Runtime would run on its CPU provider")
    return made


def fed(op, attributes, operands, domain=""):
    """One node, operands fed and the result read each run."""
    names = [f"i{i}" for i in range(len(operands))]
    inputs = [helper.make_tensor_value_info(n, KINDS[a.dtype], a.shape) for n, a in zip(names, operands)]
    graph = helper.make_graph([helper.make_node(op, names, ["out"], domain=domain, **attributes)], op, inputs,
                              [helper.make_tensor_value_info("out", KINDS[operands[0].dtype], None)])
    made, feed = session(graph, bool(domain)), dict(zip(names, operands))
    check(made.run(None, feed)[0])
    return Work(lambda: made.run(None, feed), calls=1)


def check(result):
    if not np.isfinite(result.astype(np.float32)).all():
        raise RuntimeError("the result is not finite")


def chain(op, attributes, x, others=(), domain="", nodes=None, fan=False):
    """`nodes` in a row, each fed with the one before it; fan: beside each other on arrays of their own, then summed."""
    def build(k):
        constants = [onnx.numpy_helper.from_array(a, f"c{i}") for i, a in enumerate(others)]
        names, made, last = [c.name for c in constants], [], "x"
        if fan:
            constants += [onnx.numpy_helper.from_array(x + i, f"x{i}") for i in range(k)]
            made = [helper.make_node(op, [f"x{i}", *names], [f"y{i}"], domain=domain, **attributes) for i in range(k)]
            made.append(helper.make_node("Sum", [f"y{i}" for i in range(k)], ["last"]))
            last = "last"
        else:
            constants.append(onnx.numpy_helper.from_array(x, "x"))
            for i in range(k):
                made.append(helper.make_node(op, [last, *names], [f"y{i}"], domain=domain, **attributes))
                last = f"y{i}"
        ends = {"flat": np.array([-1]), "from": np.array([0]), "to": np.array([1])}
        constants += [onnx.numpy_helper.from_array(v, n) for n, v in ends.items()]
        made += [helper.make_node("Reshape", [last, "flat"], ["line"]), helper.make_node("Slice", ["line", "from", "to"], ["out"])]
        graph = helper.make_graph(made, op, [], [helper.make_tensor_value_info("out", KINDS[x.dtype], [1])], constants)
        return session(graph, bool(domain))

    k = nodes or (4 if fan else 2)
    while True:
        made = build(k)
        made.run(None, {})
        start = time.perf_counter()
        made.run(None, {})
        took = time.perf_counter() - start
        if nodes or fan or took > LONG_ENOUGH or k >= MOST:
            return Work(lambda: made.run(None, {}), items=k, calls=1)
        k = more(k, took)


def rows(cpu):
    rng = np.random.default_rng(1)
    f = lambda *shape, dtype=np.float32: rng.standard_normal(shape, dtype=np.float32).astype(dtype)
    found = {}

    def product(n, dtype):
        # Scaled so that a long chain neither grows nor vanishes.
        return chain("MatMul", {}, f(n, n, dtype=dtype), [(f(n, n) / np.sqrt(n)).astype(dtype)])

    for n in (256, 512, 1024) if cpu else (256, 512, 1024, 2048, 4096):
        found[f"matmul/f32_{n}"] = lambda n=n: product(n, np.float32)
        found[f"matmul/f16_{n}"] = lambda n=n: product(n, np.float16)
        found[f"in/matmul/f32_{n}"] = lambda n=n: fed("MatMul", {}, [f(n, n), f(n, n)])
    if not cpu:
        found["matmul/f16_8192"] = lambda: product(8192, np.float16)
    side = 128 if cpu else 512
    found[f"batched_matmul/f32_64x{side}"] = lambda: chain("MatMul", {}, f(64, side, side), [f(64, side, side) / np.float32(side**0.5)])
    found["matvec_transposed/f32_4096"] = lambda: chain("MatMul", {}, f(1, 4096), [f(4096, 4096) / np.float32(64)])

    n = 1024 if cpu else 16384
    norm = lambda: [np.ones(4096, np.float32), np.zeros(4096, np.float32)]
    found[f"softmax/{n}x4096"] = lambda: chain("Softmax", {"axis": -1}, f(n, 4096))
    found[f"layer_norm/{n}x4096"] = lambda: chain("LayerNormalization", {"axis": -1}, f(n, 4096), norm())
    found[f"in/softmax/{n}x4096"] = lambda: fed("Softmax", {"axis": -1}, [f(n, 4096)])
    found[f"in/layer_norm/{n}x4096"] = lambda: fed("LayerNormalization", {"axis": -1}, [f(n, 4096), *norm()])
    found[f"sum_rows/{n}x4096"] = lambda: chain("ReduceSum", {"keepdims": 1}, f(n, 4096), [np.array([1])], fan=True)

    for mi in (4, 16):
        found[f"add/{mi}"] = lambda mi=mi: chain("Add", {}, f(mi << 20), [f(mi << 20) / np.float32(64)])
        found[f"relu_op/{mi}"] = lambda mi=mi: chain("Relu", {}, f(mi << 20))
        found[f"sum_op/{mi}"] = lambda mi=mi: chain("ReduceSum", {"keepdims": 0}, f(mi << 20), fan=True)
    found["in/add/4"] = lambda: fed("Add", {}, [f(4 << 20), f(4 << 20)])
    found["in/relu_op/4"] = lambda: fed("Relu", {}, [f(4 << 20)])

    found["relu_chain"] = lambda: chain("Relu", {}, f(4096), nodes=1000)
    found["relu_read"] = lambda: chain("Relu", {}, f(4096), nodes=1)

    for b, c, s, k in [(1, 64, 56, 3), (1, 64, 56, 1), (1, 256, 14, 3), (8, 64, 56, 3), (8, 128, 28, 3), (8, 256, 14, 3), (8, 512, 7, 3)]:
        if cpu and b > 1:
            continue
        weights = lambda c=c, k=k: f(c, c, k, k) / np.float32(k * c**0.5)
        attributes = {"pads": [k // 2] * 4, "kernel_shape": [k, k]}
        found[f"conv/{b}x{c}x{s}x{s}_{c}x{k}x{k}_s1"] = \
            lambda b=b, c=c, s=s, w=weights, a=attributes: chain("Conv", a, f(b, c, s, s), [w()])
    found["in/conv/1x64x56x56_64x3x3_s1"] = \
        lambda: fed("Conv", {"pads": [1] * 4, "kernel_shape": [3, 3]}, [f(1, 64, 56, 56), f(64, 64, 3, 3)])

    def attention(dtype, heads, queries, keys, dim, causal):
        attributes = {"num_heads": heads, **({"unidirectional": 1} if causal else {})}
        q, k, v = f(1, queries, heads * dim, dtype=dtype), *(f(1, keys, heads * dim, dtype=dtype) for _ in range(2))
        return chain("MultiHeadAttention", attributes, q, [k, v], domain="com.microsoft")

    shapes = [(np.float32, 8, 256, 256, 64, False), (np.float32, 16, 1024, 1024, 64, False), (np.float32, 16, 1024, 1024, 64, True),
              (np.float32, 16, 1, 4096, 64, False)]
    if not cpu:
        shapes += [(np.float16, 32, 4096, 4096, 128, False), (np.float16, 32, 4096, 4096, 128, True), (np.float16, 32, 1, 32768, 128, False)]
    for dtype, heads, queries, keys, dim, causal in shapes:
        kind = "f16" if dtype == np.float16 else "f32"
        name = f"attention/{'decode_' if queries == 1 else ''}{kind}_{heads}x{queries}x{keys}x{dim}" + ("_causal" if causal else "")
        found[name] = lambda s=(dtype, heads, queries, keys, dim, causal): attention(*s)
    return found


if __name__ == "__main__":
    args = options(__doc__)
    serve({"worker": "onnxruntime", "version": onnxruntime.__version__, "adapter": None,
           "toggles": "WebGPU provider as installed (Dawn inside), constant folding off"}, rows(args.cpu), args)
