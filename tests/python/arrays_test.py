"""weft.asarray, weft.Array and the ways out: numpy(), __array__, DLPack."""

import gc
import pickle

import ml_dtypes
import numpy as np
import pytest

import weft

DTYPES = ["bool", "int32", "uint32", "float16", "float32"]


def base(dtype, shape):
    n = int(np.prod(shape))
    return (np.arange(n).reshape(shape) * 7 % 11 - (0 if dtype in ("bool", "uint32") else 5)).astype(dtype)


VIEWS = {
    "plain": lambda a: a,
    "reversed": lambda a: a[::-1, :, ::-1],
    "steps": lambda a: a[::2, 1::3, ::-2],
    "fortran": np.asfortranarray,
    "transposed": lambda a: a.transpose(2, 0, 1),
    "broadcast": lambda a: np.broadcast_to(a[:, :1], (5, 7, 9)),
    "zero size": lambda a: a[:, 3:3],
    "no axes": lambda a: a[1, 2, 3],
    "0-d array": lambda a: np.array(a[1, 2, 3]),
    "one element": lambda a: a[:1, :1, :1],
    "big endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "big endian view": lambda a: a.astype(a.dtype.newbyteorder(">"))[::-1, ::2],
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("view", VIEWS)
def test_round_trip(dtype, view):
    a = VIEWS[view](base(dtype, (5, 7, 9)))
    x = weft.asarray(a)
    assert (x.shape, x.ndim, x.size, x.nbytes) == (a.shape, a.ndim, a.size, a.nbytes)
    assert x.dtype == np.dtype(dtype) and x.dtype.isnative
    got = x.numpy()
    assert got.dtype == np.dtype(dtype) and got.shape == a.shape
    np.testing.assert_array_equal(got, a)
    assert got.flags.writeable and got.flags.owndata


def test_read_only_and_unaligned():
    a = np.arange(6, dtype=np.float32)
    a.flags.writeable = False
    np.testing.assert_array_equal(weft.asarray(a).numpy(), a)
    raw = np.frombuffer(b"\0" + np.arange(4, dtype="<f4").tobytes() + b"\0\0\0", np.uint8)[1:17].view("<f4")
    assert not raw.flags.aligned
    np.testing.assert_array_equal(weft.asarray(raw).numpy(), [0, 1, 2, 3])
    records = np.zeros(5, [("a", "u1"), ("b", "<f4")])
    records["b"] = range(5)
    np.testing.assert_array_equal(weft.asarray(records["b"]).numpy(), range(5))


def test_the_source_may_change_afterwards():
    a = np.ones(1000, np.float32)
    x = weft.asarray(a)
    a[:] = 2
    assert float(weft.max(x)) == 1


@pytest.mark.parametrize(
    "source, held",
    [
        ("float64", "float32"),
        ("longdouble", "float32"),
        ("int64", "int32"),
        ("int16", "int32"),
        ("int8", "int32"),
        ("uint64", "uint32"),
        ("uint16", "uint32"),
        ("uint8", "uint32"),
        (ml_dtypes.bfloat16, "float32"),
    ],
)
def test_what_other_dtypes_become(source, held):
    a = np.array([[1, 2], [3, 100]]).astype(source)
    x = weft.asarray(a)
    assert x.dtype == held
    np.testing.assert_array_equal(x.numpy(), a.astype(held))
    assert weft.asarray(a[:0]).dtype == held


def test_numbers_and_lists():
    assert weft.asarray(3).dtype == "int32" and int(weft.asarray(3)) == 3
    assert weft.asarray(True).dtype == "bool"
    assert weft.asarray(2.5).dtype == "float32"
    assert weft.asarray([[1, 2], [3, 4]]).shape == (2, 2)
    assert weft.asarray([]).dtype == "float32" and weft.asarray([]).shape == (0,)
    assert weft.asarray([1, 2.5, True]).dtype == "float32"
    x = weft.asarray(1.5)
    np.testing.assert_array_equal(weft.asarray([x, 2 * x, [7][0]]).numpy(), [1.5, 3, 7])


@pytest.mark.parametrize(
    "values, dtype, words",
    [
        (np.array([[1.0, 2.0], [3.0, -1e39]]), None, ["-1e+39", "(1, 1)", "float32"]),
        (np.array([0, 2**31]), None, ["2147483648", "at 1", "int32"]),
        (np.array([0, 0, -(2**31) - 1]), None, ["-2147483649", "at 2"]),
        (np.array([2**32], np.uint64), None, ["4294967296", "at 0", "uint32"]),
        (np.array([-1, 0]), "uint32", ["-1", "at 0", "uint32"]),
        (np.array([1, 3_000_000_000], np.uint32), "int32", ["3000000000", "at 1"]),
        (np.array([1.0, 65520.0], np.float32), "float16", ["65520", "at 1", "float16"]),
        (np.array([1.0, np.nan]), "int32", ["nan", "at 1", "int32"]),
        (np.array(2.0**31), "int32", ["2147483648", "int32"]),
        (np.array([70000]), "float16", ["70000", "float16"]),
    ],
)
def test_values_that_do_not_fit(values, dtype, words):
    with pytest.raises(weft.OutOfRange) as e:
        weft.asarray(values, dtype=dtype)
    for w in words:
        assert w in str(e.value)
    assert "Fix: " in str(e.value)
    assert isinstance(e.value, ValueError)


def test_values_at_the_edge_fit():
    for values, dtype in [
        (np.array([2**31 - 1, -(2**31)]), "int32"),
        (np.array([2**32 - 1, 0]), "uint32"),
        (np.array([-0.5, 4294967295.9]), "uint32"),
        (np.array([3.4028234663852886e38, -np.inf, np.nan]), "float32"),
        (np.array([65504.0, np.inf, -np.inf]), "float16"),
    ]:
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(weft.asarray(values, dtype=dtype).numpy(), values.astype(dtype))


@pytest.mark.parametrize(
    "value, word",
    [
        (np.array([1 + 2j]), "complex128"),
        (np.array(["a", "b"]), "<U1"),
        (np.array([b"a"]), "S1"),
        (np.array([object()]), "object"),
        (np.array([1, None]), "object"),
        (np.array(["2020-01-01"], "datetime64[D]"), "datetime64"),
        (np.array([1], "timedelta64[s]"), "timedelta64"),
        (np.zeros(2, [("a", "f4")]), "[('a', '<f4')]"),
        ("text", "<U4"),
        (None, "object"),
        ({"a": 1}, "object"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), "masked"),
    ],
)
def test_refused(value, word):
    with pytest.raises(TypeError) as e:
        weft.asarray(value)
    assert isinstance(e.value, weft.Error)
    assert word in str(e.value) and "Fix: " in str(e.value)


