#!/usr/bin/env python3
"""The rows of bench/layers.cpp in PyTorch on CUDA, under the same names: medians, as Google Benchmark's JSON.

    torch_layers.py OUT.json [--filter REGEX]

f32 products and convolutions without TF32. A row's time is that of 8 calls and one wait, over 8.
"""
import argparse
import json
import re
import statistics
import time

import torch
import torch.nn.functional as F

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False


def rows():
    def normal(*shape, dtype=torch.float32):
        return torch.randn(*shape, device="cuda").to(dtype)

    for batch, channels, size, outs, window, stride in [
        (1, 64, 56, 64, 3, 1), (1, 64, 56, 64, 1, 1), (1, 256, 14, 256, 3, 1), (8, 64, 56, 64, 3, 1), (8, 64, 56, 256, 1, 1),
        (8, 3, 224, 64, 7, 2), (8, 128, 28, 128, 3, 1), (8, 256, 14, 256, 3, 1), (8, 512, 7, 512, 3, 1),
    ]:
        x, w = normal(batch, channels, size, size), normal(outs, channels, window, window)
        side = (size + 2 * (window // 2) - window) // stride + 1
        yield (f"conv/{batch}x{channels}x{size}x{size}_{outs}x{window}x{window}_s{stride}",
               lambda x=x, w=w, s=stride, p=window // 2: F.conv2d(x, w, stride=s, padding=p),
               2.0 * batch * outs * side * side * channels * window * window, 0)
    for name, dtype, heads, queries, keys, dim, causal in [
        ("f32", torch.float32, 16, 1024, 1024, 64, False), ("f32", torch.float32, 16, 1024, 1024, 64, True),
        ("f16", torch.float16, 32, 4096, 4096, 128, False), ("f16", torch.float16, 32, 4096, 4096, 128, True),
        ("decode_f32", torch.float32, 16, 1, 4096, 64, False), ("decode_f16", torch.float16, 32, 1, 32768, 128, False),
    ]:
        q, k, v = normal(1, heads, queries, dim, dtype=dtype), *(normal(1, heads, keys, dim, dtype=dtype) for _ in range(2))
        yield (f"attention/{name}_{heads}x{queries}x{keys}x{dim}" + ("_causal" if causal else ""),
               lambda q=q, k=k, v=v, c=causal: F.scaled_dot_product_attention(q, k, v, is_causal=c),
               4.0 * heads * queries * keys * dim * (0.5 if causal else 1), 2 * k.nbytes if queries == 1 else 0)
    for n in (1024, 16384):
        x = normal(n, 4096)
        size = 8.0 * n * 4096
        z = torch.view_as_complex(normal(n, 2048, 2))
        for name, f, moved in [
            ("softmax", lambda x=x: torch.softmax(x, -1), size), ("layer_norm", lambda x=x: F.layer_norm(x, (4096,)), size),
            ("rms_norm", lambda x=x: F.rms_norm(x, (4096,)), size), ("var", lambda x=x: x.var(-1, correction=0), size / 2),
            ("sum_rows", lambda x=x: x.sum(-1), size / 2), ("cumsum", lambda x=x: x.cumsum(-1), size),
            ("sort", lambda x=x: x.sort(-1).values, size), ("topk32", lambda x=x: x.topk(32).values, size / 2),
            ("fft", lambda z=z: torch.fft.fft(z), size),
            ("random_normal", lambda n=n: torch.randn(n, 4096, device="cuda"), size / 2),
        ]:
            yield f"{name}/{n}x4096", f, 0, moved
    flat = normal(1 << 24)
    yield "cumsum/16Mi", lambda: flat.cumsum(0), 0, 8.0 * (1 << 24)
    yield "copy/64MiB", lambda y=torch.empty_like(flat): y.copy_(flat), 0, 8.0 * (1 << 24)
    yield "sort/1Mi", lambda x=flat[: 1 << 20]: x.sort().values, 0, 8.0 * (1 << 20)
    yield "fft/1Mi", lambda z=torch.view_as_complex(normal(1 << 20, 2)): torch.fft.fft(z), 0, 16.0 * (1 << 20)
    table, ids = normal(50257, 768), torch.arange(0, 4096 * 12, 12, device="cuda")
    yield "embedding/50257x768_4096", lambda: F.embedding(ids, table), 0, 8.0 * 4096 * 768
    for n in (1024, 2048, 4096, 8192):
        for name, dtype in (("f32", torch.float32), ("f16", torch.float16)):
            a, b = normal(n, n, dtype=dtype), normal(n, n, dtype=dtype)
            yield f"matmul/{name}_{n}", lambda a=a, b=b: a @ b, 2.0 * n**3, 0
    m, vector = normal(4096, 4096), normal(4096)
    yield "matvec/f32_4096", lambda: m @ vector, 2.0 * 4096**2, 4.0 * 4096**2
    yield "matvec_transposed/f32_4096", lambda: m.T @ vector, 2.0 * 4096**2, 4.0 * 4096**2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--filter", default=".")
    args = parser.parse_args()
    found = []
    for name, work, flop, moved in rows():
        if not re.search(args.filter, name):
            continue
        times = []
        for i in range(8):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(8):
                work()
            torch.cuda.synchronize()
            if i > 2:
                times.append((time.perf_counter() - start) / 8)
        seconds = statistics.median(times)
        row = {"run_name": name, "name": name + "_median", "aggregate_name": "median", "real_time": seconds * 8e6,
               "time_unit": "us", "items_per_second": 1 / seconds}
        if flop:
            row["FLOP/s"] = flop / seconds
        if moved:
            row["bytes_per_second"] = moved / seconds
        found.append(row)
    context = {"adapter": torch.cuda.get_device_name(), "driver": f"CUDA {torch.version.cuda}", "num_cpus": 0,
               "webgpu": f"PyTorch {torch.__version__}", "weft": "-", "date": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())}
    with open(args.out, "w") as f:
        json.dump({"context": context, "benchmarks": found}, f)


if __name__ == "__main__":
    main()
