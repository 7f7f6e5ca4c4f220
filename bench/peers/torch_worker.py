#!/usr/bin/env python3
"""PyTorch's side of script/bench, on CUDA: cuBLAS, cuDNN and its own kernels, eager, without TF32.

Results are newly allocated, as in Weft's programs, and as many calls share a wait; #graph is a replayed CUDA graph, #pinned a
transfer from or to page-locked memory. --device cpu is for trying this script where there is no CUDA.
"""
import argparse

import torch
import torch.nn.functional as F

import worker
from worker import Work, serve


def rows(device):
    cuda = device == "cuda"
    wait = torch.cuda.synchronize if cuda else (lambda: None)
    found = {}

    def normal(*shape, dtype=torch.float32):
        return torch.randn(*shape, device=device).to(dtype)

    def row(name, prepare, items=1, calls=None):
        found[name] = lambda: Work(prepare(), wait, items, calls)

    def conv(batch, channels, size, outs, window, stride):
        x, w = normal(batch, channels, size, size), normal(outs, channels, window, window)
        return lambda: F.conv2d(x, w, stride=stride, padding=window // 2)

    for shape in [(1, 64, 56, 64, 3, 1), (1, 64, 56, 64, 1, 1), (1, 256, 14, 256, 3, 1), (8, 64, 56, 64, 3, 1), (8, 64, 56, 256, 1, 1),
                  (8, 3, 224, 64, 7, 2), (8, 128, 28, 128, 3, 1), (8, 256, 14, 256, 3, 1), (8, 512, 7, 512, 3, 1)]:
        b, c, s, o, k, stride = shape
        row(f"conv/{b}x{c}x{s}x{s}_{o}x{k}x{k}_s{stride}", lambda shape=shape: conv(*shape))

    def attention(dtype, heads, queries, keys, dim, causal):
        q, k, v = normal(1, heads, queries, dim, dtype=dtype), *(normal(1, heads, keys, dim, dtype=dtype) for _ in range(2))
        return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    for name, *shape in [
        ("f32_8x256x256x64", torch.float32, 8, 256, 256, 64, False),
        ("f32_16x1024x1024x64", torch.float32, 16, 1024, 1024, 64, False),
        ("f32_16x1024x1024x64_causal", torch.float32, 16, 1024, 1024, 64, True),
        ("f16_32x4096x4096x128", torch.float16, 32, 4096, 4096, 128, False),
        ("f16_32x4096x4096x128_causal", torch.float16, 32, 4096, 4096, 128, True),
        ("decode_f32_16x1x4096x64", torch.float32, 16, 1, 4096, 64, False),
        ("decode_f16_32x1x32768x128", torch.float16, 32, 1, 32768, 128, False),
    ]:
        row(f"attention/{name}", lambda shape=shape: attention(*shape))

    def with_rows(n, f):
        x = normal(n, 4096)
        return lambda: f(x)

    for n in (1024, 16384):
        for name, f in [
            ("softmax", lambda x: torch.softmax(x, -1)), ("layer_norm", lambda x: F.layer_norm(x, (4096,))),
            ("rms_norm", lambda x: F.rms_norm(x, (4096,))), ("var", lambda x: x.var(-1, correction=0)),
            ("sum_rows", lambda x: x.sum(-1)), ("cumsum", lambda x: x.cumsum(-1)),
            ("sort", lambda x: x.sort(-1).values), ("topk32", lambda x: x.topk(32).values),
            ("fft", lambda x: torch.fft.fft(torch.view_as_complex(x.view(-1, 2048, 2)))),
            ("random_normal", lambda x: torch.randn(x.shape, device=device)),
        ]:
            row(f"{name}/{n}x4096", lambda n=n, f=f: with_rows(n, f))
    row("cumsum/16Mi", lambda: (lambda x: lambda: x.cumsum(0))(normal(1 << 24)))
    row("sort/1Mi", lambda: (lambda x: lambda: x.sort().values)(normal(1 << 20)))
    row("fft/1Mi", lambda: (lambda x: lambda: torch.fft.fft(x))(torch.view_as_complex(normal(1 << 20, 2))))

    def embedding():
        table, ids = normal(50257, 768), torch.arange(0, 4096 * 12, 12, device=device)
        return lambda: F.embedding(ids, table)

    row("embedding/50257x768_4096", embedding)

    def product(*shape, dtype=torch.float32):
        a, b = normal(*shape, dtype=dtype), normal(*shape, dtype=dtype)
        return lambda: a @ b

    for n in (256, 512, 1024, 2048, 4096, 8192):
        row(f"matmul/f32_{n}", lambda n=n: product(n, n))
        row(f"matmul/f16_{n}", lambda n=n: product(n, n, dtype=torch.float16))
    def product_int8(n):
        a, b = (torch.randint(-128, 128, (n, n), dtype=torch.int8, device=device) for _ in range(2))
        return lambda: torch._int_mm(a, b.t())

    for n in (512, 1024, 4096, 8192):
        row(f"matmul/i8_{n}", lambda n=n: product_int8(n))
    row("batched_matmul/f32_64x512", lambda: product(64, 512, 512))

    def matvec(transposed):
        a, x = normal(4096, 4096), normal(4096)
        a = a.T if transposed else a
        return lambda: a @ x

    row("matvec/f32_4096", lambda: matvec(False))
    row("matvec_transposed/f32_4096", lambda: matvec(True))

    def arrays(mi, f, inputs=1):
        xs = [normal(mi << 20) for _ in range(inputs)]
        return lambda: f(*xs)

    def copy(mi):
        x, y = normal(mi << 20), normal(mi << 20)
        return lambda: y.copy_(x)

    def chained(x, y, z):
        return torch.relu(x * y + z)

    for mi in (4, 16, 256):
        row(f"copy/{mi}", lambda mi=mi: copy(mi))
        row(f"add/{mi}", lambda mi=mi: arrays(mi, torch.add, 2))
        row(f"relu_op/{mi}", lambda mi=mi: arrays(mi, torch.relu))
        row(f"exp_op/{mi}", lambda mi=mi: arrays(mi, torch.exp))
        row(f"sum_op/{mi}", lambda mi=mi: arrays(mi, torch.sum))
        row(f"sum_columns/{mi}", lambda mi=mi: arrays(mi, lambda x: x.view(-1, 4096).sum(0)))
        row(f"softmax_rows/{mi}", lambda mi=mi: arrays(mi, lambda x: torch.softmax(x.view(-1, 4096), -1)))
        row(f"layer_norm_rows/{mi}", lambda mi=mi: arrays(mi, lambda x: F.layer_norm(x.view(-1, 4096), (4096,))))
        row(f"fused_chain/{mi}", lambda mi=mi: arrays(mi, chained, 3))

    def relu_chain():
        x = torch.full((4096,), 1.5, device=device)

        def call():
            y = x
            for _ in range(1000):
                y = torch.relu(y)
        return call

    def relu_graph():
        call = relu_chain()
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        return graph.replay

    row("relu_chain", relu_chain, items=1000, calls=1)
    if cuda:
        row("relu_chain#graph", relu_graph, items=1000, calls=1)
    row("relu_read", lambda: (lambda x: lambda: torch.relu(x)[0].item())(normal(4096)), calls=1)

    def upload(size, pinned):
        host, there = torch.zeros(size, dtype=torch.uint8), torch.empty(size, dtype=torch.uint8, device=device)
        host = host.pin_memory() if pinned else host
        return lambda: there.copy_(host, non_blocking=pinned)

    def readback(size, pinned):
        host, there = torch.zeros(size, dtype=torch.uint8), torch.zeros(size, dtype=torch.uint8, device=device)
        host = host.pin_memory() if pinned else host
        return lambda: host.copy_(there, non_blocking=pinned)

    for size in (4, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 256 << 20):
        row(f"upload/{size}", lambda size=size: upload(size, False), calls=1)
        row(f"readback/{size}", lambda size=size: readback(size, False), calls=1)
        if cuda:
            row(f"upload/{size}#pinned", lambda size=size: upload(size, True), calls=1)
            row(f"readback/{size}#pinned", lambda size=size: readback(size, True), calls=1)

    def with_transfers(shapes, f):
        hosts = [torch.randn(*s) for s in shapes]
        return lambda: f(*(h.to(device) for h in hosts)).cpu()

    for n in (256, 512, 1024, 2048, 4096):
        row(f"in/matmul/f32_{n}", lambda n=n: with_transfers([(n, n)] * 2, torch.matmul), calls=1)
    for n in (1024, 16384):
        row(f"in/softmax/{n}x4096", lambda n=n: with_transfers([(n, 4096)], lambda x: torch.softmax(x, -1)), calls=1)
        row(f"in/layer_norm/{n}x4096", lambda n=n: with_transfers([(n, 4096)], lambda x: F.layer_norm(x, (4096,))), calls=1)
    row("in/add/4", lambda: with_transfers([(4 << 20,)] * 2, torch.add), calls=1)
    row("in/relu_op/4", lambda: with_transfers([(4 << 20,)], torch.relu), calls=1)
    row("in/conv/1x64x56x56_64x3x3_s1", lambda: with_transfers([(1, 64, 56, 56), (64, 64, 3, 3)], lambda x, w: F.conv2d(x, w, padding=1)), calls=1)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--device", default="cuda")
    device, rest = parser.parse_known_args()
    import sys
    sys.argv[1:] = rest
    args = worker.options(__doc__)
    if device.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("PyTorch finds no CUDA device")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    serve({"worker": "pytorch", "version": torch.__version__,
           "adapter": torch.cuda.get_device_name() if device.device == "cuda" else "cpu",
           "toggles": f"CUDA {torch.version.cuda}, eager, TF32 off, default cuDNN choice"}, rows(device.device), args)
