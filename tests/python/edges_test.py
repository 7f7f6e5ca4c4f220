"""Numbers, dtypes and arguments at their edges, against numpy."""

import copy
import math
import pickle

import numpy as np
import pytest

import weft

pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in")

I32 = np.array([-(2**31), -7, -1, 0, 1, 2**31 - 1], np.int32)
U32 = np.array([0, 1, 7, 2**31 - 1, 2**31, 2**32 - 1], np.uint32)
F16 = np.array([-65504, -500, -2, -0.0, 0.25, 1, 500, 65504], np.float16)
X = np.arange(6, dtype=np.float32).reshape(2, 3)
COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]


def same(got, want):
    want = np.asarray(want)
    assert got.shape == want.shape
    np.testing.assert_array_equal(got.numpy(), want)


# -- numbers beside arrays


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("name", ["divide", "atan2"])
def test_division_by_numbers_that_do_not_fit(name, lazy):
    """It computes in floats, whatever the integers of the array hold (numpy/numpy#25639, IntelPython/dpctl#1771)."""
    ours, numpy = getattr(weft, name), getattr(np, name)
    with weft.lazy(lazy):
        for a in (I32, U32, np.array([True, False])):
            for n in (2**31, -(2**31) - 1, 2**32, -1, 2**40, -(2**40), 2**63, 2**70, -(2**70)):
                for got, want in ((ours(weft.asarray(a), n), numpy(a, float(n))), (ours(n, weft.asarray(a)), numpy(float(n), a))):
                    assert got.dtype == weft.float32
                    np.testing.assert_allclose(got.numpy(), want.astype(np.float32), rtol=1e-5)
        for op in (weft.add, weft.floor_divide, weft.maximum):
            with pytest.raises((ValueError, IndexError, OverflowError)):
                op(weft.asarray(U32), -1).numpy()


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_with_numbers_that_do_not_fit(name, lazy):
    ours, numpy = getattr(weft, name), getattr(np, name)
    with weft.lazy(lazy):
        for a in (I32, U32, np.array([True, False])):
            for n in (2**31, -(2**31) - 1, 2**32, -1, 2**40, -(2**40), 2**63, 2**70, -(2**70)):
                whole = a.astype(object)  # Python's comparisons: numpy's own of a bool with 2^70 overflow
                same(ours(weft.asarray(a), n), numpy(whole, n).astype(bool))
                same(ours(n, weft.asarray(a)), numpy(n, whole).astype(bool))
        for n in (math.nan, math.inf):
            same(ours(weft.asarray(X), n), numpy(X, n))
            same(ours(n, weft.asarray(X)), numpy(n, X))


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_of_signed_with_unsigned(name, lazy):
    ours, numpy = getattr(weft, name), getattr(np, name)
    with weft.lazy(lazy):
        x, y = weft.asarray(I32), weft.asarray(U32)
        same(ours(x[:, None], y), numpy(I32[:, None], U32))
        same(ours(y, x[:, None]), numpy(U32, I32[:, None]))


def test_quotients_of_signed_with_unsigned():
    x, y = weft.asarray(I32)[:, None], weft.asarray(U32)
    np.testing.assert_allclose((x / y).numpy(), I32[:, None] / U32, rtol=1e-6)
    np.testing.assert_allclose(weft.atan2(y, x).numpy(), np.arctan2(U32, I32[:, None]), rtol=1e-6)


def test_numbers_of_more_than_64_bits():
    x = weft.asarray(X)
    for n in (2**63, 2**70, -(2**100)):
        np.testing.assert_allclose((x * n).numpy(), X * np.float32(n))
        np.testing.assert_allclose((n - x).numpy(), np.float32(n) - X)
        same(weft.clip(x, -1, abs(n)), X)
    np.testing.assert_array_equal((np.uint64(2**63) + x).numpy(), np.full(X.shape, 2.0**63, np.float32))
    for bad in (lambda: weft.asarray(I32) + 2**70, lambda: weft.asarray([1, 2**70]), lambda: weft.full(2, 2**70)):
        with pytest.raises(weft.OutOfRange, match="64 bits"):
            bad()
    with pytest.raises(OverflowError):
        x * 10**400


def test_clip_where_limits_cross():
    for lazy in (False, True):
        with weft.lazy(lazy):
            for a in (X, np.array([1, -2, 3], np.int32)):
                same(weft.clip(weft.asarray(a), 2, 1), np.clip(a, 2, 1))
                same(weft.clip(weft.asarray(a), weft.asarray(2), weft.asarray(1)), np.clip(a, 2, 1))


