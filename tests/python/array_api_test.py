"""The array API standard: its names, against array_api_missing.txt, and its behaviour beside array-api-strict's."""

import pathlib

import array_api_strict as xp
import numpy as np
import pytest

import weft

xp.set_array_api_strict_flags(api_version="2024.12")
LISTED = {
    line.split("\t")[0]
    for line in (pathlib.Path(__file__).parent / "array_api_missing.txt").read_text().splitlines()
    if not line.startswith("#")
}
# array-api-strict's own, no part of the standard.
OWN = {n for n in xp.__all__ if "flags" in n.lower()}
PARTS = {
    "linalg": {n for n in xp.linalg.__all__},
    "fft": {n for n in xp.fft.__all__},
}


def test_names():
    missing = {n for n in set(xp.__all__) - OWN if not hasattr(weft, n)}
    for part, names in PARTS.items():
        missing |= {f"{part}.{n}" for n in names if not hasattr(getattr(weft, part), n)}
    own = {n for n in vars(type(xp.asarray(1))) if n.startswith("__")} - {"__buffer__", "__slots__", "__weakref__"}
    operators = {n for n in own if n.startswith("__i") and n not in ("__index__", "__int__", "__invert__", "__init__", "__iter__")}
    missing |= {f"Array.{n}" for n in own - operators if not hasattr(weft.Array, n)}
    assert missing | {"Array.__setitem__"} == LISTED


def test_setitem_is_what_the_list_says():
    with pytest.raises(TypeError):
        weft.zeros(1)[0] = 1


NARROW = {"int64": "int32", "uint64": "uint32", "float64": "float32", "int8": "int32", "uint8": "uint32"}
F = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
P = np.abs(F) + np.float32(0.25)
I = (np.arange(12, dtype=np.int32).reshape(3, 4) * 7) % 5 - 2
U = (np.arange(12, dtype=np.uint32).reshape(3, 4) * 5) % 7
B = I > 0

UNARY = {
    "abs": [F, I], "negative": [F, I], "positive": [F, I], "sign": [F, I], "square": [F, I], "ceil": [F, I],
    "floor": [F, I], "round": [F, I], "trunc": [F, I], "isfinite": [F, I], "isinf": [F], "isnan": [F], "signbit": [F],
    "acos": [F / 3], "acosh": [P + 1], "asin": [F / 3], "asinh": [F], "atan": [F], "atanh": [F / 3], "cos": [F],
    "cosh": [F], "exp": [F], "expm1": [F], "log": [P], "log10": [P], "log1p": [P], "log2": [P], "reciprocal": [P],
    "sin": [F], "sinh": [F], "sqrt": [P], "tan": [F], "tanh": [F], "logical_not": [B], "bitwise_invert": [I, U, B],
}  # fmt: skip
BINARY = {
    "add": "fi", "subtract": "fi", "multiply": "fi", "divide": "f", "floor_divide": "fi", "remainder": "fi", "pow": "p",
    "maximum": "fi", "minimum": "fi", "atan2": "f", "copysign": "f", "hypot": "f", "logaddexp": "f", "equal": "fib",
    "not_equal": "fib", "less": "fi", "less_equal": "fi", "greater": "fi", "greater_equal": "fi", "bitwise_and": "ib",
    "bitwise_or": "ib", "bitwise_xor": "ib", "bitwise_left_shift": "u", "bitwise_right_shift": "u", "logical_and": "b",
    "logical_or": "b", "logical_xor": "b",
}  # fmt: skip
PAIRS = {
    "f": (F, F[::-1] + np.float32(0.3)),
    "i": (I, I[:, ::-1] * 2 + 1),
    "b": (B, B[::-1]),
    "p": (P, F),
    "u": (U, U[::-1] % 4),
}


def check(got, want):
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for a, b in zip(got, want):
            check(a, b)
        return
    want = np.asarray(want)
    assert isinstance(got, weft.Array)
    assert got.shape == want.shape
    assert got.dtype == NARROW.get(str(want.dtype), str(want.dtype))
    if want.dtype.kind == "f":
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(got.numpy(), want)


def side_by_side(f, *arrays):
    check(f(weft, *(weft.asarray(a) for a in arrays)), f(xp, *(xp.asarray(a) for a in arrays)))


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    for a in UNARY[name]:
        for view in (a, a.T, a[:, ::2], a[:0]):
            side_by_side(lambda m, x: getattr(m, name)(x), view)


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    for kind in BINARY[name]:
        a, b = PAIRS[kind]
        side_by_side(lambda m, x, y: getattr(m, name)(x, y), a, b)
        side_by_side(lambda m, x, y: getattr(m, name)(x, y), a[:, :1], b[:1])
        side_by_side(lambda m, x, y: getattr(m, name)(x, y), a[:0], b[:1])


