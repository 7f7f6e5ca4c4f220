"""Layers, indexing functions, sorting, random numbers and transforms, against numpy."""

import numpy as np
import pytest

import weft
from weft import fft, linalg, nn


@pytest.fixture
def r():
    return np.random.default_rng(3)


def normal(r, *shape):
    return r.standard_normal(shape).astype(np.float32)


def close(got, want, tolerance=1e-4):
    assert got.shape == np.shape(want)
    np.testing.assert_allclose(got.numpy(), want, rtol=tolerance, atol=tolerance)


def windows(x, size, stride, pads, dilation, fill=0.0):
    """[batch, channels, oh, ow, kh, kw] of x [batch, channels, h, w]."""
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *pads], constant_values=fill)
    out = np.lib.stride_tricks.sliding_window_view(x, [(s - 1) * d + 1 for s, d in zip(size, dilation)], axis=(2, 3))
    return out[:, :, :: stride[0], :: stride[1], :: dilation[0], :: dilation[1]]


CONVS = [
    dict(stride=1, padding=0, dilation=1),
    dict(stride=2, padding=1, dilation=1),
    dict(stride=(2, 1), padding=((0, 2), (1, 0)), dilation=(1, 2)),
    dict(stride=1, padding=(2, 1), dilation=2),
]


def pairs(padding):
    if isinstance(padding, int):
        return [(padding, padding)] * 2
    return [(p, p) if isinstance(p, int) else p for p in padding]


def both(v):
    return (v, v) if isinstance(v, int) else v


