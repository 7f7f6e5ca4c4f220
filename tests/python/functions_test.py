"""Functions and operators against numpy's, on odd sizes and strided views."""

import operator

import numpy as np
import pytest

import weft

pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in")

X = np.linspace(-3, 3, 35, dtype=np.float32).reshape(5, 7)
INTS = (np.arange(35, dtype=np.int32) * 13 % 23 - 11).reshape(5, 7)
UINTS = np.arange(1, 36, dtype=np.uint32).reshape(5, 7)
BOOLS = INTS > 0


def same(got, want, rtol=2e-6, atol=1e-6):
    want = np.asarray(want)
    assert got.shape == want.shape
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got.numpy(), want, rtol=rtol, atol=atol)
    else:
        np.testing.assert_array_equal(got.numpy(), want)


UNARY = {
    "abs": np.abs, "negative": np.negative, "positive": np.positive, "sign": np.sign, "square": np.square,
    "reciprocal": np.reciprocal, "exp": np.exp, "expm1": np.expm1, "exp2": np.exp2, "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "tanh": np.tanh, "floor": np.floor, "ceil": np.ceil, "round": np.round, "trunc": np.trunc,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "logical_not": np.logical_not,
    "signbit": np.signbit,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    for a in (X, X.T[::2], X[:0]):
        same(getattr(weft, name)(a), UNARY[name](a), rtol=1e-5)


@pytest.mark.parametrize("name", ["log", "log1p", "log2", "sqrt"])
def test_unary_of_positive(name):
    a = np.abs(X) + np.float32(0.1)
    same(getattr(weft, name)(a), getattr(np, name)(a), rtol=1e-5)


def test_other_unary():
    a = np.abs(X) + np.float32(0.5)
    same(weft.rsqrt(a), 1 / np.sqrt(a), rtol=1e-5)
    same(weft.bitwise_invert(INTS), ~INTS)
    same(weft.bitwise_invert(BOOLS), ~BOOLS)
    from math import erf

    same(weft.erf(X), np.vectorize(erf)(X).astype(np.float32), rtol=1e-5)
    same(weft.signbit(np.array([0.0, -0.0, 1, -1, np.inf, -np.inf], np.float32)), [False, True, False, True, False, True])


BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
    "floor_divide": np.floor_divide, "remainder": np.remainder, "minimum": np.minimum, "maximum": np.maximum,
    "atan2": np.arctan2, "fmod": np.fmod, "hypot": np.hypot, "copysign": np.copysign, "logaddexp": np.logaddexp,
    "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal, "logical_and": np.logical_and,
    "logical_or": np.logical_or, "logical_xor": np.logical_xor,
}  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    ours, numpy = getattr(weft, name), BINARY[name]
    b = X[::-1, ::-1] + np.float32(0.37)
    same(ours(X, b), numpy(X, b), rtol=1e-5)
    same(ours(X.T, b[:, :1].T), numpy(X.T, b[:, :1].T), rtol=1e-5)
    same(ours(weft.asarray(X), 1.5), numpy(X, np.float32(1.5)), rtol=1e-5)
    same(ours(1.5, weft.asarray(X)), numpy(np.float32(1.5), X), rtol=1e-5)


def test_hypot_and_logaddexp_at_the_ends():
    a = np.array([np.inf, -np.inf, np.nan, 3e38, 0, np.inf, -np.inf], np.float32)
    b = np.array([np.nan, 1, 1, 1e38, 0, np.inf, -np.inf], np.float32)
    same(weft.hypot(a, b), np.hypot(a, b))
    same(weft.logaddexp(a, b), np.logaddexp(a, b))


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bits(name):
    for a in (INTS, UINTS, BOOLS):
        same(getattr(weft, name)(a, a[::-1]), getattr(np, name)(a, a[::-1]))


def test_shifts_and_powers():
    same(weft.bitwise_left_shift(INTS, UINTS.astype(np.int32) % 5), INTS << (UINTS.astype(np.int32) % 5))
    same(weft.bitwise_right_shift(INTS, 2), INTS >> 2)
    same(weft.pow(np.abs(X), 2.5), np.abs(X) ** np.float32(2.5), rtol=1e-5)
    same(weft.pow(INTS, 3), INTS**3)