# -- functions made of others: in every dtype


@pytest.mark.parametrize("name", ["sinh", "cosh", "asin", "acos", "atan", "asinh", "acosh", "atanh", "log10"])
def test_float_functions_of_other_dtypes(name):
    numpy = getattr(np, {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
                         "atanh": "arctanh"}.get(name, name))  # fmt: skip
    got = getattr(weft, name)(F16)
    assert got.dtype == "float16"
    np.testing.assert_allclose(got.numpy(), numpy(F16.astype(np.float64)).astype(np.float16), rtol=2e-3, atol=1e-6)
    for a in (I32, U32, np.array([True, False])):
        got = getattr(weft, name)(a)
        assert got.dtype == "float32"
        np.testing.assert_allclose(
            got.numpy(), numpy(a.astype(np.float64)).astype(np.float32), rtol=1e-5, atol=1e-6, equal_nan=True
        )
    big = np.array([-1e10, -3e38, 0.5, 1, 1e10], np.float32)
    np.testing.assert_allclose(
        getattr(weft, name)(big).numpy(), numpy(big.astype(np.float64)).astype(np.float32), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("name", ["hypot", "logaddexp", "copysign"])
def test_float_functions_of_two(name):
    numpy = getattr(np, name)
    for a, b in ((I32, I32[::-1]), (U32, U32), (I32, U32), (np.array([True, False]), np.array([True, True]))):
        got = getattr(weft, name)(a, b)
        assert got.dtype == "float32"
        np.testing.assert_allclose(got.numpy(), numpy(a.astype(np.float64), b.astype(np.float64)), rtol=1e-5)
    x = weft.asarray(F16)
    assert getattr(weft, name)(x, 2.5).dtype == "float16" and getattr(weft, name)(-1, x).dtype == "float16"
    assert getattr(weft, name)(x, weft.ones(())).dtype == "float32"
    assert getattr(weft, name)(x, weft.asarray(3)).dtype == "float32"


def test_signs_of_integers():
    same(weft.signbit(I32), I32 < 0)
    same(weft.signbit(U32), U32 < 0)
    same(weft.logical_or(weft.asarray([0.0, 1.0]), 2**40), [True, True])


def test_dtypes_of_sums():
    x = weft.asarray(np.array([1, -2, 3], np.int32))
    for name, dtype in (("mean", "int32"), ("sum", "float16"), ("prod", "float32"), ("mean", "float16")):
        got = getattr(weft, name)(x, dtype=dtype)
        assert got.dtype == dtype
        np.testing.assert_allclose(got.numpy(), getattr(np, name)(x.numpy(), dtype=dtype), rtol=1e-3)
    assert weft.sum(np.array([True, True]), dtype="bool").tolist() is True
    assert weft.cumulative_sum(np.array([True, True]), dtype="bool").dtype == "bool"
    with pytest.raises(TypeError):
        weft.max(x, dtype="float32")


def test_correction_is_any_number():
    a = np.array([1.0, 2, 4], np.float32)
    for ddof in (0.5, 1.0, 2.5, 3, 4.5):
        np.testing.assert_allclose(weft.var(a, correction=ddof).numpy(), np.var(a, ddof=ddof), rtol=1e-6)


# -- arguments


def test_numpys_integers_as_axes_and_counts():
    x, one, zero = weft.asarray(X), np.int64(1), np.array(0)
    same(weft.flip(x, one), np.flip(X, 1))
    same(weft.roll(x, one, zero), np.roll(X, 1, 0))
    same(weft.roll(x, (1, 2), 1), np.roll(X, (1, 2), 1))
    same(weft.squeeze(x[None], zero), X)
    same(weft.moveaxis(x, zero, one), np.moveaxis(X, 0, 1))
    same(weft.tile(x, np.int64(2)), np.tile(X, 2))
    same(weft.tensordot(x, x.T, axes=one), np.tensordot(X, X.T, axes=1))
    same(weft.tensordot(x, x.T, axes=(1, 0)), np.tensordot(X, X.T, axes=(1, 0)))
    same(weft.sum(x, axis=zero), X.sum(0))
    assert [p.tolist() for p in weft.split(x, np.int64(2))] == [p.tolist() for p in np.split(X, 2)]
    assert weft.zeros(weft.asarray(2)).shape == weft.zeros(np.array(2)).shape == (2,)
    for bad in (lambda: weft.flip(x, 1.5), lambda: weft.roll(x, 1.5), lambda: weft.tile(x, "a"), lambda: weft.split(x, 1.5)):
        with pytest.raises(ValueError, match="Fix: "):
            bad()


def test_shaping_as_numpy():
    x = weft.asarray(X)
    for axes in ((0, -1), (0, 1), (-1, -2), ()):
        same(weft.expand_dims(x, axes), np.expand_dims(X, axes))
    same(weft.repeat(x, [2, 0], axis=0), np.repeat(X, [2, 0], axis=0))
    same(weft.repeat(x, weft.asarray([1, 0, 3]), axis=-1), np.repeat(X, [1, 0, 3], axis=-1))
    same(weft.diff(np.array([True, False, False])), [True, False])
    same(weft.diff(x, prepend=0, append=X[:, :1]), np.diff(X, prepend=0, append=X[:, :1]))
    same(weft.linspace(-2, 2, 8, dtype="int32"), np.linspace(-2, 2, 8, dtype=np.int32))
    same(weft.eye(2, k=2**40), np.eye(2, k=2**40))
    ones = weft.ones((1,) * 8)
    assert ones.copy().shape == ones.shape and weft.astype(ones, "float32").shape == ones.shape


@pytest.mark.parametrize(
    "call",
    [
        lambda x: weft.pad(x, 1.5),
        lambda x: weft.pad(x, (1, 2, 3)),
        lambda x: weft.repeat(x, [1, -1], axis=0),
        lambda x: weft.repeat(x, [1, 2, 3], axis=0),
        lambda x: weft.repeat(x, 1.5),
        lambda x: weft.diff(x, n=-1),
        lambda x: weft.eye(-1),
        lambda x: weft.linspace(0, 1, -1),
        lambda x: weft.concat([x, x], axis=(0, 1)),
        lambda x: weft.concat([x, x], axis=()),
        lambda x: weft.expand_dims(x, (0, 0)),
        lambda x: weft.broadcast_shapes((2,), (3,)),
        lambda x: weft.nn.conv(weft.ones((1, 1, 5)), weft.ones((1, 1, 3)), padding="same"),
        lambda x: x.sum(out=X),
    ],
)
def test_refused_with_a_fix(call):
    with pytest.raises(weft.InvalidArgument, match="Fix: "):
        call(weft.asarray(X))


EINSUMS = [
    "ij,jk->ik", "ij,jk", "ii", "ii->i", "ij->ji", "ij->", "i,i", "i,j->ij", "bij,bjk->bik", "...ij,...jk->...ik",
    "...ij->...ji", "ij,ij->ij", "ij,j->i", "ijk,jil->kl", "bhqd,bhkd->bhqk", "ij,jk,kl,lm", "i->...", "ijj->i",
    "iijj->ij", "ij,i->", "ab,bc,ca->", "...a,ab->...b", "ij , jk -> ki", "->",
]  # fmt: skip


@pytest.mark.parametrize("text", EINSUMS)
def test_einsum(text):
    rng = np.random.default_rng(0)
    terms = text.replace(" ", "").split("->")[0].split(",")
    for dtype in ("float32", "int32", "bool", "float16"):
        for one in (3, 1, 0):
            lengths = {c: 2 + k % 4 for k, c in enumerate("abcdhijklmqd")} | {"j": one}
            arrays = [
                rng.integers(-3, 4, [2 if c == "." else lengths[c] for c in t.replace("...", ".")]).astype(dtype)
                for t in terms
            ]
            try:
                want = np.einsum(text, *arrays)
            except ValueError:  # text puts a result's ... where no array has one
                continue
            got = weft.einsum(text, *arrays)
            assert got.dtype == dtype and got.shape == want.shape
            np.testing.assert_allclose(got.numpy(), want, rtol=2e-3)
    stretched = (np.arange(3.0, dtype=np.float32)[:, None], np.arange(6.0, dtype=np.float32).reshape(3, 2))
    same(weft.einsum("ij,ij->ij", *stretched), np.einsum("ij,ij->ij", *stretched))


def test_einsum_adds_in_the_common_dtype():
    h = np.array([300, 300], np.float16)
    # Products past 65504 on the way (numpy's own float16 sums are of float32).
    same(weft.einsum("i,i,i->", h, h, np.array([0.5, -0.5], np.float16)), np.float16(0))
    same(weft.einsum("ij,j->j", np.full((100, 2), 1000, np.float16), np.float16([0.5, 0.25])), np.float16([50000, 25000]))
    same(weft.einsum("ij,jk,kl->il", np.full((2, 8), 100, np.float16), np.full((8, 2), 100, np.float16),
                     np.float16([[0.5], [-0.5]])), np.zeros((2, 1), np.float16))  # fmt: skip
    # A sum of bools counts beside numbers, and one of integers does not wrap beside floats.
    same(weft.einsum("i,j->", np.array([True, True]), np.array([3, 4], np.int32)), np.int32(14))
    big = np.full(4, 2**30, np.int32)
    same(weft.einsum("i,j->j", big, np.float32([1, 2])), np.float32([2**32, 2**33]))


def test_products_of_float16_pass_its_range_before_their_sum_does():
    a, b = np.float16([300, 300]), np.float16([300, -300])
    same(weft.vecdot(a, b), np.vecdot(a, b))
    same(weft.vecdot(np.tile(a, (3, 1)), b), np.zeros(3, np.float16))
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal((5, 1000)).astype(np.float16) for _ in range(2))
    want = (x.astype(np.float64) * y).sum(-1)
    np.testing.assert_allclose(weft.vecdot(x, y).numpy(), want, rtol=2e-3, atol=1e-4)
    u = np.float16([300, 300, 1])
    same(weft.linalg.cross(u, u), np.zeros(3, np.float16))
    assert weft.vecdot(np.array([True, True]), np.array([True, False])).numpy().dtype == bool


