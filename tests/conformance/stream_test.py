"""Evaluations in blocks against evaluations at once, and against numpy: random expressions, shapes, block sizes.

What depends on one block alone must be equal bit by bit; reductions along the axis that is cut have numpy's value
within what sums of so many terms lose. The server's "cut" tells that blocks were made at all.
"""

import re

import numpy as np
import pytest

import numpy_test
from numpy_test import SEED, restride, rng_for, values
from server import EvalError

ROUNDS = max(1, numpy_test.ROUNDS // 6)
EPS = {np.float32: 2.0**-24, np.float16: 2.0**-11}

# Expressions of x (r, c), y (r, c), v (c), l (r), w (c, k): each row of the result depends on that row alone.
ROWWISE = [
    "x * 2 + v",
    "where(x > y, x, y) * l[:, None]",
    "(x + v) * (v * 3 - v)",
    "exp(-abs(x)) / (1 + y * y)",
    "softmax(x)",
    "softmax(x * v + y)",
    "log_softmax(x, axis=1)",
    "layer_norm(x, v, v)",
    "rms_norm(x, v)",
    "x.T * l",
    "(x - x.sum(1, keepdims=1)) * l[:, None]",
    "x.max(axis=1)",
    "argmin(x, 1)",
    "cumsum(x, 1)",
    "sort(x)",
    "topk(x, 2)",
    "concatenate([x, y, x * v], axis=1)",
    "stack([x, y], axis=1)",
    "x[:, ::-1] + y[:, :1]",
    "x[:, 0] - l",
    "reshape(x, (-1,)) * 2",
    "x.reshape((len(x), 1, -1)) + 1",
    "x * arange(len(x))[:, None]",
    "pad(x, ((0, 0), (1, 2)))",
    "repeat(x, 2, 1)",
    "tile(x, (1, 2))",
    "x[:, [1, 0]]",
    "take_along_axis(x, argmax(x, 1)[:, None], 1)",
    "x.astype('int32') // 3",
    "isnan(x) | (x > 0)",
    "broadcast_to(l[:, None], x.shape) * x",
    "l * 2",
]
# Also equal bit by bit, but for the product's kernel, which is chosen by the count of rows.
PRODUCTS = ["x @ w", "relu(x @ w + 1) * 2", "softmax(x @ w)", "w.T @ x.T", "x @ v", "(x @ w) @ w.T"]
# numpy's own text where it is another.
REDUCTIONS = [
    ("sum(x)", None),
    ("sum(x, 0)", None),
    ("sum(x, 0, keepdims=1)", "np.sum(x, 0, keepdims=True)"),
    ("mean(x)", None),
    ("mean(x * y, axis=0)", None),
    ("sum(x > 0, 0)", None),
    ("max(x, 0)", None),
    ("min(x)", None),
    ("any(x > 2, 0)", None),
    ("all(x > -3, 0)", None),
    ("argmax(x, 0)", None),
    ("argmin(x)", None),
    ("argmax(x.T, 1)", None),
    ("var(x)", None),
    ("std(x, 0, ddof=1)", None),
    ("var(x, 0, keepdims=1)", "np.var(x, 0, keepdims=True)"),
    ("norm(x, 2, 0)", "np.linalg.norm(x, 2, 0)"),
    ("norm(x, 1, 0)", "np.linalg.norm(x, 1, 0)"),
    ("norm(x, inf, 0)", "np.linalg.norm(x, np.inf, 0)"),
    ("norm(x, 0, 0)", "np.linalg.norm(x, 0, 0)"),
    ("norm(x, 3)", "np.sum(np.abs(x) ** 3) ** (1 / 3)"),
    ("logsumexp(x)", "np.log(np.sum(np.exp(x)))"),
    ("logsumexp(x, 0)", "np.log(np.sum(np.exp(x), 0))"),
    ("prod(1 + x / 64, 0)", None),
    ("x.T @ x", None),
    ("x.T @ l", None),
    ("l @ x + v", None),
    ("sqrt(sum(x * x, 0)) / len(x)", None),
    ("x - mean(x, 0)", None),
    ("(x - mean(x, 0)) / std(x, 0)", None),
    ("exp(x - max(x, 0)) / sum(exp(x - max(x, 0)), 0)", None),
    ("sum(x, 0) / sum(x * x)", None),
    ("(x @ w) - mean(x @ w, 0)", None),
    ("sum(x.reshape((-1,)) * 2)", None),
]


def arrays(rng, r, c, dtype, scale=1.0, bite=False):
    def draw(*shape):
        flat = values(rng, shape, dtype) if bite else (rng.standard_normal(shape) * scale).astype(dtype)
        return restride(rng, flat)

    return {"x": draw(r, c), "y": draw(r, c), "v": draw(c), "l": draw(r), "w": draw(c, int(rng.integers(1, 20)))}


def used(text, given):
    names = set(re.findall(r"\b[a-z]\b", text))
    return {name: value for name, value in given.items() if name in names}


def blocks_of(rng, given):
    """Blocks of a few rows; memory is plenty."""
    of = given["x"] if "x" in given else min(given.values(), key=lambda a: a.nbytes)
    return {"memory": 1 << 30, "block_bytes": int(max(1, of.nbytes // rng.integers(2, 9)))}


def same_bits(a, b):
    assert a.dtype == b.dtype and a.shape == b.shape
    if np.issubdtype(a.dtype, np.floating):
        both_nan = np.isnan(a) & np.isnan(b)
        a, b = np.where(both_nan, 0, a), np.where(both_nan, 0, b)
    assert a.tobytes() == b.tobytes(), np.argwhere(a != b)[:5]


@pytest.mark.parametrize("text", ROWWISE)
def test_rowwise_is_equal_bit_by_bit(server, text):
    for round in range(ROUNDS):
        rng = rng_for("rowwise", text, round)
        r, c = int(rng.integers(3, 300)), int(rng.integers(3, 80))
        given = used(text, arrays(rng, r, c, rng.choice([np.float32, np.float16]), bite="int32" not in text))
        blocks, answer = server.eval(text, stream=blocks_of(rng, given), **given)
        whole, _ = server.eval(text, **given)
        assert answer["blocks"] > 1 and answer["passes"] == 1 and answer["cut"], (answer, SEED)
        same_bits(blocks, whole)


@pytest.mark.parametrize("length", [33, 1000, 1028, 5000])
def test_rows_are_equal_whatever_the_count(server, length):
    """A few long rows a block, and many in all: kernels share out work by the count of rows."""
    rng = rng_for("long", length)
    for text in ["softmax(x)", "layer_norm(x)", "sum(x, 1)", "cumsum(x, 1)", "var(x, 1)", "logsumexp(x, 1)"]:
        for rows in [40, 70, 200]:
            x = rng.standard_normal((rows, length)).astype("f4")
            blocks, answer = server.eval(text, stream={"block_bytes": 3 * 4 * length}, x=x)
            whole, _ = server.eval(text, x=x)
            assert answer["blocks"] > 9
            same_bits(blocks, whole)


@pytest.mark.parametrize("text", PRODUCTS)
def test_products_of_blocks(server, text):
    for round in range(ROUNDS):
        rng = rng_for("product", text, round)
        r, c = int(rng.integers(200, 600)), int(rng.integers(16, 60))
        given = used(text, arrays(rng, r, c, np.float32))
        blocks, answer = server.eval(text, stream=blocks_of(rng, given), **given)
        whole, _ = server.eval(text, **given)
        assert answer["cut"] and (answer["blocks"] > 1 or "x" not in answer["cut"])
        np.testing.assert_allclose(blocks, whole, rtol=1e-4, atol=c * c * 2e-6)


@pytest.mark.parametrize("text,reference", REDUCTIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_reductions_of_blocks(server, text, reference, dtype):
    functions = {name: getattr(np, name) for name in
                 "sum mean max min any all argmax argmin var std prod sqrt exp len".split() if hasattr(np, name)}
    for round in range(ROUNDS):
        rng = rng_for("reduction", text, dtype, round)
        r, c = int(rng.integers(200, 600)), int(rng.integers(16, 60))
        given = used(text, arrays(rng, r, c, dtype))
        blocks, answer = server.eval(text, stream=blocks_of(rng, given), **given)
        assert answer["cut"] and (answer["blocks"] > 1 or "x" not in answer["cut"])
        again, _ = server.eval(text, stream=blocks_of(rng_for("reduction", text, dtype, round), given), **given)
        with np.errstate(all="ignore"):
            wide = {name: value.astype("f8") for name, value in given.items()}
            want = np.asarray(eval(reference or text, {"np": np, **functions}, wide))
        whole, _ = server.eval(text, **given)
        assert blocks.dtype == whole.dtype and blocks.shape == whole.shape == want.shape
        if "arg" in text or blocks.dtype in (bool, np.int32):
            np.testing.assert_array_equal(blocks, whole)
            continue
        # Sums of r*c terms of size about 1, twice where two follow each other; float16 rounds what it holds in between.
        scale = max(1.0, float(np.max(np.abs(want))))
        np.testing.assert_allclose(blocks.astype("f8"), want, rtol=64 * EPS[dtype],
                                   atol=64 * EPS[dtype] * scale + 1e-6)


def test_a_product_that_adds_what_it_multiplies(server):
    rng = rng_for("twice")
    s, t = (rng.standard_normal((64, 64)).astype("f4") for _ in range(2))
    for text in ["s @ t + s", "t @ s + s", "relu(s @ t + t) + s"]:
        blocks, answer = server.eval(text, stream={"memory": 45_000, "block_bytes": 1000}, s=s, t=t)
        assert answer["blocks"] > 1
        np.testing.assert_allclose(blocks, server.eval(text, s=s, t=t)[0], rtol=1e-4, atol=1e-4)


def test_the_same_blocks_have_the_same_bits(server):
    rng = rng_for("again")
    x = rng.standard_normal((3000, 33)).astype("f4")
    for text in ["sum(x, 0)", "var(x)", "x.T @ x", "logsumexp(x, 0)"]:
        results = {server.eval(text, stream={"block_bytes": 20000}, x=x)[0].tobytes() for _ in range(4)}
        assert len(results) == 1


def test_sums_of_many_blocks_lose_little(server):
    x = np.ones((1 << 16, 16), "f4") * np.float32(0.1)
    got, answer = server.eval("sum(x)", stream={"block_bytes": 4096}, x=x)
    assert answer["blocks"] >= 1000
    assert abs(float(got) - float(np.float32(0.1)) * x.size) < 1e-6 * x.size * 0.1
    ones, _ = server.eval("sum(x)", stream={"block_bytes": 1 << 20}, x=np.ones(17_000_000, "f4"))
    assert float(ones) == 17_000_000
    spread, _ = server.eval("var(x)", stream={"block_bytes": 4096},
                            x=(1e4 + np.arange(60000) % 7).astype("f4").reshape(-1, 3))
    assert abs(float(spread) - np.var(np.arange(60000) % 7)) < 1e-4


def test_integers_keep_what_they_differ_by(server):
    near = (2**30 + np.arange(60000) % 7).astype("i4").reshape(-1, 3)
    high = (2**32 - 8 + np.arange(60000) % 7).astype("u4").reshape(-1, 3)
    far = np.where(np.arange(60000) % 2 == 0, -(2**31), 2**31 - 1).astype("i4").reshape(-1, 4)
    for stream in (None, {"block_bytes": 4096}):
        for x in (near, high):
            for text, want in (("var(x)", x.var()), ("std(x, 0)", x.std(0)), ("var(x, 1)", x.var(1))):
                got, _ = server.eval(text, stream=stream, x=x)
                np.testing.assert_allclose(got, want, rtol=1e-4)
        got, _ = server.eval("var(x)", stream=stream, x=far)
        np.testing.assert_allclose(got, far.var(), rtol=1e-5)
        got, _ = server.eval("mean(x)", stream=stream, x=far)
        assert float(got) == -0.5


def test_reductions_meet_numbers_that_bite(server):
    for round in range(ROUNDS * 4):
        rng = rng_for("bite", round)
        x = values(rng, (int(rng.integers(2, 60)), int(rng.integers(1, 6))), rng.choice([np.float32, np.float16]))
        for text in ["max(x, 0)", "min(x)", "argmax(x, 0)", "argmin(x)", "any(x, 0)", "all(x, 0)", "norm(x, inf, 0)"]:
            blocks, answer = server.eval(text, stream={"block_bytes": x.itemsize * x.shape[1]}, x=x)
            assert answer["cut"] or x.size < 4
            same_bits(blocks, server.eval(text, x=x)[0])


@pytest.mark.parametrize("dtype", ["i4", "u4", "bool"])
def test_integers_are_exact(server, dtype):
    for round in range(ROUNDS):
        rng = rng_for("integers", dtype, round)
        x = values(rng, (int(rng.integers(2, 200)), int(rng.integers(1, 9))), np.dtype(dtype))
        for text in ["sum(x, 0)", "prod(x)", "max(x, 0)", "min(x)", "argmax(x, 0)", "argmin(x)", "any(x)", "all(x, 0)",
                     "x.T @ x", "sum(x)"]:
            blocks, answer = server.eval(text, stream={"block_bytes": int(max(1, x.nbytes // 5))}, x=x)
            same_bits(blocks, server.eval(text, x=x)[0])


# -- random expressions -------------------------------------------------------------------------------------------------

def grow(rng, depth):
    """(text, kind): kind is "rc" for (r, c), "r1", "1c", "" for what broadcasts to it."""
    if depth == 0:
        return [("x", "rc"), ("y", "rc"), ("v", "1c"), ("l[:, None]", "r1"), ("2.5", "")][rng.integers(0, 5)]
    kind = rng.integers(0, 10)
    a, of = grow(rng, depth - 1)
    if kind < 4:
        b, other = grow(rng, depth - 1)
        joined = "".join("r" if "r" in k else "c" if "c" in k else "" for k in [of + other])
        rows, columns = "r" in of + other, "c" in of + other
        op = rng.choice(["+", "-", "*"])
        return f"({a} {op} {b})", ("rc" if rows and columns else "r1" if rows else "1c" if columns else "")
    if kind == 4:
        return f"tanh({a})", of
    if kind == 5 and of == "rc":
        return f"softmax({a})", of
    if kind == 6 and of == "rc":
        return f"{a}.sum(1, keepdims=1)", "r1"
    if kind == 7 and of == "rc":
        return f"{a}.mean(0)", "1c"
    if kind == 8 and of == "rc":
        return f"{a}.T.T", of
    if kind == 9 and of == "rc":
        return f"max({a})", ""
    return f"abs({a})", of


@pytest.mark.parametrize("seed", range(6))
def test_random_expressions(server, seed):
    cut = 0
    for round in range(ROUNDS * 2):
        rng = rng_for("random", seed, round)
        text, kind = grow(rng, int(rng.integers(2, 6)))
        text = f"x + {text}" if kind != "rc" else text
        r, c = int(rng.integers(2, 120)), int(rng.integers(2, 40))
        given = used(text, arrays(rng, r, c, np.float32, scale=0.5))
        if not given:
            continue
        blocks, answer = server.eval(text, stream=blocks_of(rng, given), **given)
        whole, _ = server.eval(text, **given)
        cut += answer["blocks"] > 1
        if answer["passes"] == 1 and answer["result_axis"] is not None:
            same_bits(blocks, whole)
        else:
            scale = max(1.0, float(np.max(np.abs(whole))))
            np.testing.assert_allclose(blocks, whole, rtol=1e-4, atol=1e-4 * scale, err_msg=text)
    assert cut >= 1


# -- files, memory, refusals ---------------------------------------------------------------------------------------------

def test_orders_and_axes(server):
    rng = rng_for("orders")
    x = rng.standard_normal((50, 40, 30)).astype("f4")
    for given in [x, np.asfortranarray(x), x.astype(">f4"), np.asfortranarray(x.astype(">f4"))]:
        for text in ["x * 2", "x.T + 1", "cumsum(x, 0)", "cumsum(x, 2)", "sum(x, 1)", "sum(x, 0)", "sum(x, 2)",
                     "softmax(x, 0)", "softmax(x, 1)"]:
            blocks, answer = server.eval(text, stream={"block_bytes": x.nbytes // 6}, x=given)
            assert answer["blocks"] > 1
            whole, _ = server.eval(text, x=given)
            np.testing.assert_allclose(blocks, whole, rtol=1e-5, atol=1e-5)


def test_the_axis_that_lies_outermost_in_the_file_is_cut(server):
    x = np.zeros((60, 60), "f4")
    assert server.eval("x + 1", stream={"block_bytes": 2000}, x=x)[1]["cut"] == {"x": 0}
    assert server.eval("sum(x)", stream={"block_bytes": 2000}, x=np.asfortranarray(x))[1]["cut"] == {"x": 1}
    assert server.eval("cumsum(x, 0)", stream={"block_bytes": 2000}, x=x)[1]["cut"] == {"x": 1}


def test_conversions(server):
    for dtype in ["i1", "u1", "i2", "u2", "f8", "i8", "u8"]:
        x = (np.arange(600) % 100).astype(dtype).reshape(100, 6)
        blocks, answer = server.eval("x * 2", allow_downcast=True, stream={"block_bytes": 500}, x=x)
        whole, plain = server.eval("x * 2", allow_downcast=True, x=x)
        same_bits(blocks, whole)
        assert answer["notes"] == plain["notes"] != []
    x = np.zeros((100, 6))
    x[70, 3] = x[80, 1] = 1e300
    assert "2 values overflowed" in server.eval("x * 2", allow_downcast=True, stream={"block_bytes": 500},
                                                x=x)[1]["notes"][0]
    x = np.zeros((100, 6), "i8")
    x[70, 3] = 2**40
    with pytest.raises(EvalError, match=r"1099511627776 at index \(70, 3\) does not fit"):
        server.eval("x * 2", allow_downcast=True, stream={"block_bytes": 500}, x=x)
    loose = np.array([0, 1, 2, 255], "u1").repeat(30).reshape(-1, 4)
    same_bits(server.eval("~x", stream={"block_bytes": 8}, x=loose.view(bool))[0], ~(loose != 0))


def test_archives(server, tmp_path):
    x = np.arange(3000, dtype="f4").reshape(100, 30)
    np.savez(tmp_path / "s.npz", a=x, b=np.zeros(3, "f4"))
    np.savez_compressed(tmp_path / "c.npz", a=x)
    for path in ["s.npz:a", "c.npz:a"]:
        same_bits(server.eval("x + 1", stream={"block_bytes": 1000}, x=tmp_path / path)[0], x + 1)


def test_nothing_to_cut(server):
    for shape in [(0, 5), (5, 0), (0,), (3, 0, 4)]:
        x = np.zeros(shape, "f4")
        for text in ["x + 1", "sum(x)", "x.T"]:
            want, _ = server.eval(text, x=x)
            try:
                got, answer = server.eval(text, stream={"block_bytes": 4}, x=x)
            except EvalError as error:
                assert error.code == "unsupported" and "2 or more elements" in str(error)
                continue
            same_bits(got, want)
    with pytest.raises(EvalError, match="no input has an axis of 2 or more elements"):
        server.eval("x + 1", stream={}, x=np.float32(3))
    with pytest.raises(EvalError, match="no input is read from a file"):
        server.eval("zeros((3, 4)) + k", stream={}, k=2)


@pytest.mark.parametrize("text,why", [
    ("cumsum(x, 0) + cumsum(x, 1)", "works across the axis"),
    ("softmax(x, 0) * softmax(x, 1)", "normalises along the axis"),
    ("sort(x, 0) + x[:, :1]", "takes a part of the axis"),
    ("cumsum(x, 1) + x[3]", "picks from the axis"),
    ("concatenate([x, x * 2], 0) + concatenate([x, x], 1)[:1, :60]", "along the axis"),
    ("cumsum(x.reshape((50, 120)), 0) + cumsum(x.reshape((50, 120)), 1)", "works across the axis"),
    ("sort(x.T.reshape((-1,)))", ""),
    ("argmax(x.T.reshape((600, 10)).T)", ""),
])
def test_refusals_say_what_and_where(server, text, why):
    x = np.ones((100, 60), "f4")
    with pytest.raises(EvalError) as caught:
        server.eval(text, stream={"block_bytes": 1000}, x=x)
    message = str(caught.value)
    assert caught.value.code == "unsupported" and "can't be evaluated in blocks" in message
    assert why in message and "Fix: " in message and "^" in message and "at once it takes" in message


def test_memory_is_kept_to(server):
    rng = rng_for("memory")
    x = rng.standard_normal((4000, 100)).astype("f4")
    w = rng.standard_normal((100, 100)).astype("f4")
    for text in ["x * 2", "softmax(x @ w)", "(x - mean(x, 0)) / std(x, 0)", "x.T @ x"]:
        got, answer = server.eval(text, stream={"memory": 700_000}, **used(text, {"x": x, "w": w}))
        assert answer["bytes"] <= 700_000 and answer["blocks"] > 1
    with pytest.raises(EvalError) as caught:
        server.eval("x @ w", stream={"memory": 30_000}, x=x, w=w)
    assert "too large even in blocks" in str(caught.value) and "'w'" in str(caught.value)
    assert "(100, 100)" in str(caught.value)
