"""x[key] against numpy's."""

import numpy as np
import pytest

import weft

A = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
I = np.array([2, 0, -1])
J = np.array([[1, -2, 0]])

KEYS = [
    0,
    -1,
    slice(None),
    (0, 1, 2, 3),
    (slice(1, None), slice(None, None, -1)),
    (Ellipsis, 2),
    (0, Ellipsis),
    (Ellipsis,),
    (),
    None,
    (None, 0, None, Ellipsis, None),
    (slice(None), slice(5, 0, -2), slice(-3, 100)),
    (slice(None), slice(2, None, -1), slice(-1, -100, -2)),
    (slice(2, 1), 0),
    (slice(-100, -50),),
    np.int64(1),
    (np.int32(-1), slice(None)),
    [1, 0],
    [],
    (slice(None), I),
    (slice(None), [2, 0]),
    (0, I),
    (Ellipsis, I),
    (slice(None), slice(1, 3), I, None),
    (slice(None), I, J),
    (slice(None), J, slice(None), J),
    (0, slice(None), I),  # numpy: the arrays' axes come first
    (I * 0, slice(None), None, I),
    (1, I, J, 0),
    (slice(None), np.zeros((0,), int)),
    (slice(None), np.array(2)),
    A > 60,
    A[0, 0, 0] > 2,
    (slice(None), np.array([True, False, True])),
    (Ellipsis, np.array([True, False, True, True, False])),
    (slice(None), A[0, :, :, 0] > 20, slice(1, 3)),
    (0, np.array([True, False, True]), slice(None), I[:2]),
    np.zeros(A.shape, bool),
]


def good(key):
    try:
        A[key]
    except IndexError:
        return False
    return True


@pytest.mark.parametrize("key", [k for k in KEYS if good(k)], ids=str)
@pytest.mark.parametrize("source", ["numpy", "weft"])
def test_key(key, source):
    x = weft.asarray(A)

    def ours(item):
        return weft.asarray(item) if source == "weft" and isinstance(item, np.ndarray) else item

    mine = tuple(ours(k) for k in key) if isinstance(key, tuple) else ours(key)
    want = A[key]
    got = x[mine]
    assert got.shape == want.shape
    np.testing.assert_array_equal(got.numpy(), want)


def test_most_keys_are_good():
    assert sum(good(k) for k in KEYS) >= len(KEYS) - 1


@pytest.mark.parametrize("key", [k for k in KEYS if isinstance(k, (int, slice, tuple)) and good(k)], ids=str)
def test_key_of_a_strided_view(key):
    a = A.transpose(0, 2, 1, 3)[:, :3, ::-1]
    try:
        want = a[key]
    except IndexError:
        return
    np.testing.assert_array_equal(weft.asarray(A).__getitem__(()).transpose(0, 2, 1, 3)[:, :3, ::-1][key].numpy(), want)


@pytest.mark.parametrize(
    "key, words",
    [
        (2, ["2", "axis 0", "length 2"]),
        (-3, ["-3"]),
        ((0, 0, 0, 0, 0), ["5", "4 axes"]),
        ((Ellipsis, Ellipsis), ["ellips"]),
        ([0, 2], ["2"]),
        (([0], [3]), ["3", "axis 1"]),
        (np.ones((2, 2), bool), ["(2, 2)"]),
    ],
)
def test_out_of_range(key, words):
    with pytest.raises(IndexError) as e:
        weft.asarray(A)[key]
    assert "Fix: " in str(e.value)
    for w in words:
        assert w in str(e.value)


@pytest.mark.parametrize("key", ["a", 1.5, (0, 2.0), np.array([0.5]), object()])
def test_what_is_no_index(key):
    with pytest.raises(TypeError, match="Fix: "):
        weft.asarray(A)[key]


@pytest.mark.parametrize("key", [True, (0, False), ([0, 1], [0, 1, 2])])
def test_bad_values_of_an_index(key):
    with pytest.raises(ValueError, match="Fix: "):
        weft.asarray(A)[key]


def test_zero_step():
    with pytest.raises(ValueError, match="zero"):
        weft.asarray(A)[::0]