def test_ragged_lists_are_refused():
    with pytest.raises(ValueError, match="Fix: make the rows equally long"):
        weft.asarray([[1, 2], [3]])


def test_operands_of_other_kinds():  # P02
    x = np.array([1, 2, 3])
    for dtype in ("float64", "int64", "int32", ">f4"):
        np.testing.assert_array_equal(weft.negative(x.astype(dtype)).numpy(), [-1, -2, -3])
    np.testing.assert_array_equal(weft.negative([1, 2, 3]).numpy(), [-1, -2, -3])
    assert float(weft.negative(1.0)) == -1
    for bad in (x.astype(complex), x.astype(object), x.astype("datetime64[D]"), None):
        with pytest.raises(TypeError):
            weft.negative(bad)
    with pytest.raises(ValueError, match="bool"):
        weft.negative(np.array([True, False]))


def test_asarray_of_an_array():
    x = weft.asarray([1.0, 2.0])
    assert weft.asarray(x) is x
    assert weft.asarray(x, copy=False) is x
    y = weft.asarray(x, copy=True)
    assert y is not x and y.tolist() == [1, 2]
    assert weft.asarray(x, dtype="int32").dtype == "int32"
    with pytest.raises(ValueError, match="copy=False"):
        weft.asarray(x, dtype="int32", copy=False)
    with pytest.raises(ValueError, match="copy=False"):
        weft.asarray(np.ones(3), copy=False)


