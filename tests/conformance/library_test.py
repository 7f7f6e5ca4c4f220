"""The functions that are one op of the library each, against numpy in float64 (or a few lines of it), on random shapes.

Tolerances come from the number of terms n of a sum: relative to the sum of magnitudes, n roundings at most and sqrt(n) as
a rule, so 2^-23 * sqrt(n) with room.
"""

import re

import numpy as np
import pytest

from numpy_test import rng_for
from server import EvalError

ROUNDS = 6


def close(got, want, terms=1, scale=None, dtype=np.float32):
    want = np.asarray(want, np.float64)
    assert got.shape == want.shape
    step = {np.dtype(np.float32): 2.0**-23, np.dtype(np.float16): 2.0**-10}[np.dtype(dtype)]
    scale = np.abs(want) if scale is None else np.maximum(np.abs(want), scale)
    bound = 4 * step * (np.sqrt(terms) + 4) * scale + 1e-37
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite].astype(got.dtype))
    worst = np.abs(got.astype(np.float64) - want)[finite] - np.broadcast_to(bound, want.shape)[finite]
    assert worst.size == 0 or worst.max() <= 0, f"off by {worst.max()} more than allowed"


def shape_of(rng, rank, most=20):
    return tuple(int(n) for n in rng.integers(1, most, rank))


def draw(rng, *shape):
    return rng.normal(0, 2, shape).astype(np.float32)


@pytest.mark.parametrize("round", range(ROUNDS))
@pytest.mark.parametrize("name", ["var", "std"])
def test_moments(server, name, round):
    rng = rng_for(name, round)
    x = draw(rng, *shape_of(rng, 3)) + np.float32(1000 * (round % 2))  # a small spread on a large mean
    axis = [None, 0, -1, (0, 2)][round % 4]
    ddof = round % 2
    want = getattr(np, name)(x.astype(np.float64), axis=axis, ddof=ddof, keepdims=True)
    got, _ = server.eval(f"{name}(x, axis={axis}, ddof={ddof}, keepdims=True)", x=x)
    close(got, want, x.size, scale=1e-3 if round % 2 else None)


@pytest.mark.parametrize("order", [0, 1, 2, 3, "inf", "-inf"])
def test_norm(server, order):
    rng = rng_for("norm", order)
    x = draw(rng, 7, 130)
    want = np.linalg.norm(x.astype(np.float64), ord=float(order), axis=1)
    got, _ = server.eval(f"norm(x, ord={order}, axis=1)", x=x)
    close(got, want, 130)


def test_logsumexp(server):
    x = np.array([[1000, 1000], [-np.inf, -np.inf], [0, np.log(3)], [np.inf, 1]], np.float32)
    got, _ = server.eval("logsumexp(x, axis=1)", x=x)
    with np.errstate(all="ignore"):
        want = np.array([1000 + np.log(2), -np.inf, np.log(4), np.inf])
    close(got, want)


@pytest.mark.parametrize("name,numpy_name", [("cumsum", "add"), ("cumprod", "multiply"), ("cummax", "maximum"), ("cummin", "minimum")])
@pytest.mark.parametrize("length", [1, 2, 63, 257, 5000])
def test_scans(server, name, numpy_name, length):
    rng = rng_for(name, length)
    x = rng.integers(1, 3, (3, length, 2)).astype(np.int32) if name == "cumprod" else rng.integers(-9, 9, (3, length, 2)).astype(np.int32)
    want = getattr(np, numpy_name).accumulate(x, axis=1, dtype=np.int32)  # wraps, as i32 does
    got, _ = server.eval(f"{name}(x, axis=1)", x=x)
    np.testing.assert_array_equal(got, want)
    got, _ = server.eval(f"{name}(x, axis=1, reverse=True)", x=x)
    np.testing.assert_array_equal(got, np.flip(getattr(np, numpy_name).accumulate(np.flip(x, 1), axis=1, dtype=np.int32), 1))


def test_scan_flattens_and_excludes(server):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(server.eval("cumsum(x)", x=x)[0], np.cumsum(x))
    np.testing.assert_array_equal(server.eval("cumsum(x, axis=1, exclusive=True)", x=x)[0], np.cumsum(x, 1) - x)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint32, bool])
