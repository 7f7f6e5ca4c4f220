"""weft.Kernel and weft.profile."""

import json

import numpy as np
import pytest

import weft

SAXPY = """
struct Params { a: f32, n: u32 }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  let i = linear_index(id);
  if (i < params.n) { y[i] += params.a * x[i]; }
}
"""

DOUBLE = """
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
  let i = linear_index(id);
  if (i < arrayLength(&y)) { y[i] = 2.0 * x[i]; }
}
"""


def test_arrays_by_name_and_in_place(rng):
    saxpy = weft.Kernel(SAXPY, label="saxpy")
    x, y = rng.random(1000, np.float32), rng.random(1000, np.float32)
    dy = weft.asarray(y)
    assert saxpy(x=x, y=dy, params=dict(a=2.0, n=x.size)) is None
    np.testing.assert_allclose(dy.numpy(), y + 2 * x, rtol=1e-6)
    assert saxpy.label == "saxpy" and saxpy.bindings == {"x": "array<f32>", "y": "array<f32>"}
    assert saxpy.params == {"a": "f32", "n": "u32"} and "saxpy" in repr(saxpy)


def test_new_outputs(rng):
    double = weft.Kernel(DOUBLE)
    x = rng.random((7, 9), np.float32)
    y = double(x=x, out=dict(y=x.shape))
    assert y.shape == (7, 9) and y.dtype == np.float32
    np.testing.assert_array_equal(y.numpy(), 2 * x)
    # Given with its dtype, by a dict, and of one length.
    np.testing.assert_array_equal(double({"x": x}, out={"y": ((63,), "float32")}).numpy(), 2 * x.ravel())
    np.testing.assert_array_equal(double({"x": x}, out={"y": 63}).numpy(), 2 * x.ravel())
    # Only four threads: the rest stays zero.
    few = double(x=x.ravel(), out=dict(y=63), elements=4).numpy()
    assert (few[64:] == 0).all() and few[0] == 2 * x.flat[0]
    np.testing.assert_array_equal(double(x=x, out=dict(y=63), grid=(1,)).numpy(), 2 * x.ravel())


def test_strided_inputs_are_copied(rng):
    double = weft.Kernel(DOUBLE)
    x = rng.random((6, 8), np.float32)
    d = weft.asarray(x)
    np.testing.assert_array_equal(double(x=d.T, out=dict(y=(8, 6))).numpy(), 2 * x.T)
    np.testing.assert_array_equal(double(x=d[:, 1:][:, ::-1], out=dict(y=(6, 7))).numpy(), 2 * x[:, :0:-1])
    np.testing.assert_array_equal(double(x=d.reshape(-1)[3:], out=dict(y=45)).numpy(), 2 * x.ravel()[3:])
    with pytest.raises(weft.InvalidArgument, match="is written.*copy"):
        double(x=d, y=d.T)


def test_every_kind_of_parameter():
    echo = weft.Kernel(
        """
        struct Params { m: mat2x3<f32>, v: vec3f, i: i32, w: vec2<u32>, f: f32 }
        @group(0) @binding(0) var<storage, read_write> y: array<f32>;
        @compute @workgroup_size(1) fn main() {
          for (var c = 0u; c < 2u; c++) { for (var r = 0u; r < 3u; r++) { y[c * 3u + r] = params.m[c][r]; } }
          for (var r = 0u; r < 3u; r++) { y[6u + r] = params.v[r]; }
          y[9] = f32(params.i); y[10] = f32(params.w.x); y[11] = f32(params.w.y); y[12] = params.f;
        }
        """
    )
    values = dict(m=[[1, 2, 3], [4, 5, 6]], v=np.array([7, 8, 9]), i=-10, w=(11, 12), f=np.float32(13))
    got = echo(out=dict(y=13), params=values, grid=1).numpy()
    np.testing.assert_array_equal(got, [1, 2, 3, 4, 5, 6, 7, 8, 9, -10, 11, 12, 13])
    with pytest.raises(weft.InvalidArgument, match=r"params\.v is vec3f.*\(2,\)"):
        echo(out=dict(y=13), params={**values, "v": [1, 2]}, grid=1)
    with pytest.raises(weft.InvalidArgument, match=r"params\.i is i32"):
        echo(out=dict(y=13), params={**values, "i": 1.5}, grid=1)
    with pytest.raises(weft.InvalidArgument, match=r"params\.i is i32"):
        echo(out=dict(y=13), params={**values, "i": 2**40}, grid=1)


