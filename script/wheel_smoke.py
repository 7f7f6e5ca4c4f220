"""What an installed wheel must do; script/wheel runs it in a fresh environment."""

import importlib.metadata
import pathlib
import sys

import numpy as np

import weft

place = pathlib.Path(weft.__file__).parent
assert pathlib.Path(sys.prefix) in place.parents, f"weft comes from {place}, not from the environment"
assert (place / "py.typed").exists() and (place / "_weft.pyi").exists(), "no type stubs"
files = {pathlib.Path(f).name for f in importlib.metadata.files("weft-gpu")}
licences = {"LICENSE", "wgpu-native.txt", "wgpu-native-crates.txt", "fmt.txt", "nanobind.txt", "nlohmann-json.txt"}
assert licences <= files, f"the wheel lacks licences: {licences - files}"

x = np.random.default_rng(0).random((37, 64), np.float32)
w = weft.asarray(np.ones((64, 8), np.float32))
step = weft.jit(lambda a: weft.nn.relu(a @ w - 30) * 2)
for k in (1, 2):
    want = np.maximum((x * k) @ np.ones((64, 8), np.float32) - 30, 0) * 2
    np.testing.assert_allclose(step(weft.asarray(x * k)).numpy(), want, rtol=1e-4, atol=1e-4)
double = weft.Kernel(
    "@group(0) @binding(0) var<storage, read_write> y: array<f32>;\n"
    "@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {\n"
    "  let i = linear_index(id); if (i < arrayLength(&y)) { y[i] = 2.0 * f32(i); } }"
)
np.testing.assert_array_equal(double(out=dict(y=100)).numpy(), 2 * np.arange(100, dtype=np.float32))
print(f"weft {weft.__version__} ({weft.implementation}) on {weft.default_device().name}: right")
