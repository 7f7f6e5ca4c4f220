"""The package's annotations and the module's stubs, by mypy."""

import pathlib
import subprocess
import sys

import pytest

import weft

PACKAGE = pathlib.Path(weft.__file__).parent


def mypy(*arguments):
    mypy_path = str(PACKAGE.parent)
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--no-incremental", *arguments],
        capture_output=True, text=True, timeout=300, env={"MYPYPATH": mypy_path, "PATH": "/usr/bin:/bin"},
    )  # fmt: skip


@pytest.mark.skipif(weft.implementation == "dawn", reason="the same files; mypy is started without Dawn's loader")
def test_package():
    done = mypy("-p", "weft")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(weft.implementation == "dawn", reason="the same files; mypy is started without Dawn's loader")
def test_use(tmp_path):
    good = tmp_path / "good.py"
    good.write_text(
        "import numpy as np, weft\n"
        "x: weft.Array = weft.asarray(np.ones((2, 3)), dtype='float32')\n"
        "y: weft.Array = weft.nn.softmax(x @ x.T + 1.0, axis=-1)\n"
        "a: np.ndarray = y.numpy(timeout=1.0)\n"
        "shape: tuple[int, ...] = (2 * y).sum(axis=0).shape\n"
        "z: weft.Array = weft.concat([x, x[0:1]], axis=0)[None, ..., 1]\n"
    )
    done = mypy(str(good))
    assert done.returncode == 0, done.stdout + done.stderr
    bad = tmp_path / "bad.py"
    bad.write_text("import weft\nweft.zeros((2, 3)).numpy(timeout='a')\nweft.nn.softmax(weft.zeros(3), axes=1)\n")
    done = mypy(str(bad))
    assert done.stdout.count("error:") == 2, done.stdout