def test_constants_and_overrides():
    source = """
    override scale: f32 = 1.0;
    @group(0) @binding(0) var<storage, read_write> y: array<T>;
    @compute @workgroup_size(WIDTH) fn main(@builtin(global_invocation_id) id: vec3u) {
      if (FLIP) { y[id.x] = T(scale) * T(SHIFT) + T(HALF); }
    }
    """
    kernel = weft.Kernel(
        source, constants=dict(T="f32", WIDTH=4, SHIFT=-3, HALF=0.5, FLIP=True), overrides=dict(scale=2)
    )
    np.testing.assert_array_equal(kernel(out=dict(y=(4, "float32")), grid=1).numpy(), [-5.5] * 4)
    with pytest.raises(weft.InvalidArgument, match="constant T is list"):
        weft.Kernel(source, constants=dict(T=[1]))
    with pytest.raises(weft.OutOfRange, match="does not fit u32"):
        weft.Kernel(source, constants=dict(WIDTH=2**33))


def test_compile_errors_show_the_line():
    source = DOUBLE.replace("2.0 * x[i]", "2.0 * x[i")
    with pytest.raises(weft.CompileError) as e:
        weft.Kernel(source, label="broken")
    text = str(e.value)
    line = "if (i < arrayLength(&y)) { y[i] = 2.0 * x[i; }"
    assert "broken" in text and "Fix: " in text
    shown = text.splitlines()
    at = next(i for i, t in enumerate(shown) if line in t)
    assert "^" in shown[at + 1] and shown[at][shown[at + 1].index("^")] in "[;i", text
    with pytest.raises(weft.CompileError, match="undeclared"):
        weft.Kernel(DOUBLE.replace("x[i]", "undeclared[i]"))


def test_wrong_calls():
    saxpy = weft.Kernel(SAXPY, label="saxpy")
    x = weft.zeros(8)
    y = weft.zeros(8)
    good = dict(a=1.0, n=8)
    for message, arrays, rest in [
        ("has no array 'z'.*Fix: it has x, y", dict(x=x, y=y, z=x), dict(params=good)),
        ("needs the array 'x'", dict(y=y), dict(params=good)),
        ("needs the array 'y'.*out=", dict(x=x), dict(params=good)),
        ("'x' is in out.*only reads", dict(y=y), dict(params=good, out=dict(x=8))),
        ("'y' is given, and in out", dict(x=x, y=y), dict(params=good, out=dict(y=8))),
        ("'y' is written, and is ndarray", dict(x=x, y=np.zeros(8, "f4")), dict(params=good)),
        ("needs the parameters a, n", dict(x=x, y=y), {}),
        ("needs the parameters n", dict(x=x, y=y), dict(params=dict(a=1.0))),
        ("has no parameter 'b'", dict(x=x, y=y), dict(params=dict(b=1.0, **good))),
        ("grid of 4 numbers", dict(x=x, y=y), dict(params=good, grid=(1, 1, 1, 1))),
        ("i32|float32|f32", dict(x=x.astype("int32"), y=y), dict(params=good)),
        ("x.*y|y.*x", dict(x=x, y=x), dict(params=good)),
    ]:
        with pytest.raises(weft.Error, match=message) as e:
            saxpy(arrays, **rest)
        assert "Fix: " in str(e.value)
    assert (y.numpy() == 0).all()


def test_a_write_comes_after_what_waits_for_the_old_elements():
    saxpy = weft.Kernel(SAXPY)
    y = weft.asarray(np.ones(8, "f4"))
    with weft.lazy():
        before = y * 10
        more = before + 1
        view = y[2:4] - 1
        saxpy(x=np.ones(8, "f4"), y=y, params=dict(a=4.0, n=8))
        after = y * 10
    assert more.numpy().tolist() == [11] * 8 and before.numpy().tolist() == [10] * 8
    assert view.numpy().tolist() == [0, 0] and after.numpy().tolist() == [50] * 8


def test_profile(tmp_path):
    x = weft.asarray(np.ones((64, 64), "f4"))
    (x @ x).numpy()
    with weft.profile() as p:
        with pytest.raises(weft.InvalidArgument, match="after its with-block"):
            p.table()
        (x @ x + 1).numpy()
    assert "matmul" in str(p) or "gemm" in str(p)
    assert p.duration_us > 0 and repr(p) == p.table()
    kinds = {e["category"] for e in p.events}
    assert "read" in kinds and (not p.has_device_times or "dispatch" in kinds)
    p.save(tmp_path / "trace.json")
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    with pytest.raises(KeyError):
        with weft.profile() as broken:
            raise KeyError
    with pytest.raises(weft.InvalidArgument):
        broken.table()
    with weft.profile():  # the device is free again
        with pytest.raises(weft.InvalidArgument, match="profile"):
            with weft.profile():
                pass