OPERATORS = ["add", "sub", "mul", "truediv", "floordiv", "mod", "lt", "le", "gt", "ge", "eq", "ne"]


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name):
    op = getattr(operator, name)
    a, b = X, X[::-1] + np.float32(0.11)
    x, y = weft.asarray(a), weft.asarray(b)
    want = op(a, b)
    same(op(x, y), want, rtol=1e-5)
    same(op(x, b), want, rtol=1e-5)  # numpy on the right
    assert isinstance(op(a, y), weft.Array)
    same(op(a, y), want, rtol=1e-5)  # and on the left
    same(op(x, 2), op(a, np.float32(2)), rtol=1e-5)
    same(op(2.5, x), op(np.float32(2.5), a), rtol=1e-5)
    same(op(np.float32(2.5), x), op(np.float32(2.5), a), rtol=1e-5)


@pytest.mark.parametrize("name", ["and_", "or_", "xor", "lshift", "rshift"])
def test_operators_of_integers(name):
    op = getattr(operator, name)
    a, b = INTS, np.abs(INTS[::-1]) % 9
    same(op(weft.asarray(a), weft.asarray(b)), op(a, b))
    same(op(weft.asarray(a), 3), op(a, np.int32(3)))
    same(op(3, weft.asarray(b)), op(np.int32(3), b))


def test_unary_operators_and_power():
    x = weft.asarray(X)
    same(-x, -X)
    same(+x, X)
    same(abs(x), abs(X))
    same(~weft.asarray(BOOLS), ~BOOLS)
    same(x**2, X**2)
    same(2.0**x, np.float32(2) ** X, rtol=1e-5)
    same(x @ x.T, X @ X.T, rtol=1e-5)
    same(X.T @ x, X.T @ X, rtol=1e-5)


def test_what_operators_refuse():
    x = weft.asarray(X)
    for other in ("a", object(), {}):
        with pytest.raises(TypeError):
            x + other
        with pytest.raises(TypeError):
            other * x
        assert (x == other) is False and (x != other) is True
    assert (x == None) is False  # noqa: E711
    with pytest.raises(TypeError):
        x @ 2
    with pytest.raises(TypeError):
        pow(x, 2, 3)
    with pytest.raises(ValueError, match="does not fit"):
        weft.asarray(INTS) + 2**40
    with pytest.raises(ValueError, match="64 bits"):
        weft.asarray(INTS) + 2**70


def test_promotion():
    dtypes = ["bool", "int32", "uint32", "float16", "float32"]
    arrays = {t: weft.ones(3, t) for t in dtypes}
    for a in dtypes:
        for b in dtypes:
            got = (arrays[a] * arrays[b]).dtype
            want = np.promote_types(a, b)
            want = {"int64": "int32", "float64": "float32"}.get(str(want), str(want))
            if a != b and {a, b} & {"float16"} and {a, b} & {"int32", "uint32"}:
                want = "float32"
            assert got == want, (a, b)
    assert (arrays["int32"] + 1.5).dtype == "float32" and (arrays["float16"] * 2.0).dtype == "float16"
    assert (arrays["bool"] + 1).dtype == "int32" and (arrays["uint32"] + True).dtype == "uint32"


REDUCE = ["sum", "mean", "prod", "max", "min", "any", "all", "argmax", "argmin"]


@pytest.mark.parametrize("name", REDUCE)
def test_reductions(name):
    a = (np.arange(2 * 5 * 3, dtype=np.float32).reshape(2, 5, 3) * 7 % 11) / 8
    x = weft.asarray(a)
    for axis in (None, 0, -1, 1):
        for keepdims in (False, True):
            want = getattr(np, name)(a, axis=axis, keepdims=keepdims)
            same(getattr(weft, name)(x, axis=axis, keepdims=keepdims), want)
            same(getattr(x, name)(axis, keepdims), want)
    if not name.startswith("arg"):
        same(getattr(weft, name)(x.T, axis=(0, -1)), getattr(np, name)(a.T, axis=(0, -1)))


