#!/usr/bin/env python3
"""numpy's side of script/bench, for scale on CPU devices: products through OpenBLAS, the rest on one thread."""
import os

import numpy as np

from worker import Work, options, serve


def rows():
    rng = np.random.default_rng(1)
    f = lambda *shape: rng.standard_normal(shape, dtype=np.float32)
    found = {}

    def product(*shape):
        a, b, c = f(*shape), f(*shape), f(*shape)
        return Work(lambda: np.matmul(a, b, out=c))

    for n in (256, 512, 1024):
        found[f"matmul/f32_{n}"] = lambda n=n: product(n, n)
        found[f"in/matmul/f32_{n}"] = lambda n=n: product(n, n)
    found["batched_matmul/f32_64x128"] = lambda: product(64, 128, 128)

    def arrays(op, mi, inputs):
        xs, out = [f(mi << 20) for _ in range(inputs)], np.empty(mi << 20, np.float32)
        return Work(lambda: op(*xs, out=out))

    for mi in (4, 16):
        found[f"copy/{mi}"] = lambda mi=mi: arrays(lambda x, out: np.copyto(out, x), mi, 1)
        found[f"add/{mi}"] = lambda mi=mi: arrays(np.add, mi, 2)
        found[f"relu_op/{mi}"] = lambda mi=mi: arrays(lambda x, out: np.maximum(x, 0, out=out), mi, 1)
        found[f"exp_op/{mi}"] = lambda mi=mi: arrays(np.exp, mi, 1)
        found[f"sum_op/{mi}"] = lambda mi=mi: arrays(lambda x, out: x.sum(), mi, 1)

    def softmax():
        x = f(1024, 4096)

        def call():
            e = np.exp(x - x.max(-1, keepdims=True))
            return e / e.sum(-1, keepdims=True)
        return Work(call)

    found["softmax/1024x4096"] = softmax
    found["sum_rows/1024x4096"] = lambda: (lambda x: Work(lambda: x.sum(-1)))(f(1024, 4096))
    found["sort/1024x4096"] = lambda: (lambda x: Work(lambda: np.sort(x, -1)))(f(1024, 4096))

    def matvec(transposed):
        a, x = f(4096, 4096), f(4096)
        a = a.T if transposed else a
        return Work(lambda: a @ x)

    found["matvec/f32_4096"] = lambda: matvec(False)
    found["matvec_transposed/f32_4096"] = lambda: matvec(True)
    return found


if __name__ == "__main__":
    args = options(__doc__)
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    serve({"worker": "numpy", "version": np.__version__, "adapter": f"{os.cpu_count()} CPU cores",
           "toggles": f"{blas['name']} {blas['version']}, its own threads; nothing to transfer"}, rows(), args)
