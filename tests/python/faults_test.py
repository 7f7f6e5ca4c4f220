"""Faults that users of other array libraries reported, and what their kinds look like here."""

import gc
import weakref

import numpy as np
import pytest

import weft

X = np.arange(6, dtype=np.float32).reshape(2, 3)
FILL = """
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  let i = linear_index(id);
  if (i < arrayLength(&y)) { y[i] = 7.0; }
}
"""
HALF = np.array([0, 1, 2], np.float16)


# -- numpy's arrays and lists beside arrays on another device go there (pytorch/pytorch#84573,
# huggingface/transformers#33147)


@pytest.fixture(scope="module")
def other():
    return weft.Device.open()


BESIDE = {
    "list as an index": lambda x: x[[1, 0]],
    "array as an index": lambda x: x[np.array([1, 0]), np.array([0, 2])],
    "numpy's mask": lambda x: x[X > 2],
    "mask": lambda x: x[x > 2],
    "add": lambda x: weft.add(X, x),
    "where": lambda x: weft.where(X > 2, x, 0.0),
    "where, both": lambda x: weft.where(x > 2, X, X),
    "clip": lambda x: weft.clip(x, X, X + 1),
    "matmul": lambda x: weft.matmul(X.T, x, bias=np.ones(3)),
    "gemm": lambda x: weft.linalg.gemm(X.T, x, np.ones((3, 3))),
    "einsum": lambda x: weft.einsum("ij,kj->ik", X, x),
    "tensordot": lambda x: weft.tensordot(X.T, x, axes=1),
    "outer": lambda x: weft.linalg.outer(X[0], x[0]),
    "cross": lambda x: weft.linalg.cross(X, x),
    "hypot": lambda x: weft.hypot(X, x),
    "logical_and": lambda x: weft.logical_and(X, x),
    "concat": lambda x: weft.concat([X, x]),
    "stack": lambda x: weft.stack(a for a in (X, x)),
    "broadcast_arrays": lambda x: weft.broadcast_arrays(X, x)[0],
    "meshgrid": lambda x: weft.meshgrid(X[0], x[0])[0],
    "repeat": lambda x: weft.repeat(x, [1, 2], axis=0),
    "take": lambda x: weft.take(x, [0], axis=1),
    "take_along_axis": lambda x: weft.take_along_axis(x, [[0], [1]]),
    "scatter": lambda x: weft.scatter_along_axis(x, [[0], [1]], X[:, :1]),
    "scatter_nd": lambda x: weft.scatter_nd(X, [[0, 1]], x[0, :1]),
    "embedding": lambda x: weft.nn.embedding(x, [1, 0]),
    "layer_norm": lambda x: weft.nn.layer_norm(x, np.ones(3), np.zeros(3)),
    "conv": lambda x: weft.nn.conv(x[None], np.ones((1, 2, 2)), np.ones(1)),
    "attention": lambda x: weft.nn.attention(x[None, None], X[None, None], X[None, None], np.ones((2, 2), bool)),
    "jit": lambda x: weft.jit(lambda a, b: a + b)(X, x),
}


@pytest.mark.parametrize("name", BESIDE)
def test_numpy_beside_an_array_of_another_device(name, other):
    got = BESIDE[name](weft.asarray(X, device=other))
    assert got.device == other and other != weft.default_device()
    np.testing.assert_array_equal(got.numpy(), BESIDE[name](weft.asarray(X)).numpy())


def test_a_kernel_brings_numpy_to_the_device_of_its_arrays(other):
    add = weft.Kernel("""
      @group(0) @binding(0) var<storage, read> a: array<f32>;
      @group(0) @binding(1) var<storage, read> b: array<f32>;
      @group(0) @binding(2) var<storage, read_write> c: array<f32>;
      @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
        let i = linear_index(id);
        if (i < arrayLength(&c)) { c[i] = a[i] + b[i]; }
      }""")
    got = add(a=X, b=weft.asarray(X, device=other), out=dict(c=X.shape))
    assert got.device == other
    np.testing.assert_array_equal(got.numpy(), 2 * X)


def test_arrays_of_two_devices_are_refused(other):
    x, y = weft.asarray(X), weft.asarray(X, device=other)
    for call in (lambda: weft.add(x, y), lambda: weft.einsum("ij,ij", x, y), lambda: weft.concat([x, y]), lambda: x @ y.T):
        with pytest.raises(weft.ForeignBuffer, match="Fix: "):
            call()


# -- a program in which operands are shared has many more ways through it than operations (GaloisInc/cryptol#488)


def test_writing_beside_a_deep_shared_program():
    fill = weft.Kernel(FILL)
    z = weft.zeros(3)
    with weft.lazy():
        x = weft.asarray(X)
        for _ in range(60):
            x = x + x  # 2^60 paths to its one input
        reader = z + 1
        fill(y=z)  # asks of all that waits whether it reads z
    assert z.tolist() == [7, 7, 7] and reader.tolist() == [1, 1, 1]
    np.testing.assert_array_equal(x.numpy(), X * 2.0**60)