def test_shaping(server, dtype):
    rng = rng_for("shaping", dtype)
    x = rng.integers(0, 2 if dtype == bool else 50, (3, 4, 5)).astype(dtype)
    same = lambda text, want, **inputs: np.testing.assert_array_equal(server.eval(text, **inputs)[0], want)
    same("tril(x)", np.tril(x), x=x)
    same("triu(x, k=-1)", np.triu(x, -1), x=x)
    same("triu(x, 2)", np.triu(x, 2), x=x)
    same("tile(x, (2, 1, 3))", np.tile(x, (2, 1, 3)), x=x)
    same("tile(x, 2)", np.tile(x, 2), x=x)
    same("repeat(x, 3, axis=1)", np.repeat(x, 3, 1), x=x)
    same("repeat(x, 2)", np.repeat(x, 2), x=x)
    same("pad(x, 1)", np.pad(x, 1), x=x)
    for mode in ("edge", "reflect", "wrap"):
        same(f"pad(x, ((0, 0), (2, 1), (7, 9)), mode='{mode}')", np.pad(x, ((0, 0), (2, 1), (7, 9)), mode=mode), x=x)
    index = rng.integers(-5, 5, (3, 4, 2)).astype(np.int32)
    same("take_along_axis(x, i)", np.take_along_axis(x, index, -1), x=x, i=index)
    order = np.argsort(x, axis=1, kind="stable")
    same("argsort(x, axis=1)", order, x=x)
    same("sort(x, axis=1)", np.sort(x, axis=1), x=x)


def test_pad_with_a_value_and_eye_and_one_hot(server):
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(server.eval("pad(x, (1, 2), value=9)", x=x)[0], np.pad(x, (1, 2), constant_values=9))
    np.testing.assert_array_equal(server.eval("eye(3, 5, k=1)")[0], np.eye(3, 5, 1, dtype=np.float32))
    i = np.array([0, 2, -1, 7], np.int32)
    want = np.array([[1, 0, 0], [0, 0, 1], [0, 0, 1], [0, 0, 0]], np.float32)
    np.testing.assert_array_equal(server.eval("one_hot(i, 3)", i=i)[0], want)


def test_sort_and_topk(server):
    rng = rng_for("topk")
    x = draw(rng, 5, 1000)
    x[0, 3] = np.nan
    np.testing.assert_array_equal(server.eval("sort(x)", x=x)[0], np.sort(x))
    down = -np.sort(-x[1:])
    np.testing.assert_array_equal(server.eval("topk(x, 7)", x=x[1:])[0], down[:, :7])
    at = np.argsort(-x[1:], axis=1, kind="stable")[:, :7]
    np.testing.assert_array_equal(server.eval("argtopk(x, 7)", x=x[1:])[0], at)


@pytest.mark.parametrize("n", [1, 2, 8, 12, 100, 257, 4096])
def test_fft(server, n):
    rng = rng_for("fft", n)
    z = rng.normal(size=(3, n)) + 1j * rng.normal(size=(3, n))
    pairs = np.stack([z.real, z.imag], -1).astype(np.float32)
    exact = pairs[..., 0].astype(np.float64) + 1j * pairs[..., 1]
    for name, f in (("fft", np.fft.fft), ("ifft", np.fft.ifft)):
        got, _ = server.eval(f"{name}(x)", x=pairs)
        want = f(exact)
        error = np.linalg.norm(got[..., 0] + 1j * got[..., 1] - want) / np.linalg.norm(want)
        assert error < 2.0**-22 * (np.log2(n) + 2), (name, error)
    x = pairs[..., 0]
    got, _ = server.eval("rfft(x)", x=x)
    want = np.fft.rfft(x.astype(np.float64))
    assert np.linalg.norm(got[..., 0] + 1j * got[..., 1] - want) <= 2.0**-21 * (np.log2(n) + 2) * np.linalg.norm(want)
    back, _ = server.eval(f"irfft(rfft(x), n={n})", x=x)
    assert np.linalg.norm(back - x) <= 2.0**-20 * (np.log2(n) + 2) * np.linalg.norm(x)


def test_random(server):
    a, _ = server.eval("random_normal((1000, 100), seed=3)")
    b, _ = server.eval("random_normal((1000, 100), seed=3)")
    c, _ = server.eval("random_normal((1000, 100), seed=4)")
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a, c)
    assert abs(a.mean()) < 0.02 and abs(a.std() - 1) < 0.02
    u, _ = server.eval("random_uniform(100000, seed=1, low=-2, high=3)")
    assert u.min() >= -2 and u.max() < 3 and abs(u.mean() - 0.5) < 0.03


