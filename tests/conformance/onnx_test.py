"""ONNX's node tests through the Python package: each test is a graph of a node, or of the few that it expands to, with
inputs and the right outputs, compared with the test's own tolerance.

    pytest onnx_test.py              every test passes, or skips for the reason that onnx_skips.txt gives
    python onnx_test.py --update     writes onnx_skips.txt and onnx_report.md anew
"""

import collections
import pathlib
import sys
import warnings

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

import onnx_control  # noqa: F401
import onnx_moving  # noqa: F401
import onnx_ops
import onnx_recurrent  # noqa: F401
import onnx_resampling  # noqa: F401
from onnx_ops import CONVERTED, NATIVE, Skip, held

HERE = pathlib.Path(__file__).parent
SKIPS = HERE / "onnx_skips.txt"
REPORT = HERE / "onnx_report.md"

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    TESTS = {t.name: t for t in load_model_tests(kind="node")}


# Tests whose expected values are rounded in a way that the tolerance does not cover.
ROUNDED = {
    "test_attention_4d_causal_fp16_expanded": "rounding: float16 at each step, theirs 9e-4 off the exact result, ours "
    "7e-4, the tolerance 1e-3",
    **dict.fromkeys(
        ("test_dft_inverse", "test_dft_inverse_opset19"),
        "rounding: exact zeros within 1e-7 beside float32 values of 50",
    ),
}


def tensors(values):
    """As numpy arrays."""
    out = []
    for v in values:
        if v is None or isinstance(v, (np.ndarray, np.generic)):
            out.append(None if v is None else np.asarray(v))
        elif isinstance(v, TensorProto):
            array = numpy_helper.to_array(v)
            # ml_dtypes' types but for bfloat16 are such as float8_e5m2, int4 and uint2.
            if array.dtype.name != "bfloat16" and array.dtype.type.__module__ != "numpy":
                raise Skip("dtype: there are no arrays of 4-bit or 8-bit floats and of 2-bit or 4-bit integers")
            out.append(array)
        else:
            raise Skip("dtype: there are no sequences and optional values")
    return out


def compare(got, want, rtol, atol, run):
    got = np.asarray(got)
    assert got.shape == want.shape, f"shape {got.shape}, not {want.shape}"
    assert got.dtype in (held(want.dtype), want.dtype), f"dtype {got.dtype}, not {want.dtype}"
    if want.dtype not in NATIVE:
        run.converted = True
    if want.dtype in CONVERTED and want.dtype.kind in "iu" and want.dtype.itemsize < 4:
        got = got.astype(want.dtype)  # its low bits, as the narrow type has them
    if want.dtype == ml_dtypes.bfloat16:
        got, want = got.astype(ml_dtypes.bfloat16).astype(np.float32), want.astype(np.float32)
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


def run_test(test):
    """True when something was converted on the way. Raises Skip, or an error."""
    if test.name in ROUNDED:
        raise Skip(ROUNDED[test.name])
    run = onnx_ops.Run()
    for inputs, outputs in test.data_sets:
        inputs, outputs = tensors(inputs), tensors(outputs)
        for got, want in zip(onnx_ops.run_model(test.model, inputs, run), outputs, strict=True):
            held(want.dtype)
            compare(got, want, test.rtol, test.atol, run)
    return run.converted


def listed():
    lines = SKIPS.read_text().splitlines() if SKIPS.exists() else []
    return dict(line.split("\t") for line in lines if line and not line.startswith("#"))


LISTED = listed()


@pytest.mark.parametrize("name", TESTS)
def test_node(name):
    try:
        run_test(TESTS[name])
    except Skip as why:
        assert LISTED.get(name) == str(why), f"skips for '{why}', which onnx_skips.txt does not say"
        pytest.skip(str(why))
    assert name not in LISTED, f"passes, and onnx_skips.txt lists it as '{LISTED[name]}'. Fix: take it out."


def test_no_stale_entries():
    assert set(LISTED) <= set(TESTS)


def test_enough_pass():
    assert len(TESTS) - len(LISTED) >= 500


def op_of(test):
    nodes = test.model.graph.node
    return nodes[0].op_type if len(nodes) == 1 else test.name.removeprefix("test_").split("_")[0] + " (expanded)"


def update():
    counts = collections.defaultdict(collections.Counter)
    reasons = collections.defaultdict(set)
    skips, failures = {}, {}
    for name, test in TESTS.items():
        row = counts[op_of(test)]
        try:
            row["converted" if run_test(test) else "passed"] += 1
        except Skip as why:
            row["skipped"] += 1
            reasons[op_of(test)].add(str(why))
            skips[name] = str(why)
        except Exception as e:  # noqa: BLE001
            row["failed"] += 1
            failures[name] = f"{type(e).__name__}: {' '.join(str(e).split())[:300]}"
    SKIPS.write_text(
        "# ONNX node tests that can't run, with the reason, by a tab. Written by onnx_test.py --update.\n"
        + "".join(f"{name}\t{why}\n" for name, why in sorted(skips.items()))
    )
    total = collections.Counter()
    for row in counts.values():
        total.update(row)
    passed = total["passed"] + total["converted"]
    lines = [
        "# ONNX node tests",
        "",
        "Written by `tests/conformance/onnx_test.py --update`; `onnx_skips.txt` has each skipped test.",
        "",
        f"Of {len(TESTS)} tests {passed} pass, {total['converted']} of them with values converted on the host (64-bit, "
        f"8-bit and 16-bit numbers that fit), {total['failed']} fail, {total['skipped']} are skipped.",
        "",
        "| op | passed | converted | failed | skipped | why skipped |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for name, row in sorted(counts.items()):
        why = "; ".join(sorted(reasons[name]))
        lines.append(f"| {name} | {row['passed']} | {row['converted']} | {row['failed']} | {row['skipped']} | {why} |")
    REPORT.write_text("\n".join(lines) + "\n")
    print(dict(total))
    for name, text in failures.items():
        print(name, text)
    return 1 if failures else 0


if __name__ == "__main__":
    if sys.argv[1:] != ["--update"]:
        sys.exit(__doc__)
    sys.exit(update())