CALLS = {
    "sum": lambda m, x: [m.sum(x), m.sum(x, axis=0), m.sum(x, axis=(0, 1), keepdims=True)],
    "prod": lambda m, x: [m.prod(x), m.prod(x, axis=-1, keepdims=True)],
    "mean": lambda m, x: [m.mean(x), m.mean(x, axis=1)],
    "var": lambda m, x: [m.var(x), m.var(x, axis=1, correction=1), m.var(x, axis=0, keepdims=True)],
    "std": lambda m, x: [m.std(x), m.std(x, axis=1, correction=1.0 if m is xp else 1)],
    "max": lambda m, x: [m.max(x), m.max(x, axis=0)],
    "min": lambda m, x: [m.min(x), m.min(x, axis=0, keepdims=True)],
    "any": lambda m, x: [m.any(x > 0), m.any(x > 9, axis=0), m.any(x)],
    "all": lambda m, x: [m.all(x > 0), m.all(x < 9, axis=0), m.all(x)],
    "argmax": lambda m, x: [m.argmax(x), m.argmax(x, axis=1, keepdims=True)],
    "argmin": lambda m, x: [m.argmin(x), m.argmin(x, axis=0)],
    "count_nonzero": lambda m, x: [m.count_nonzero(x), m.count_nonzero(x, axis=1)],
    "cumulative_sum": lambda m, x: [m.cumulative_sum(x, axis=1), m.cumulative_sum(x, axis=0, include_initial=True)],
    "cumulative_prod": lambda m, x: [m.cumulative_prod(x, axis=1), m.cumulative_prod(x, axis=0, include_initial=True)],
    "diff": lambda m, x: [m.diff(x), m.diff(x, axis=0, n=2)],
    "sort": lambda m, x: [m.sort(x), m.sort(x, axis=0, descending=True)],
    "argsort": lambda m, x: [m.argsort(x), m.argsort(x, axis=0)],
    "take": lambda m, x: [m.take(x, m.asarray([2, 0]), axis=0)],
    "take_along_axis": lambda m, x: [m.take_along_axis(x, m.argsort(x, axis=0), axis=0)],
    "where": lambda m, x: [m.where(x > 0, x, -x), m.where(x > 0, x, 0.0)],
    "clip": lambda m, x: [m.clip(x, -1.0, 1.0), m.clip(x, min=0.0), m.clip(x, max=x[0, ...])],
    "astype": lambda m, x: [m.astype(x, m.int32), m.astype(x, m.bool), m.astype(x, m.float32)],
    "reshape": lambda m, x: [m.reshape(x, (4, 3)), m.reshape(x, (-1,)), m.reshape(x, (2, -1, 3))],
    "permute_dims": lambda m, x: [m.permute_dims(x, (1, 0)), x.T, x.mT, m.matrix_transpose(x)],
    "broadcast": lambda m, x: [m.broadcast_to(x, (2, 3, 4)), m.broadcast_arrays(x, x[0, ...])],
    "expand_dims": lambda m, x: [m.expand_dims(x, axis=0), m.expand_dims(x, axis=-1), m.expand_dims(x, axis=1)],
    "squeeze": lambda m, x: [m.squeeze(m.expand_dims(x, axis=1), axis=1)],
    "flip": lambda m, x: [m.flip(x), m.flip(x, axis=1), m.flip(x, axis=(0, -1))],
    "roll": lambda m, x: [m.roll(x, 2), m.roll(x, (1, -1), axis=(0, 1))],
    "moveaxis": lambda m, x: [m.moveaxis(x, 0, 1), m.moveaxis(m.expand_dims(x, axis=0), (0, 1), (2, 0))],
    "concat": lambda m, x: [m.concat([x, x]), m.concat((x, x[:, :1]), axis=1), m.concat([x, x], axis=None)],
    "stack": lambda m, x: [m.stack([x, -x]), m.stack([x, x], axis=-1)],
    "unstack": lambda m, x: [m.unstack(x), m.unstack(x, axis=1)],
    "repeat": lambda m, x: [m.repeat(x, 3), m.repeat(x, 2, axis=1)],
    "tile": lambda m, x: [m.tile(x, (2,)), m.tile(x, (2, 1, 2))],
    "meshgrid": lambda m, x: [m.meshgrid(x[0, ...], x[:, 0]), m.meshgrid(x[0, ...], x[:, 0], indexing="ij")],
    "tril": lambda m, x: [m.tril(x), m.tril(x, k=-1), m.triu(x), m.triu(x, k=2)],
    "matmul": lambda m, x: [m.matmul(x, x.T), x @ x.T, m.linalg.matmul(x.T, x)],
    "tensordot": lambda m, x: [m.tensordot(x, x.T, axes=1), m.tensordot(x, x, axes=((0, 1), (0, 1)))],
    "vecdot": lambda m, x: [m.vecdot(x, x), m.vecdot(x, x, axis=0) if m is weft else m.vecdot(x.T, x.T)],
    "linalg": lambda m, x: [
        m.linalg.outer(x[0, ...], x[1, ...]), m.linalg.trace(x), m.linalg.trace(x, offset=-1), m.linalg.diagonal(x),
        m.linalg.diagonal(x, offset=2), m.linalg.cross(x[:, :3], x[:, 1:]), m.linalg.matrix_norm(x),
    ],
    "vector_norm": lambda m, x: [
        m.linalg.vector_norm(x), m.linalg.vector_norm(x, axis=1, ord=1), m.linalg.vector_norm(x, ord=float("inf")),
        m.linalg.vector_norm(x, axis=0, keepdims=True, ord=3),
    ],
    "like": lambda m, x: [m.zeros_like(x), m.ones_like(x), m.full_like(x, 2.0), m.zeros_like(x, dtype=m.int32)],
    "index": lambda m, x: [
        x[1, ...], x[:, 1], x[..., -1], x[::-1, 1:3], x[None, :, :], x[1, 2], x[x > 0], x[m.asarray([2, 0]), m.asarray([1, -1])],
    ],
    "operators": lambda m, x: [x + 1.0, 2.0 - x, x * x, x / 2.0, x // 0.7, x % 0.7, -x, abs(x), x**2.0, x > 0, x == x],
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_call(name):
    side_by_side(CALLS[name], F)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "argmax", "sort", "cumulative_sum", "take", "concat", "flip"])