def conv(x, w, b, stride, before, after, dilation, groups):
    """Cross-correlation over the last axes, by its definition."""
    space = x.ndim - 2
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0)] + list(zip(before, after)))
    windows = np.lib.stride_tricks.sliding_window_view(
        x, tuple(d * (k - 1) + 1 for d, k in zip(dilation, w.shape[2:])), axis=tuple(range(2, 2 + space)))
    cut = (slice(None), slice(None)) + tuple(slice(None, None, s) for s in stride) + tuple(slice(None, None, d) for d in dilation)
    windows = windows[cut]  # batch, channels, out..., window...
    parts = []
    for xs, ws in zip(np.split(windows, groups, 1), np.split(w.astype(np.float64), groups, 0)):
        letters = "xy"[:space]
        parts.append(np.einsum(f"bc{'ij'[:space]}{letters},oc{letters}->bo{'ij'[:space]}", xs, ws))
    out = np.concatenate(parts, 1)
    return out if b is None else out + b.astype(np.float64).reshape(-1, *[1] * space)


@pytest.mark.parametrize("round", range(16))
def test_convolution(server, round):
    rng = rng_for("conv", round)
    space = 1 + round % 2
    groups = int(rng.choice([1, 1, 2, 3]))
    channels, outs = groups * int(rng.integers(1, 5)), groups * int(rng.integers(1, 6))
    size = tuple(int(n) for n in rng.integers(1, 4, space))
    dilation = tuple(int(n) for n in rng.integers(1, 3, space))
    length = tuple(int(n) for n in rng.integers(9, 15, space))
    stride = tuple(int(n) for n in rng.integers(1, 3, space))
    before, after = (tuple(int(n) for n in rng.integers(0, 3, space)) for _ in range(2))
    x = rng.integers(-4, 5, (int(rng.integers(1, 3)), channels, *length)).astype(np.float32)
    w = rng.integers(-4, 5, (outs, channels // groups, *size)).astype(np.float32)
    b = rng.integers(-4, 5, outs).astype(np.float32)
    got, _ = server.eval(
        f"conv{space}d(x, w, b, stride={stride}, padding={before + after}, dilation={dilation}, groups={groups})", x=x, w=w, b=b)
    np.testing.assert_array_equal(got, conv(x, w, b, stride, before, after, dilation, groups))


def test_pools(server):
    rng = rng_for("pools")
    x = draw(rng, 2, 3, 8, 9)
    view = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (2, 3), axis=(2, 3))[:, :, ::2, ::3]
    close(server.eval("max_pool2d(x, (2, 3))", x=x)[0], view.max((-1, -2)))
    close(server.eval("avg_pool2d(x, (2, 3))", x=x)[0], view.mean((-1, -2)), 6, scale=2)
    one = np.lib.stride_tricks.sliding_window_view(x[0].astype(np.float64), 4, axis=2)
    close(server.eval("max_pool1d(x[0].reshape(3, 8, 9), 4, stride=1)", x=x)[0], one.max(-1))


def attend(q, k, v, mask=None, scale=None, causal=False):
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    heads = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, heads, 1), np.repeat(v, heads, 1)
    s = q @ np.swapaxes(k, -1, -2) * (scale or q.shape[-1] ** -0.5)
    if mask is not None:
        s = np.where(mask, s, -np.inf) if mask.dtype == bool else s + mask
    if causal:
        m, n = s.shape[-2:]
        s = np.where(np.tril(np.ones((m, n), bool), n - m), s, -np.inf)
    top = s.max(-1, keepdims=True)
    e = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    return np.where(total > 0, e / np.where(total > 0, total, 1), 0) @ v


@pytest.mark.parametrize("round", range(12))
def test_attention(server, round):
    rng = rng_for("attention", round)
    kv_heads = int(rng.integers(1, 3))
    heads = kv_heads * int(rng.integers(1, 4))
    queries, keys, dim, width = (int(n) for n in rng.integers(1, 70, 4))
    q, k, v = draw(rng, 2, heads, queries, dim), draw(rng, 2, kv_heads, keys, dim), draw(rng, 2, kv_heads, keys, width)
    options, mask = "", None
    if round % 3 == 1:
        mask = rng.random((2, 1, queries, keys)) < 0.7
        options = ", mask=m"
    if round % 3 == 2:
        mask = np.where(rng.random((queries, keys)) < 0.3, -np.inf, rng.normal(size=(queries, keys))).astype(np.float32)
        options = ", mask=m"
    causal = round % 2 == 1
    got, _ = server.eval(f"attention(q, k, v{options}, causal={causal})", q=q, k=k, v=v, **({"m": mask} if mask is not None else {}))
    close(got, attend(q, k, v, mask, causal=causal), 4 * keys + dim, scale=8)