def test_hypot_of_denormals():
    tiny = np.float32(1e-40)
    got = weft.hypot(np.float32([0, tiny, tiny]), np.float32([tiny, 0, 1])).numpy()
    assert np.all(got[:2] <= tiny) and got[2] == 1  # a device may take a denormal for 0


def test_numbers_become_float16_in_one_rounding():
    past_a_half = 1 + 2**-11 + 2**-30  # a float32 drops the last bit, and the half falls back
    one = np.ones(1, np.float16)
    same(weft.asarray(one) * past_a_half, np.float16([past_a_half]))
    same(weft.full((1,), past_a_half, dtype=np.float16), np.float16([past_a_half]))
    with weft.lazy():
        same(weft.asarray(one) * past_a_half, np.float16([past_a_half]))


@pytest.mark.parametrize("text", ["ij,jk", "i", "ij->ii", "ij->k", "i1", "...", 5, "...i->i"])
def test_einsum_refuses(text):
    with pytest.raises(ValueError, match="Fix: "):
        weft.einsum(text, X) if text != "..." else weft.einsum("...->", X, X)


def test_gemm_of_several_dtypes():
    i, u, h = np.array([[1, -2]], np.int32), np.array([[3], [4]], np.uint32), np.array([[2], [3]], np.float16)
    same(weft.linalg.gemm(i, weft.ones((2, 2))), [[-1, -1]])
    same(weft.linalg.gemm(i, u), [[-5]])
    assert weft.linalg.gemm(i, h).dtype == "float32"
    assert weft.linalg.gemm(h.T, h, weft.ones((1, 1))).dtype == "float32"
    same(weft.linalg.gemm(i, i.T, [[3]], beta=2), [[11]])
    same(weft.linalg.gemm(i, i.T, [[1.5]]), [[6.5]])