def test_call_of_integers(name):
    side_by_side(CALLS[name], I)


def test_making():
    for f in (
        lambda m: [m.zeros((2, 3)), m.ones(4), m.zeros(2, dtype=m.int32), m.full((2,), 3.0), m.full((2,), 3)],
        lambda m: [m.arange(5), m.arange(1, 9, 3), m.arange(0.0, 1.0, 0.25), m.arange(5, dtype=m.float32)],
        lambda m: [m.linspace(0, 1, 5), m.linspace(0, 1, 4, endpoint=False), m.eye(3), m.eye(2, 4, k=1), m.eye(3, 2, k=-1)],
        lambda m: [m.asarray([[1, 2], [3, 4]]), m.asarray(1.5), m.asarray(True), m.asarray([1, 2], dtype=m.float32)],
    ):
        check(f(weft), f(xp))


def test_dtypes():
    names = ["bool", "int32", "uint32", "float32"]
    for kind in ("bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric"):
        for n in names:
            assert weft.isdtype(getattr(weft, n), kind) == xp.isdtype(getattr(xp, n), kind)
    assert weft.isdtype(weft.int32, ("bool", weft.int32)) and not weft.isdtype(weft.int32, weft.float32)
    for n in names:
        assert weft.result_type(getattr(weft, n), weft.bool if n == "bool" else getattr(weft, n)) == n
        assert weft.can_cast(getattr(weft, n), getattr(weft, n))
    assert weft.result_type(weft.ones(1, "int32"), 2.5) == "float32" and weft.result_type(weft.float16, 2.5) == "float16"
    for a in names + ["float16"]:  # as the ops do it
        for b in names + ["float16"]:
            assert weft.result_type(a and getattr(weft, a), getattr(weft, b)) == (weft.ones(1, a) * weft.ones(1, b)).dtype
    assert weft.finfo(weft.float32).eps == xp.finfo(xp.float32).eps
    assert weft.iinfo(weft.ones(1, "int32")).max == 2**31 - 1
    info = weft.__array_namespace_info__()
    assert info.default_dtypes()["integral"] == "int32" and set(info.dtypes(kind="integral")) == {"int32", "uint32"}
    assert info.default_device() in info.devices() and info.capabilities()["boolean indexing"]


def test_array_attributes():
    for a in (F, F.T, I, B, F[:0]):
        x, y = weft.asarray(a), xp.asarray(a)
        assert (x.shape, x.ndim, x.size) == (y.shape, y.ndim, y.size)
        assert x.__array_namespace__() is weft
    assert x.to_device(x.device).shape == x.shape
    for f in (bool, int, float, complex):
        assert f(weft.asarray(3)) == f(xp.asarray(3))