@pytest.mark.parametrize("given", ["float32", "f4", "f32", ">f4", np.float32, np.dtype("float32"), float, weft.float32])
def test_names_of_dtypes(given):
    assert weft.zeros(2, given).dtype is weft.float32


@pytest.mark.parametrize("given", ["float64", "int64", complex, "nonsense", np.uint8])
def test_dtypes_that_are_not_there(given):
    with pytest.raises(TypeError, match="Fix: use bool, int32, uint32, float16 or float32"):
        weft.zeros(2, given)


def test_dunder_array():
    x = weft.asarray([[1.5, -2.0]])
    assert np.asarray(x).dtype == np.float32
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    assert np.array(x, copy=True).flags.owndata
    with pytest.raises(ValueError, match="copy=False"):
        np.array(x, copy=False)
    np.testing.assert_array_equal(np.asarray(x), [[1.5, -2.0]])
    np.testing.assert_allclose(np.sin(x), np.sin([[1.5, -2.0]]), rtol=1e-6)  # by __array__


@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack(dtype):
    a = base(dtype, (3, 4))
    x = weft.asarray(a)
    assert x.__dlpack_device__() == (1, 0)
    got = np.from_dlpack(x)
    assert got.dtype == a.dtype
    np.testing.assert_array_equal(got, a)
    np.testing.assert_array_equal(weft.from_dlpack(a[::-1, ::2]).numpy(), a[::-1, ::2])
    assert weft.from_dlpack(x) is x
    np.testing.assert_array_equal(np.from_dlpack(x.T), a.T)
    with pytest.raises(BufferError):
        x.__dlpack__(copy=False)
    with pytest.raises(BufferError):
        x.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError):
        weft.from_dlpack(a, copy=False)
    with pytest.raises(TypeError):
        weft.from_dlpack([1, 2])


def test_result_outlives_its_array():  # P03
    x = weft.asarray(np.arange(1000, dtype=np.float32)) * 2
    r = x.numpy()
    s = r[1:]
    del x
    gc.collect()
    others = [np.full(1 << 20, 9.0) for _ in range(13)]
    np.testing.assert_array_equal(s, np.arange(1, 1000) * 2)
    r[0] = 5
    assert r[0] == 5 and r.flags.owndata and others