# -- indices


def test_index_arrays_of_every_integer():
    a = np.arange(300, dtype=np.int32)
    x = weft.asarray(a)
    for i in (np.array([100, -1], np.int8), np.array([200], np.uint8), np.array([299, 0], np.uint64)):
        same(x[i], a[i])
    b = np.arange(12).reshape(3, 4)
    y = weft.asarray(b)
    same(y[np.array([2, 0], np.uint64), 1], b[np.array([2, 0], np.uint64), 1])
    with pytest.raises(IndexError, match="Fix: "):
        x[np.array([2**63], np.uint64)]
    with pytest.raises(TypeError, match="Fix: "):
        x[weft.asarray(1.0)]


def test_take_from_arrays_without_elements():
    for shape in ((3, 0, 2), (0, 3), (2, 0)):
        x = weft.zeros(shape)
        assert weft.take(x, np.zeros(0, int)).shape == weft.take(x.T, np.zeros(0, int)).shape == (0,)
        with pytest.raises(IndexError, match="Fix: "):
            weft.take(x, [0])


def test_masks_beside_other_indices():
    a = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    x = weft.asarray(a)
    mask = np.array([False, True, True, False])
    i = np.array([[0, 1], [1, 0]])
    for key in (
        (i, 1, np.array([False, False, True, False])),
        (i, slice(None), np.array([False, False, True, False])),
        (np.array(1), slice(None), mask),
        (slice(None), [1], Ellipsis, []),  # an Ellipsis for no axes parts them too
        (slice(None), Ellipsis, [0, 2], mask),
        (0, Ellipsis, [0, 2], mask),
        (Ellipsis, a[0] > 5),
        np.array(True),
        np.array(False),
        (slice(None), np.array(True), [0]),
    ):
        same(x[key], a[key])