@pytest.mark.parametrize("o", CONVS, ids=str)
@pytest.mark.parametrize("groups", [1, 2])
def test_conv(r, o, groups):
    x, w, b = normal(r, 2, 4, 9, 11), normal(r, 6, 4 // groups, 3, 2), normal(r, 6)
    v = windows(x, (3, 2), both(o["stride"]), pairs(o["padding"]), both(o["dilation"]))
    v = v.reshape(2, groups, 4 // groups, *v.shape[2:])
    want = np.einsum("ngchwij,gocij->ngohw", v, w.astype(np.float64).reshape(groups, 6 // groups, 4 // groups, 3, 2))
    want = want.reshape(2, 6, *want.shape[3:]) + b[:, None, None]
    close(nn.conv(x, w, b, groups=groups, **o), want)
    close(nn.conv(x, w, b, groups=groups, activation="relu", **o), np.maximum(want, 0))
    last = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    close(nn.conv(last, w, b, groups=groups, layout="channels_last", **o), want.transpose(0, 2, 3, 1))


def test_conv_of_one_axis_and_transpose(r):
    x, w = normal(r, 2, 3, 13), normal(r, 4, 3, 5)
    want = windows(x[:, :, None], (1, 5), (1, 2), [(0, 0), (2, 1)], (1, 1))[:, :, 0]
    close(nn.conv(x, w, stride=2, padding=[(2, 1)]), np.einsum("nclij,ocj->nol", want, w))
    # The transposed convolution is the convolution's gradient: <conv(x), y> = <x, conv_transpose(y)>.
    x, w = normal(r, 1, 3, 7, 7), normal(r, 4, 3, 3, 3)
    y = normal(r, 1, 4, 4, 4)
    left = float(weft.sum(nn.conv(x, w, stride=2, padding=1) * y))
    right = float(weft.sum(nn.conv_transpose(y, w, stride=2, padding=1) * x))
    assert left == pytest.approx(right, rel=1e-3, abs=1e-3)


def test_conv_refuses(r):
    x, w = normal(r, 1, 3, 5, 5), normal(r, 4, 3, 3, 3)
    with pytest.raises(ValueError, match="layout"):
        nn.conv(x, w, layout="NHWC")
    with pytest.raises(ValueError, match="activation"):
        nn.conv(x, w, activation="swish")
    with pytest.raises(ValueError, match="padding"):
        nn.conv(x, w, padding=[(1, 1, 1), (1, 1)])
    with pytest.raises(ValueError):
        nn.conv(x, normal(r, 4, 2, 3, 3))
    with pytest.raises(ValueError):
        nn.conv(x, normal(r, 4, 3, 9, 9))


@pytest.mark.parametrize("size, stride, padding", [(2, None, 0), ((3, 2), (2, 1), (1, 0)), (3, 2, ((1, 0), (0, 1)))])
def test_pools(r, size, stride, padding):
    x = normal(r, 2, 3, 8, 7)
    step = both(size if stride is None else stride)
    top = windows(x, both(size), step, pairs(padding), (1, 1), -np.inf).max((-1, -2))
    total = windows(x, both(size), step, pairs(padding), (1, 1)).sum((-1, -2))
    count = windows(np.ones_like(x), both(size), step, pairs(padding), (1, 1)).sum((-1, -2))
    close(nn.max_pool(x, size, stride=stride, padding=padding), top)
    close(nn.avg_pool(x, size, stride=stride, padding=padding), total / count)
    padded = nn.avg_pool(x, size, stride=stride, padding=padding, count_padded=True)
    close(padded, total / np.prod(both(size)))


def test_norms(r):
    x = normal(r, 2, 6, 5, 3) * 3 + 1
    w, b = normal(r, 6), normal(r, 6)
    c = (slice(None), None, None)
    g = x.reshape(2, 3, -1).astype(np.float64)
    g = ((g - g.mean(-1, keepdims=True)) / np.sqrt(g.var(-1, keepdims=True) + 1e-5)).reshape(x.shape)
    close(nn.group_norm(x, 3, w, b), g * w[c] + b[c])
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
    want = (x - mean[c]) / np.sqrt(variance[c] + 1e-3) * w[c] + b[c]
    close(nn.batch_norm(x, mean, variance, w, b, eps=1e-3), want)
    s = normal(r, 3)
    close(nn.rms_norm(x, s), x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * s)


def attend(q, k, v, bias=0.0, scale=None, softcap=0):
    k, v = (np.repeat(t, q.shape[1] // k.shape[1], axis=1) for t in (k, v))
    s = q.astype(np.float64) @ k.swapaxes(-1, -2) * (scale or 1 / np.sqrt(q.shape[-1]))
    s = (softcap * np.tanh(s / softcap) if softcap else s) + bias
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def test_attention(r):
    q, k, v = normal(r, 2, 4, 5, 8), normal(r, 2, 2, 7, 8), normal(r, 2, 2, 7, 6)
    close(nn.attention(q, k, v), attend(q, k, v))
    causal = np.where(np.arange(7) <= np.arange(5)[:, None] + 2, 0, -np.inf)
    close(nn.attention(q, k, v, causal=True), attend(q, k, v, causal))
    mask = r.random((5, 7)) < 0.6
    mask[:, 0] = True
    close(nn.attention(q, k, v, mask), attend(q, k, v, np.where(mask, 0, -np.inf)))
    bias = normal(r, 2, 1, 5, 7)
    close(nn.attention(q, k, v, bias, scale=0.3, softcap=2.0), attend(q, k, v, bias, 0.3, 2.0))
    lengths = np.array([3, 7])
    short = np.where(np.arange(7) < lengths[:, None, None, None], 0, -np.inf)
    close(nn.attention(q, k, v, lengths=lengths), attend(q, k, v, short))


def test_products_with_more_in_the_kernel(r):
    a, b, bias, residual = normal(r, 2, 5, 7), normal(r, 7, 3), normal(r, 3), normal(r, 5, 3)
    close(weft.matmul(a, b, bias=bias, activation="relu", residual=residual), np.maximum(a @ b + bias, 0) + residual)
    assert weft.matmul(a.astype("f2"), b.astype("f2"), dtype="float32").dtype == "float32"
    close(linalg.gemm(a[0], b, bias, alpha=0.5, beta=2.0), 0.5 * a[0] @ b + 2 * bias)
    close(linalg.gemm(a[0].T, b.T, alpha=-1.0, transpose_a=True, transpose_b=True), -a[0] @ b)
    i, j = r.integers(-128, 128, (3, 8), dtype=np.int8), r.integers(-128, 128, (5, 8), dtype=np.int8)
    got = linalg.matmul_int8(i.view(np.uint32), j.view(np.uint32))
    np.testing.assert_array_equal(got.numpy(), i.astype(int) @ j.T.astype(int))


def test_picking_and_placing(r):
    x = normal(r, 4, 5)
    i = r.integers(-4, 4, (3, 5))
    close(weft.take_along_axis(x, i, 0), np.take_along_axis(x, i, 0))
    one = i[:, :1]  # stands for all columns, as in numpy (jax-ml/jax#902)
    close(weft.take_along_axis(x, one, 0), np.take_along_axis(x, one, 0))
    close(weft.take_along_axis(x[:, :1], i, 0), np.take_along_axis(x[:, :1], i, 0))
    close(weft.gather_nd(x, [[0, 1], [3, -1]]), x[[0, 3], [1, -1]])
    close(nn.embedding(x, [[1, 1], [3, 0]]), x[[[1, 1], [3, 0]]])
    want = x.copy()
    np.put_along_axis(want, i % 4, 7.0, 0)
    close(weft.scatter_along_axis(x, i, np.full((3, 5), 7.0), 0), want)
    want = x.copy()
    np.add.at(want, [1, 1, 2], np.ones((3, 5), np.float32))
    close(weft.scatter_nd(x, [[1], [1], [2]], np.ones((3, 5)), "add"), want)
    with pytest.raises(IndexError, match="4"):
        weft.take_along_axis(x, [[4] * 5], 0)
    with pytest.raises(ValueError, match="subtract"):
        weft.scatter_nd(x, [[1]], np.ones((1, 5)), "subtract")
    np.testing.assert_array_equal(nn.one_hot([1, 0, -1, 5], 3).numpy(), [[0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 0]])


def test_shaping(r):
    x = normal(r, 3, 4)
    for width in (1, (2, 0), ((1, 2), (0, 3))):
        for mode in ("constant", "edge", "reflect", "wrap"):
            close(weft.pad(x, width, mode), np.pad(x, width, mode))
    close(weft.pad(x, 1, constant_values=2.5), np.pad(x, 1, constant_values=2.5))
    with pytest.raises(ValueError, match="mirror"):
        weft.pad(x, 1, "mirror")
    close(weft.repeat(x, 3, axis=1), np.repeat(x, 3, axis=1))
    close(weft.repeat(x, 2), np.repeat(x, 2))
    for counts in (2, (2, 1), (2, 3, 1)):
        close(weft.tile(x, counts), np.tile(x, counts))
    close(weft.tile(x[0], (2, 1, 2)), np.tile(x[0], (2, 1, 2)))
    for k in (-1, 0, 2):
        close(weft.triu(x, k=k), np.triu(x, k))
        close(weft.tril(x, k=k), np.tril(x, k))
    for parts in (2, [1, 3], [0, 2, 2]):
        for got, want in zip(weft.split(x, parts, 1), np.split(x, parts, 1), strict=True):
            close(got, want)
    with pytest.raises(ValueError, match="3"):
        weft.split(x, 3, axis=1)


def test_sorting(r):
    x = normal(r, 5, 37)
    close(weft.sort(x), np.sort(x))
    close(weft.sort(x, axis=0, descending=True), -np.sort(-x, axis=0))
    np.testing.assert_array_equal(weft.argsort(x).numpy(), np.argsort(x, kind="stable"))
    values, indices = weft.topk(x, 4)
    close(values, -np.sort(-x)[:, :4])
    np.testing.assert_array_equal(np.take_along_axis(x, indices.numpy().astype(int), 1), values.numpy())
    close(weft.topk(x, 2, axis=0, largest=False)[0], np.sort(x, axis=0)[:2])
    with pytest.raises(ValueError, match="38"):
        weft.topk(x, 38)


def test_running_sums(r):
    x = normal(r, 3, 50)
    close(weft.cumulative_sum(x, axis=1), np.cumsum(x, 1))
    close(weft.cumulative_sum(x, axis=0, reverse=True), np.cumsum(x[::-1], 0)[::-1])
    close(weft.cumulative_sum(x, axis=1, exclusive=True)[:, 1:], np.cumsum(x, 1)[:, :-1])
    close(weft.cumulative_sum(x[0], include_initial=True), np.concatenate([[0], np.cumsum(x[0])]))
    close(weft.cumulative_prod(x, axis=0), np.cumprod(x, 0))
    close(weft.diff(x), np.diff(x))
    with pytest.raises(ValueError, match="axis"):
        weft.cumulative_sum(x)


def test_random_numbers():
    def draws(seed):
        g = weft.random.Generator(seed)
        return [g.uniform((3, 5)).numpy(), g.normal(11).numpy(), g.integers(-2, 9, 100).numpy(), g.bits(4).numpy()]

    for a, b in zip(draws(5), draws(5)):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(draws(5)[0], draws(6)[0])
    g = weft.random.Generator(1)
    u = g.uniform(20000, 2.0, 4.0).numpy()
    assert u.min() >= 2 and u.max() < 4 and abs(u.mean() - 3) < 0.02
    z = g.normal(20000, 1.0, 2.0).numpy()
    assert abs(z.mean() - 1) < 0.1 and abs(z.std() - 2) < 0.1
    k = g.integers(0, 6, 6000).numpy()
    assert k.dtype == np.int32 and set(k) == set(range(6))
    assert g.seed == 1 and g.offset > 0
    at = g.offset
    first = g.uniform(3).numpy()
    g.offset = at
    np.testing.assert_array_equal(g.uniform(3).numpy(), first)


def as_pairs(z):
    return np.stack([z.real, z.imag], -1).astype(np.float32)


@pytest.mark.parametrize("n", [1, 8, 30, 97])
def test_transforms(r, n):
    x = normal(r, 3, n)
    z = x + 1j * normal(r, 3, n)
    for norm in ("backward", "ortho", "forward"):
        close(fft.fft(as_pairs(z), norm=norm), as_pairs(np.fft.fft(z, norm=norm)), 1e-4)
        close(fft.ifft(as_pairs(z), norm=norm), as_pairs(np.fft.ifft(z, norm=norm)), 1e-4)
        close(fft.rfft(x, norm=norm), as_pairs(np.fft.rfft(x, norm=norm)), 1e-4)
    close(fft.irfft(fft.rfft(x), n), x, 1e-4)
    close(fft.rfft(x.T, axis=0), as_pairs(np.fft.rfft(x.T, axis=0)), 1e-4)
    with pytest.raises(ValueError, match="norm"):
        fft.fft(as_pairs(z), norm="none")


@pytest.mark.parametrize("name", ["acos", "asin", "atan", "atanh", "sinh", "cosh", "asinh", "log10"])
def test_functions_made_of_others(name):
    numpy = {"acos": "arccos", "asin": "arcsin", "atan": "arctan", "atanh": "arctanh", "asinh": "arcsinh"}
    f = getattr(np, numpy.get(name, name))
    x = np.array([-0.0, 0.0, 1e-30, -1e-20, 1e-4, -0.3, 0.5, 0.999, -1.0, 1.0, 3.0, -50.0, 88.9, 1e10, -1e30, np.inf, -np.inf, np.nan])
    x = x.astype(np.float32)
    with np.errstate(all="ignore"):
        want = f(x.astype(np.float64))
        want = np.where(np.abs(want) > 3.4028235e38, np.sign(want) * np.inf, want).astype(np.float32)
    got = getattr(weft, name)(x).numpy()
    np.testing.assert_allclose(got, want, rtol=3e-6, atol=2e-7 if name in ("acos", "log10") else 1e-37)
    if name not in ("acos", "cosh", "log10"):
        np.testing.assert_array_equal(np.signbit(got[:2]), [True, False])


def test_acosh():
    x = np.array([1, 1.0001, 1.5, 20, 1e10, 3e38, np.inf, 0.5, np.nan], np.float32)
    with np.errstate(all="ignore"):
        want = np.arccosh(x.astype(np.float64))
    np.testing.assert_allclose(weft.acosh(x).numpy(), want, rtol=3e-6)