def test_views_share_and_say_so():
    x = weft.asarray(np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    assert x.strides == (48, 16, 4) and x.T.strides == (4, 16, 48)
    assert x[:, ::-1].strides == (48, -16, 4)
    assert x.T.shape == (4, 3, 2) and x.mT.shape == (2, 4, 3)
    assert x.is_contiguous and not x.T.is_contiguous
    assert x.itemsize == 4 and x.nbytes == 96
    live = weft.stats()["live_bytes"]
    views = [x.T, x[1], x[:, None], x.reshape(6, 4), x.mT]
    assert weft.stats()["live_bytes"] == live and len(views) == 5
    with pytest.raises(ValueError, match="mT"):
        weft.asarray([1.0]).mT  # noqa: B018


def test_python_numbers_of_arrays():
    assert bool(weft.asarray([[True]])) and not bool(weft.asarray(0.0))
    assert int(weft.asarray([7.9])) == 7 and float(weft.asarray(2)) == 2.0
    assert complex(weft.asarray(2.0)) == 2 + 0j
    assert [10, 20, 30][weft.asarray(1)] == 20
    assert weft.asarray([[3]]).item() == 3 and weft.asarray([[1, 2]]).tolist() == [[1, 2]]
    for bad in (weft.asarray([1, 2]), weft.asarray([])):
        for function in (bool, int, float):
            with pytest.raises(ValueError, match="Fix: "):
                function(bad)
    with pytest.raises(TypeError):
        [1, 2][weft.asarray(1.0)]
    with pytest.raises(TypeError):
        hash(weft.asarray(1))


def test_len_iteration_and_containment():
    x = weft.asarray([[1, 2], [3, 4]])
    assert len(x) == 2 and [r.tolist() for r in x] == [[1, 2], [3, 4]]
    assert 3 in x and 5 not in x
    with pytest.raises(TypeError):
        len(weft.asarray(1))
    with pytest.raises(TypeError):
        iter(weft.asarray(1))


def test_repr():
    assert repr(weft.asarray([1.0, 2.5])) == "weft.Array([1. , 2.5], dtype=float32)"
    assert repr(weft.asarray(3)) == "weft.Array(3, dtype=int32)"
    assert repr(weft.zeros((0, 3))) == "weft.Array([], shape=(0, 3), dtype=float32)"
    assert str(weft.asarray([[True, False]])) == "[[ True False]]"
    a = np.arange(3000, dtype=np.int32)
    assert str(weft.asarray(a)) == str(a)
    b = a.reshape(2, 1500)
    before = weft.stats()["bytes_read"]
    text = repr(weft.asarray(b))
    assert weft.stats()["bytes_read"] - before < 100
    assert text == "weft.Array(" + np.array2string(b, separator=", ", prefix="weft.Array(") + ", dtype=int32)"


def test_items_can_not_be_set():
    x = weft.asarray([1, 2])
    with pytest.raises(TypeError, match="Fix: "):
        x[0] = 5
    y = x
    y += 1  # makes a new one
    assert x.tolist() == [1, 2] and y.tolist() == [2, 3]


def test_errors():
    with pytest.raises(weft.Error) as e:
        weft.sum(weft.zeros((2, 3)), axis=5)
    assert e.value.code == "out_of_range" and isinstance(e.value, IndexError)
    assert e.value.fix in str(e.value) and e.value.message in str(e.value)
    again = pickle.loads(pickle.dumps(e.value))
    assert type(again) is type(e.value) and str(again) == str(e.value)
    with pytest.raises(ValueError, match="broadcast"):
        weft.zeros((2, 3)) + weft.zeros((4, 5))
    with pytest.raises((weft.OutOfMemory, weft.OutOfRange), match="Fix: "):
        weft.zeros(2**50)
    with pytest.raises(ValueError, match="negative"):
        weft.zeros(-1)
    assert issubclass(weft.TimedOut, TimeoutError) and issubclass(weft.OutOfMemory, MemoryError)
    assert str(weft.TimedOut("late", "wait")) == "late. Fix: wait."


def test_devices():
    found = weft.devices()
    assert found and {"name", "type", "backend", "limits", "features"} <= found[0].keys()
    d = weft.default_device()
    assert d == weft.default_device() and hash(d) == hash(weft.zeros(1).device)
    assert d.name in repr(d) and not d.lost
    other = weft.Device.open(found[0]["index"])
    assert other != d and other.id != d.id
    x = weft.asarray([1.0, 2.0], device=other)
    assert x.device == other and weft.zeros_like(x).device == other
    with pytest.raises(weft.ForeignBuffer, match="device"):
        x + weft.asarray([1.0, 2.0])
    np.testing.assert_array_equal((x + x.to_device(d).to_device(other)).numpy(), [2, 4])
    np.testing.assert_array_equal((x + np.ones(2)).numpy(), [2, 3])  # to the array's own device
    np.testing.assert_array_equal((np.eye(2) @ x).numpy(), [1, 2])
    with pytest.raises(ValueError, match="nonsense"):
        weft.Device.open("nonsense")
    other.destroy()
    with pytest.raises(weft.DeviceLost):
        x.numpy()
    assert weft.memory()["live_bytes"] == weft.stats()["live_bytes"]
    weft.synchronize()
    d.trim()


def test_array_namespace():
    x = weft.asarray(1.0)
    assert x.__array_namespace__() is weft and x.__array_namespace__(api_version="2023.12") is weft
    with pytest.raises(ValueError, match="1999"):
        x.__array_namespace__(api_version="1999")


def test_large_array_comes_back(rng):
    a = rng.standard_normal((3000, 1001), dtype=np.float32)  # over 8 MiB: another way to read
    np.testing.assert_array_equal(weft.asarray(a).T.numpy(), a.T)