# -- Python's protocols


def test_copies_and_pickles():
    for a in (X, X[:, ::-1], F16, I32, np.array([True, False]), X[:0], np.float32(2.5)):
        x = weft.asarray(a)
        for y in (copy.copy(x), copy.deepcopy([x])[0], pickle.loads(pickle.dumps(x))):
            assert y is not x and y.dtype == x.dtype
            same(y, a)
    g = weft.random.Generator(7)
    g.uniform(10)
    again = pickle.loads(pickle.dumps(g))
    assert again.uniform(5).tolist() == copy.deepcopy(g).uniform(5).tolist() == g.uniform(5).tolist()


def test_numbers_of_python():
    x = weft.asarray(X)
    assert f"{weft.asarray(2.5):.3f} {weft.asarray(3):04d}" == "2.500 0003"
    with pytest.raises(TypeError, match="Fix: "):
        f"{x:.2f}"
    for got, want in zip(divmod(x, 2), divmod(X, 2)):
        same(got, want)
    for got, want in zip(divmod(7, weft.asarray(I32)), divmod(np.int32(7), I32)):
        same(got, want)
    assert round(weft.asarray(2.567), 1) == pytest.approx(2.6) and round(weft.asarray(2.5)) == 2
    same(round(x * 0.7), np.round(X * np.float32(0.7)))
    assert math.trunc(weft.asarray(-2.7)) == -2
    assert "a" not in x and None not in x and 3 in x


def test_numpys_functions_of_arrays():
    x = weft.asarray(X)
    for name in ("sum", "mean", "prod", "max", "min", "any", "all", "argmax", "argmin", "std", "var", "transpose"):
        np.testing.assert_allclose(np.asarray(getattr(np, name)(x)), getattr(np, name)(X), rtol=1e-6)
    np.testing.assert_allclose(np.asarray(np.var(x, axis=0, ddof=1)), np.var(X, axis=0, ddof=1))


def test_masked_arrays_in_lists_and_byte_orders_by_dlpack():
    with pytest.raises(TypeError, match="masked"):
        weft.asarray([np.ma.array([1, 2], mask=[0, 1])])
    same(weft.from_dlpack(np.arange(3, dtype=">f4")), np.arange(3, dtype=np.float32))


def test_parts_of_a_waiting_program_may_be_read_before_it():
    names = ["exp", "tanh", "square", "sqrt", "abs", "negative", "sin", "cos", "floor", "sign", "expm1", "log1p"]
    with weft.lazy():
        a = weft.asarray(X)
        parts = [getattr(weft, name)(a) for name in names]
        total = parts[0]
        for p in parts[1:]:
            total = total + p  # all of one tensor: one kernel
        for p in parts:
            p.numpy()  # each is a tensor of its own now: more than one kernel reads
        np.testing.assert_allclose(total.numpy(), sum(getattr(np, name)(X) for name in names), rtol=1e-5)


@pytest.mark.parametrize(
    "call",
    [
        lambda: weft.zeros(10**30),
        lambda: weft.zeros((2, -(10**30))),
        lambda: weft.reshape(weft.zeros(4), (10**30,)),
        lambda: weft.zeros(4)[10**30],
        lambda: weft.zeros(4)[-(10**30)],
        lambda: weft.sum(weft.zeros(4), axis=10**30),
        lambda: weft.full(4, 10**5000),  # Python makes no text of it
        lambda: weft.zeros(10**5000),
    ],
)
def test_integers_past_64_bits_are_out_of_range(call):
    with pytest.raises(weft.OutOfRange, match="does not fit 64 bits. Fix: "):
        call()


def test_a_slice_without_a_step():
    with pytest.raises(weft.InvalidArgument, match="slice step cannot be zero. Fix: "):
        weft.zeros(4)[::0]