def test_dtypes_of_reductions():
    assert weft.sum(BOOLS).dtype == "int32" and weft.sum(UINTS).dtype == "uint32"
    assert weft.mean(INTS).dtype == "float32" and weft.argmax(X).dtype == "int32" and weft.any(X).dtype == "bool"
    assert weft.sum(INTS, dtype="float32").dtype == "float32"


def test_where_and_clip():
    same(weft.where(BOOLS, X, -X), np.where(BOOLS, X, -X))
    same(weft.where(BOOLS, X, 0.5), np.where(BOOLS, X, np.float32(0.5)))
    same(weft.where(BOOLS, 1, 0), np.where(BOOLS, 1, 0))
    assert weft.where(BOOLS, 1, 2.5).dtype == "float32"
    same(weft.clip(X, -1, 1), np.clip(X, -1, 1))
    same(weft.clip(X, min=0), np.clip(X, 0, None))
    same(weft.clip(X, None, X[0]), np.minimum(X, X[0]))
    same(weft.clip(X), X)


def test_astype():
    same(weft.astype(X, "int32"), X.astype(np.int32))
    assert weft.astype(np.array([np.nan, 1e20, -1e20], np.float32), "int32").tolist() == [0, 2**31 - 1, -(2**31)]
    same(weft.asarray(INTS).astype("bool"), INTS.astype(bool))
    x = weft.asarray(X)
    assert x.astype("float32", copy=False) is x and x.astype("float32") is not x


def test_shapes():
    x = weft.asarray(X)
    same(weft.reshape(x, (7, -1)), X.reshape(7, 5))
    same(x.reshape(35), X.reshape(35))
    same(x.reshape(7, 5), X.reshape(7, 5))
    same(weft.permute_dims(x, (1, 0)), X.T)
    same(x.transpose(), X.T)
    same(x.transpose(0, 1), X)
    same(weft.broadcast_to(x[:1], (4, 7)), np.broadcast_to(X[:1], (4, 7)))
    same(weft.expand_dims(x, -1), X[..., None])
    same(weft.squeeze(x[:1, None]), X[0])
    same(weft.squeeze(x[:1, None], 0), X[:1])
    with pytest.raises(ValueError, match="length 5"):
        weft.squeeze(x, 0)
    same(weft.flip(x), np.flip(X))
    same(weft.flip(x, -1), np.flip(X, -1))
    same(weft.roll(x, 3), np.roll(X, 3))
    same(weft.roll(x, (1, -9), (0, 1)), np.roll(X, (1, -9), (0, 1)))
    same(weft.moveaxis(x[None], 0, -1), np.moveaxis(X[None], 0, -1))
    same(weft.moveaxis(x[None], (2, 0), (0, 1)), np.moveaxis(X[None], (2, 0), (0, 1)))
    same(weft.swapaxes(x, 0, 1), X.T)
    same(weft.matrix_transpose(x), X.T)
    same(x.flatten(), X.flatten())
    assert [r.tolist() for r in weft.unstack(weft.asarray([[1, 2], [3, 4]]), axis=1)] == [[1, 3], [2, 4]]
    for got, want in zip(weft.broadcast_arrays(x, X[0]), np.broadcast_arrays(X, X[0])):
        same(got, want)
    for indexing in ("xy", "ij"):
        for got, want in zip(weft.meshgrid(X[0], X[:, 0], indexing=indexing), np.meshgrid(X[0], X[:, 0], indexing=indexing)):
            same(got, want)


def test_joins_and_takes():
    same(weft.concat([X, X[:2]]), np.concatenate([X, X[:2]]))
    same(weft.concat([X, X[:, ::2]], axis=-1), np.concatenate([X, X[:, ::2]], axis=-1))
    same(weft.concat([X, X[0]], axis=None), np.concatenate([X, X[0]], axis=None))
    same(weft.stack([X, -X], axis=-1), np.stack([X, -X], axis=-1))
    same(weft.take(X, [[4, 0], [-1, 2]], axis=0), np.take(X, [[4, 0], [-1, 2]], axis=0))
    same(weft.take(X, [34, 0]), np.take(X, [34, 0]))
    with pytest.raises(IndexError, match="5"):
        weft.take(X, [5], axis=0)