# -- dtypes


SCALARS = [np.float16(2), np.float32(2), np.float64(2), np.int8(2), np.uint8(2), np.int64(2), np.bool_(True), 2, 2.0, True]


@pytest.mark.parametrize("dtype", ["bool", "int32", "uint32", "float16", "float32"])
@pytest.mark.parametrize("number", SCALARS, ids=lambda s: f"{type(s).__name__}")
def test_every_way_to_meet_a_number_gives_one_dtype(dtype, number):
    """NEP 50 (numpy/numpy#21103): numpy's floats count by their dtypes, Python's numbers by their kinds."""
    a = np.ones(2, dtype)
    x = weft.asarray(a)
    want = weft.result_type(x, number)
    if isinstance(number, (float, np.floating)):
        exact = np.result_type(a, number)
        assert want == ("float16" if exact == "float16" else "float32")
    for lazy in (False, True):
        with weft.lazy(lazy):
            got = [x * number, number * x, weft.maximum(x, number), weft.where(x > 0, x, number),
                   weft.where(x > 0, number, x)]  # fmt: skip
            if dtype != "bool":
                got.append(weft.clip(x, number, number))
            for g in got:
                assert g.dtype == want


def test_numpys_floats_keep_their_range_beside_half_precision():
    h = weft.asarray(HALF)
    np.testing.assert_array_equal((h * np.float32(1e6)).numpy(), HALF * np.float32(1e6))
    assert (h * 1e6).dtype == "float16"
    assert weft.hypot(h, np.float32(1)).dtype == "float32"


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("name", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"])
def test_integers_are_compared_with_floats_exactly(name, lazy):
    ours, numpy = getattr(weft, name), getattr(np, name)
    arrays = [
        np.array([-(2**31), -(2**24) - 1, -1, 0, 1, 2**24 + 1, 2**31 - 1], np.int32),
        np.array([0, 1, 2, 2**24 + 1, 2**32 - 1], np.uint32),
        np.array([False, True]),
    ]
    numbers = [0.0, -0.0, 0.5, -0.5, 1.0, 1.5, 2.0**24, 2.0**24 + 1, -(2.0**24) - 1.5, 2.0**31 - 1, 2.0**31, 2.0**32 - 1,
               2.0**32 - 0.5, -(2.0**31), -(2.0**31) - 0.5, 1e300, -1e300, np.inf, -np.inf, np.nan]  # fmt: skip
    with weft.lazy(lazy):
        for a in arrays:
            x = weft.asarray(a)
            for number in numbers:
                for n in (number, np.float64(number)):
                    np.testing.assert_array_equal(ours(x, n).numpy(), numpy(a.astype(np.float64), number), f"{a} {n}")
                    np.testing.assert_array_equal(ours(n, x).numpy(), numpy(number, a.astype(np.float64)), f"{n} {a}")


@pytest.mark.parametrize("call", [
    lambda: ~weft.asarray(X),
    lambda: weft.asarray(X) & 1,
    lambda: weft.asarray(X) << 1,
    lambda: -weft.asarray([True]),
    lambda: weft.asarray([True]) - weft.asarray([True]),
    lambda: weft.sign([True]),
])  # fmt: skip
@pytest.mark.parametrize("lazy", [False, True])
def test_no_meaning_for_a_dtype_is_a_type_error(call, lazy):
    """As numpy's; it stays an InvalidArgument too."""
    with weft.lazy(lazy), pytest.raises(TypeError, match="is not defined for .*Fix: ") as e:
        call()
    assert isinstance(e.value, weft.InvalidArgument)


# -- other objects


class HasArray:
    def __array__(self, dtype=None, copy=None):
        return X


class HasInterface:
    __array_interface__ = X.__array_interface__


class Answers(HasArray):
    __array_ufunc__ = None

    def __radd__(self, other):
        return "mine"


def test_what_numpy_makes_an_array_of_stands_beside_one():
    x = weft.asarray(X)
    for y in (HasArray(), HasInterface()):
        np.testing.assert_array_equal((x + y).numpy(), 2 * X)
        np.testing.assert_array_equal((y - x).numpy(), 0 * X)
        assert (x == y).all()  # was False by identity
        assert (x @ weft.asarray(y).T).shape == (2, 2)
    np.testing.assert_array_equal((x[0] + range(3)).numpy(), [0, 2, 4])
    np.testing.assert_array_equal((x[0] + memoryview(np.ones(3, np.float32))).numpy(), [1, 2, 3])
    assert x + Answers() == "mine"
    for nothing in (None, "a", 1j, object(), HasArray):
        with pytest.raises(TypeError):
            x + nothing
        with pytest.raises(TypeError):
            x @ nothing


def test_arrays_stay_as_they_are():
    x = weft.asarray(X)
    with pytest.raises(TypeError, match="Fix: "):
        del x[0]
    with pytest.raises(TypeError, match="Fix: "):
        x[0] = 1
    y = x
    y += 1
    assert x.tolist() == X.tolist() and y.tolist() == (X + 1).tolist()


def test_an_axis_given_twice_is_refused():
    for call in (lambda: weft.flip(X, (0, -2)), lambda: weft.squeeze(X[None], (0, 0)), lambda: weft.sum(X, (1, -1))):
        with pytest.raises(ValueError, match="Fix: "):
            call()


def test_every_public_name_has_a_docstring():
    for module in (weft, weft.nn, weft.linalg, weft.fft, weft.random):
        for name in module.__all__:
            thing = getattr(module, name)
            if callable(thing):
                assert (thing.__doc__ or "").strip(), f"{module.__name__}.{name}"
    for name in dir(weft.Array):
        if not name.startswith("_"):
            assert (getattr(weft.Array, name).__doc__ or "").strip(), name


# -- weft.jit: what a caller dropped is dropped (jax-ml/jax#16226, jax-ml/jax#1605)


class Model:
    def __init__(self):
        self.w = weft.full((1000,), 2.0)

    @weft.jit
    def run(self, x):
        return x * self.w


def test_graphs_of_a_method_go_with_their_object():
    x = weft.ones((1000,))
    gc.collect()
    before = weft.memory()["live_bytes"]
    model = Model()
    seen = weakref.ref(model)
    assert model.run(x)[0].item() == 2 and len(Model.run.graphs) == 1
    del model
    gc.collect()
    assert seen() is None and Model.run.graphs == []
    for _ in range(40):
        Model().run(x)
    gc.collect()
    assert weft.memory()["live_bytes"] == before and Model.run.graphs == []


def test_objects_of_one_kind_are_told_apart():
    call = weft.jit(lambda x, f: f(x))
    x = weft.ones(3)
    kept = [lambda x, k=k: x * float(k) for k in range(5)]
    assert [call(x, f)[0].item() for f in kept] == [0, 1, 2, 3, 4]
    assert len(call.graphs) == 5
    assert [call(x, f)[0].item() for f in kept] == [0, 1, 2, 3, 4]
    # Of those that live for one call only, none stands for another, whatever its address.
    assert [call(x, lambda x, k=k: x * float(k))[0].item() for k in range(20)] == list(range(20))
    assert len(call.graphs) == 5


def test_slices_are_static_arguments():
    part = weft.jit(lambda x, s: x[s])
    x = weft.asarray(X)
    for s in (slice(0, 1), slice(None, None, -1), slice(1, None)):
        np.testing.assert_array_equal(part(x, s).numpy(), X[s])


@pytest.mark.parametrize("text, shape", [("ii->i", (3, 1)), ("ii", (1, 3)), ("aab->b", (1, 3, 2)), ("i...i->...", (2, 4, 1))])
def test_einsum_takes_no_diagonal_of_unequal_axes(text, shape):
    """numpy stretches axes of length 1 between arrays, not within one."""
    with pytest.raises(ValueError):
        np.einsum(text, np.ones(shape))
    with pytest.raises(ValueError, match="Fix: "):
        weft.einsum(text, np.ones(shape))


def test_a_kernel_that_writes_into_a_view_says_what_python_has():
    fill = weft.Kernel(FILL)
    y = weft.zeros((4, 4))
    for view in (y[:, 0], y.T, y[0, 1:3], y[::-1], weft.broadcast_to(y[0], (4, 4))):
        with pytest.raises(weft.InvalidArgument, match=r"'y' is written.*Fix: .*copy\(\)"):
            fill(y=view)
    assert not y.numpy().any()
    fill(y=y.reshape(16))
    assert (y == 7).all()


# -- Python's protocols


def test_arrays_have_weak_references():
    """As numpy's, for caches of arrays."""
    x = weft.asarray(X)
    cache = weakref.WeakValueDictionary(x=x)
    assert cache["x"] is x
    del x
    gc.collect()
    assert "x" not in cache


@pytest.mark.parametrize("call", [
    lambda x: weft.take(x, [1.0], 0),
    lambda x: weft.take_along_axis(x, X),
    lambda x: weft.nn.embedding(x, [True]),
    lambda x: weft.scatter_along_axis(x, X, X),
    lambda x: x[[1.0]],
])  # fmt: skip
def test_indices_that_are_no_integers_are_type_errors(call):
    with pytest.raises(TypeError, match="Fix: ") as e:
        call(weft.asarray(X))
    assert isinstance(e.value, weft.InvalidArgument)