def test_stack_names_the_shapes_it_was_given():
    with pytest.raises(weft.InvalidArgument, match=r"stack: array 0 has shape \(2, 3\), and array 1 \(4,\). Fix: "):
        weft.stack([weft.zeros((2, 3)), weft.zeros(4)])
    with pytest.raises(weft.InvalidArgument, match="stack: no arrays given. Fix: "):
        weft.stack([])


@pytest.mark.parametrize("call", [weft.memory, weft.stats, weft.synchronize, lambda d: weft.zeros(3, device=d)])
def test_what_is_no_device(call):
    for given in (3, "cpu", 0, "", weft.Device):
        with pytest.raises(weft.InvalidArgument, match="neither a weft.Device nor None. Fix: "):
            call(given)


def test_profiles_take_devices_only():
    with pytest.raises(weft.InvalidArgument, match="weft.profile of int. Fix: "):
        weft.profile(3)


@pytest.mark.parametrize("cache", [0, -1, "a", 1.5, None])
def test_graphs_of_jit_are_counted_in_whole_numbers(cache):
    with pytest.raises(weft.InvalidArgument, match="cache is .* Fix: "):
        weft.jit(lambda a: a, cache=cache)


@pytest.mark.parametrize("seed", [-1, 2**64, "a", 1.5, None])
def test_seeds(seed):
    with pytest.raises(weft.InvalidArgument, match="the seed is .* Fix: "):
        weft.random.Generator(seed)


def test_generators_show_where_they_are():
    g = weft.random.Generator(np.int64(7))
    g.bits(8)
    assert repr(g) == "weft.random.Generator(seed=7, offset=2)"


def test_copies_that_the_host_has_no_room_for():
    wide = weft.broadcast_to(weft.ones(()), (1 << 15, 1 << 15, 1 << 15, 1 << 15))
    with pytest.raises(weft.OutOfMemory, match="4611686018427387904 bytes .* Fix: "):
        wide.numpy()
    with pytest.raises(weft.OutOfMemory, match="4611686018427387904 bytes.* Fix: "):
        weft.asarray(np.broadcast_to(np.float32(1), (1 << 15, 1 << 15, 1 << 15, 1 << 15)))
    assert "1., 1." in repr(wide)  # of which the ends alone are read


def test_kernels_are_called_with_dicts_and_counts():
    kernel = weft.Kernel(
        """struct Params { a: f32 }
           @group(0) @binding(0) var<storage, read_write> y: array<f32>;
           @compute @workgroup_size(1) fn main(@builtin(global_invocation_id) id: vec3u) { y[id.x] = params.a; }"""
    )
    good = dict(out=dict(y=3), params=dict(a=2.0))
    same(kernel(**good, elements=np.int64(2)), np.array([2, 2, 0], np.float32))
    for bad in (dict(elements=-1), dict(elements=1.5), dict(elements="a"), dict(elements=2**64), dict(out=3), dict(params=3)):
        with pytest.raises(weft.InvalidArgument, match="weft.Kernel: .* Fix: "):
            kernel(**{**good, **bad})
    with pytest.raises(weft.InvalidArgument, match="the first argument is list. Fix: "):
        kernel([1.0], params=dict(a=2.0))


def test_objects_that_hold_compiled_things_are_copied():
    """A model's copy shares its kernels, graphs and device, as it does its functions."""
    kernel = weft.Kernel("@compute @workgroup_size(1) fn main() {}")
    step = weft.jit(lambda a: a + 1)
    model = {"kernel": kernel, "step": step, "device": weft.default_device(), "w": weft.asarray([1.0, 2.0])}
    for again in (copy.copy(model), copy.deepcopy(model)):
        assert again["kernel"] is kernel and again["step"] is step and again["device"] is model["device"]
        same(again["w"], np.array([1, 2], np.float32))
    for what in (kernel, step):
        with pytest.raises(TypeError, match="weft: .* Fix: "):
            pickle.dumps(what)


def test_repr_copies_the_ends_alone():
    wide = weft.broadcast_to(weft.asarray(np.arange(8, dtype=np.float32)[:, None]), (8, 10**8))
    before = weft.stats()["live_bytes"]
    text = repr(wide)
    assert text.startswith("weft.Array([[0., 0., 0., ..., 0., 0., 0.],") and "[7., 7., 7., ..., 7., 7., 7.]], dtype" in text
    assert weft.stats()["peak_bytes"] < 2**31 and weft.stats()["live_bytes"] - before < 10**5
    b = np.arange(9 * 8 * 20 * 10).reshape(9, 8, 20, 10).astype(np.int32)
    assert str(weft.asarray(b)) == str(b)