def test_making():
    same(weft.zeros((2, 3)), np.zeros((2, 3), np.float32))
    same(weft.ones(4, "int32"), np.ones(4, np.int32))
    same(weft.full((2, 2), 7), np.full((2, 2), 7))
    assert weft.full(2, 0.5).dtype == "float32" and weft.full(2, True).dtype == "bool"
    assert weft.empty((0, 4)).shape == (0, 4)
    same(weft.arange(5), np.arange(5))
    same(weft.arange(2, 9, 3), np.arange(2, 9, 3))
    same(weft.arange(1.0, 0, -0.25), np.arange(1.0, 0, -0.25, np.float32))
    same(weft.linspace(0, 1, 11), np.linspace(0, 1, 11, dtype=np.float32))
    same(weft.linspace(0, 1, 4, endpoint=False), np.linspace(0, 1, 4, endpoint=False, dtype=np.float32))
    same(weft.eye(3), np.eye(3, dtype=np.float32))
    same(weft.eye(3, 5, k=1, dtype="int32"), np.eye(3, 5, k=1, dtype=np.int32))
    x = weft.asarray(INTS)
    same(weft.zeros_like(x), np.zeros_like(INTS))
    same(weft.ones_like(x, dtype="float32"), np.ones_like(X))
    same(weft.full_like(x, 3), np.full_like(INTS, 3))
    assert weft.empty_like(x).dtype == "int32"


def test_products():
    same(weft.matmul(X, X.T), X @ X.T, rtol=1e-5)
    same(weft.linalg.matmul(X[0], X[1]), X[0] @ X[1], rtol=1e-5)
    same(weft.vecdot(X, X), (X * X).sum(-1), rtol=1e-5)
    same(weft.linalg.outer(X[0], X[1]), np.outer(X[0], X[1]))
    same(weft.tensordot(X, X, axes=([0, 1], [0, 1])), np.tensordot(X, X, axes=([0, 1], [0, 1])), rtol=1e-5)
    same(weft.tensordot(X, X.T, axes=1), np.tensordot(X, X.T, axes=1), rtol=1e-5)
    with pytest.raises(ValueError, match="inner"):
        weft.matmul(X, X)


def test_layers():
    a = X.astype(np.float64)
    e = np.exp(a - a.max(1, keepdims=True))
    same(weft.nn.softmax(X), (e / e.sum(1, keepdims=True)).astype(np.float32), rtol=1e-5)
    same(weft.nn.softmax(X.T, axis=0), (e / e.sum(1, keepdims=True)).T.astype(np.float32), rtol=1e-5)
    same(weft.nn.log_softmax(X), np.log(e / e.sum(1, keepdims=True)).astype(np.float32), rtol=1e-5)
    w, b = X[0] + 2, X[1]
    n = (a - a.mean(1, keepdims=True)) / np.sqrt(a.var(1, keepdims=True) + 1e-3)
    same(weft.nn.layer_norm(X, eps=1e-3), n.astype(np.float32), rtol=1e-4, atol=1e-5)
    same(weft.nn.layer_norm(X, w, b, eps=1e-3), (n * w + b).astype(np.float32), rtol=1e-4, atol=1e-5)
    same(weft.nn.relu(X), np.maximum(X, 0))
    same(weft.nn.sigmoid(X), 1 / (1 + np.exp(-X)), rtol=1e-5)
    same(weft.nn.silu(X), X / (1 + np.exp(-X)), rtol=1e-5)
    from math import erf

    same(weft.nn.gelu(X), (a * 0.5 * (1 + np.vectorize(erf)(a / np.sqrt(2)))).astype(np.float32), rtol=1e-4, atol=1e-5)
    t = 0.5 * a * (1 + np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a**3)))
    same(weft.nn.gelu(X, approximate="tanh"), t.astype(np.float32), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="approximate"):
        weft.nn.gelu(X, approximate="fast")