def test_norms(server):
    rng = rng_for("norms")
    x, w, b = draw(rng, 3, 6, 5, 4), draw(rng, 6), draw(rng, 6)
    x64, w64, b64 = x.astype(np.float64), w.astype(np.float64), b.astype(np.float64)
    row = draw(rng, 4)
    want = x64 / np.sqrt((x64**2).mean(-1, keepdims=True) + 1e-5) * row
    close(server.eval("rms_norm(x, w)", x=x, w=row)[0], want, 8, scale=2)
    groups = x64.reshape(3, 2, -1)
    normal = ((groups - groups.mean(-1, keepdims=True)) / np.sqrt(groups.var(-1, keepdims=True) + 1e-5)).reshape(x.shape)
    channel = lambda a: a.reshape(1, -1, 1, 1)
    close(server.eval("group_norm(x, 2, w, b)", x=x, w=w, b=b)[0], normal * channel(w64) + channel(b64), 60, scale=4)
    mean, var = draw(rng, 6), draw(rng, 6) ** 2 + np.float32(0.1)
    want = (x64 - channel(mean)) / np.sqrt(channel(var.astype(np.float64)) + 1e-5) * channel(w64) + channel(b64)
    close(server.eval("batch_norm(x, m, v, w, b)", x=x, m=mean, v=var, w=w, b=b)[0], want, 8, scale=10)


@pytest.mark.parametrize("text,part", [
    ("conv2d(x, x[:, :2])", "conv2d"),
    ("conv1d(x, x)", "conv1d"),
    ("attention(x, x, x[0])", "attention"),
    ("pad(x, 1, mode='no')", "no mode 'no'"),
    ("pad(x, ((1, 2, 3),))", "3 numbers"),
    ("cumsum(x, axis=9)", "axis 9"),
    ("topk(x, 99)", "99"),
    ("one_hot(x, 3)", "one_hot"),
    ("fft(x)", "fft"),
    ("random_uniform(3, low=2, high=1)", "random_uniform"),
    ("sort(x, axis='a')", "sort"),
    ("max_pool2d(x, 9)", "pool"),
])
def test_errors_have_a_place_and_a_fix(server, text, part):
    with pytest.raises(EvalError) as e:
        server.eval(text, **({"x": np.zeros((2, 3, 4, 5), np.float32)} if "x" in text else {}))
    assert part in str(e.value) and "Fix: " in str(e.value) and "^" in str(e.value)


# -- calls that differ in one option, values at the ends -------------------------------------------------------------


def test_a_scale_of_zero_is_not_the_default_scale(server):
    rng = rng_for("scale")
    q, k, v = (draw(rng, 1, 2, 5, 8) for _ in range(3))
    got, _ = server.eval("attention(q, k, v, scale=0) - attention(q, k, v)", q=q, k=k, v=v)
    s = np.einsum("bhqd,bhkd->bhqk", q.astype(np.float64), k) / np.sqrt(8)
    p = np.exp(s - s.max(-1, keepdims=True))
    want = v.mean(2, keepdims=True) - (p / p.sum(-1, keepdims=True)) @ v
    np.testing.assert_allclose(got, want, atol=1e-5)


@pytest.mark.parametrize("k", [0, 1, -1, 3, -3, 4, 2**31, -(2**31), 2**32, 2**63 - 1, -(2**63 - 1)])
def test_eye_of_any_diagonal(server, k):
    want = [[float(column - row == k) for column in range(4)] for row in range(3)]
    np.testing.assert_array_equal(server.eval(f"eye(3, 4, {k})")[0], want)


INTEGERS = {"i": np.array([-(2**31), -1, 0, 2**31 - 1], np.int32), "u": np.array([0, 1, 2**32 - 1], np.uint32),
            "b": np.array([True, False])}


