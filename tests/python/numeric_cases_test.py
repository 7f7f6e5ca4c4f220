"""The numeric cases of ../conformance/cases.json, and those of kind python, through the package."""

import pathlib
import sys

import numpy as np
import pytest

import weft

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "conformance"))
from cases_test import BY_ID, CASES, compare, expressions, namespace, numeric  # noqa: E402

NUMERIC = [c for c in CASES if numeric(c)]
# Where Python says it otherwise than the expression language.
OURS = {
    "N20": ["nn.attention(q, k, v, mask)"],
    "N25": ["matmul(a, b, dtype='float32')", "a.astype('float32') @ b.astype('float32')"],
    "S20": ["nn.conv(x, w, stride=2, padding=[(0, 1), (0, 1)])"],
    "S21": ["nn.conv(x, w, dilation=2, groups=2)"],
    "S26": ["nn.attention(q, k, v, causal=True)"],
}


def names():
    out = {n: getattr(weft, n) for n in weft.__all__}
    out.update({n: getattr(weft.nn, n) for n in weft.nn.__all__})
    out.update(nn=weft.nn, layernorm=weft.nn.layer_norm, cast=weft.astype)
    return out


@pytest.mark.parametrize("case", NUMERIC, ids=[c["id"] for c in NUMERIC])
def test_case(case):
    if case["id"] == "S05":
        try:
            y = -weft.ones(536870913)
            np.testing.assert_array_equal(y[-2:].numpy(), [-1, -1])
        except weft.Error as e:
            assert "limit" in str(e)
        return
    ns = namespace(case)
    inputs = {n: ns[n] for n in case["inputs"] if isinstance(ns.get(n), np.ndarray)}
    with np.errstate(all="ignore"):
        want = np.asarray(eval(case["expected"]["formula"], ns))
    if case["id"] == "N18":  # ops.h: NaN in the whole of a row that holds NaN or inf
        want[2] = np.nan
    for expression in OURS.get(case["id"]) or expressions(case, list(inputs)):
        got = eval(expression, {**names(), **{n: weft.asarray(a) for n, a in inputs.items()}}).numpy()
        compare(got, want, case["tolerance"])
        for at, value in case["expected"].get("probes", {}).items():
            np.testing.assert_allclose(got[tuple(int(i) for i in at.split(","))], value, atol=1e-3)


def test_views_go_in_as_they_are():  # S15
    x = np.arange(1, 13, dtype=np.float32).reshape(3, 4).T
    got = weft.nn.softmax(x, axis=1).numpy()
    np.testing.assert_allclose(got[0], [0.00032932, 0.017980287, 0.981690393], atol=1e-6)


def test_views_of_any_offset():  # M11
    a = np.arange(1000, dtype=np.float32)
    x = weft.asarray(a)
    for o in (0, 1, 3, 63, 64, 65, 129, 900):
        np.testing.assert_array_equal((-x[o : o + 100]).numpy(), -a[o : o + 100])


def test_operands_that_are_one_array():  # M17
    a = np.arange(16, dtype=np.float32)
    x = weft.asarray(a)
    np.testing.assert_array_equal((x * x).numpy(), a * a)
    np.testing.assert_array_equal((x[0:8] + x[4:12]).numpy(), a[0:8] + a[4:12])
    m = x.reshape(4, 4)
    np.testing.assert_array_equal((m @ m).numpy(), a.reshape(4, 4) @ a.reshape(4, 4))


def test_every_case_of_by_id_is_there():
    assert set(BY_ID) | set(OURS) <= {c["id"] for c in CASES}