@pytest.mark.parametrize("op", ["==", "!=", "<", "<=", ">", ">="])
@pytest.mark.parametrize("name", INTEGERS)
def test_integers_compare_with_any_integer(server, name, op):
    x = INTEGERS[name]
    for n in (-1, 2**31, 2**32, -(2**31) - 1, 2**62, -(2**62)):
        wide = x.astype(object)  # Python's own integers
        for text in (f"x {op} {n}", f"{n} {op} x"):
            got, _ = server.eval(text, x=x)
            assert got.dtype == bool
            np.testing.assert_array_equal(got, eval(text, {"x": wide}).astype(bool), text)


@pytest.mark.parametrize("op", ["==", "!=", "<", "<=", ">", ">="])
def test_signed_integers_compare_with_unsigned(server, op):
    arrays = {"a": INTEGERS["i"][:, None], "b": INTEGERS["u"]}
    for text in (f"a {op} b", f"b {op} a"):
        got, _ = server.eval(text, **arrays)
        np.testing.assert_array_equal(got, eval(text, dict(arrays)), text)  # a copy: eval adds to it


def test_clip_where_limits_cross(server):
    x = np.array([-1, 2, 5], np.float32)
    np.testing.assert_array_equal(server.eval("clip(x, 3, 1)", x=x)[0], np.clip(x, 3, 1))


@pytest.mark.parametrize("text, words", [
    ("group_norm(x, 3)", "3 groups do not divide the 4 channels"),
    ("group_norm(x, 2, y)", "the weight has shape (3,)"),
    ("group_norm(x, 2, None, y)", "the bias has shape (3,)"),
    ("group_norm(x, 2, eps=-1)", "eps is -1"),
    ("group_norm(y, 1)", "has no channels"),
    ("batch_norm(x, y, y)", "the mean has shape (3,)"),
    ("batch_norm(x, x[0, :, 0], x[0, :, 0], None, y)", "the bias has shape (3,)"),
    ("batch_norm(x, x[0, :, 0], x[0, :, 0], eps=nan)", "eps is nan"),
    ("rms_norm(x, y)", "weight of shape (3,) does not broadcast to the normalised axes (6,)"),
    ("rms_norm(x, eps=-1)", "eps is -1"),
    ("layer_norm(x, eps=-1)", "eps is -1"),
    ("conv1d(x, x[:, :, :3], y)", "a bias of shape (3,) for 2 out channels"),
    ("conv_transpose1d(x, stack([x[0, :, :3], x[1, :, :3]], 1), y)", "a bias of shape (3,) for 2 out channels"),
    ("norm(x, nan)", "the order is NaN"),
    ("pad(x.astype('u4'), 1, value=-1)", "-1 does not fit uint32"),
    ("random_normal((2,), stddev=-1)", "no normal distribution"),
    ("attention(x[None], x[None], x[None], scale=inf)", "scale is inf"),
    ("attention(x[None], x[None], x[None], softcap=-1)", "softcap is -1"),
    ("take(y, 3)", "3 is past axis 0 of length 3"),
    ("take(y, -4)", "-4 is past axis 0 of length 3"),
    ("eye(3000000000, 0)", "a length over 2147483647"),
    ("arange(nan)", "an end is NaN"),
    ("min(1, 2)", "use minimum(a, b)"),
])
def test_calls_are_refused_before_anything_runs(server, text, words):
    x, y = np.ones((2, 4, 6), np.float32), np.ones(3, np.float32)
    inputs = {name: array for name, array in (("x", x), ("y", y)) if re.search(rf"\b{name}\b", text)}
    before = server.ask({"cmd": "stats"})["stats"]["bytes_uploaded"]
    with pytest.raises(EvalError) as e:
        server.eval(text, **inputs)
    assert words in str(e.value) and "\n" in str(e.value) and "^" in str(e.value)
    assert server.ask({"cmd": "stats"})["stats"]["bytes_uploaded"] == before


def test_a_view_of_nothing_reads_as_nothing(server):
    x = np.zeros((0, 8), np.float32)
    blocks = {"block_bytes": 64}
    for text, stream in (("x[:, 4::-2]", None), ("tanh(x)[:, [1, 2]][:, 1:]", None), ("x[:, 5]", None),
                         ("x[4::-2]", blocks), ("tanh(x)[4::-2]", blocks)):
        got, _ = server.eval(text, x=x, stream=stream)
        assert got.shape == eval(text, {"x": x, "tanh": np.tanh}).shape
