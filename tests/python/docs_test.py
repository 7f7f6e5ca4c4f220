"""The recipes of docs/python.md run as they stand, and so do the examples, smaller."""

import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import weft

ROOT = pathlib.Path(__file__).parents[2]
TEXT = (ROOT / "docs/python.md").read_text()
RECIPES = re.findall(r"^## (\d+)\. (.*?)\n(.*?)(?=^## )", TEXT, re.M | re.S)


def test_there_are_ten():
    assert [int(n) for n, _, _ in RECIPES] == list(range(1, 11))
    assert TEXT.count("```python") == 10


@pytest.mark.parametrize("recipe", RECIPES, ids=[f"{n} {title}" for n, title, _ in RECIPES])
def test_recipe(recipe, capsys):
    blocks = re.findall(r"```python\n(.*?)```", recipe[2], re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, f"docs/python.md, {recipe[1]}", "exec"), {"__name__": "recipe"})
    printed = capsys.readouterr().out
    assert bool(printed) == ("print(" in recipe[2])
    assert (recipe[0] != "6") or ("65" in printed and "^" in printed)


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples/python"))

    def load(name):
        sys.modules.pop("png", None)
        space = {"__name__": name}
        exec(compile((ROOT / f"examples/python/{name}.py").read_text(), f"{name}.py", "exec"), space)
        return space

    return load


def picture(path):
    """The pixels of a PNG that examples/python/png.py wrote."""
    import struct
    import zlib

    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, depth, kind = struct.unpack(">IIBB", data[16:26])
    assert depth == 8 and kind == 2
    at = data.index(b"IDAT")
    (size,) = struct.unpack(">I", data[at - 4 : at])
    lines = np.frombuffer(zlib.decompress(data[at + 4 : at + 4 + size]), np.uint8).reshape(height, -1)
    return lines[:, 1:].reshape(height, width, 3)


def test_mandelbrot(example, tmp_path):
    n = example("mandelbrot")["main"](160, str(tmp_path / "m.png")).numpy()
    pixels = picture(tmp_path / "m.png")
    assert pixels.shape == (120, 160, 3) and pixels[60, 100].tolist() == [0, 0, 0] and pixels[0, 0, 2] > 60
    np.testing.assert_array_equal(n, n[::-1])  # its own mirror image
    y, x = np.mgrid[:120, :160]
    c = -0.6 + (x + 0.5 - 80) * 0.02 + 1j * (y + 0.5 - 60) * 0.02
    z = np.zeros_like(c)
    for _ in range(300):
        z = np.where(abs(z) < 16, z * z + c, z)
    assert np.mean((n == 0) != (abs(z) < 16)) < 0.005


def test_nbody(example, tmp_path):
    start, end = example("nbody")["main"](60, 40, str(tmp_path / "n.png"))
    assert abs(end - start) < 0.05 * abs(start)
    pixels = picture(tmp_path / "n.png")
    assert 50 < (pixels.max(axis=2) > 30).sum() < 20000


def test_digits(example, tmp_path):
    assert example("digits")["main"](400, str(tmp_path / "d.png")) > 0.9
    assert picture(tmp_path / "d.png").std() > 30


def test_an_example_as_a_program(tmp_path):
    done = subprocess.run(
        [os.environ.get("WEFT_TEST_PYTHON", sys.executable), ROOT / "examples/python/mandelbrot.py", "32", tmp_path / "m.png"],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0 and "32 x 24" in done.stdout, done.stderr


def test_everything_public_has_a_docstring():
    def says_something(name, what):
        return any(line.strip() and not line.startswith((f"{name}(", "def ")) for line in (what.__doc__ or "").splitlines())

    silent = []
    for module in (weft, weft.nn, weft.fft, weft.linalg, weft.random):
        for name in module.__all__:
            what = getattr(module, name)
            if not callable(what) or isinstance(what, np.dtype):
                continue
            if not says_something(name, what):
                silent.append(f"{module.__name__}.{name}")
            if isinstance(what, type) and not issubclass(what, Exception):
                silent += [f"{name}.{n}" for n, v in vars(what).items() if n[0] != "_" and not says_something(n, v)]
    assert not silent
    assert "float32" in weft.exp.__doc__ and "numpy.exp" in weft.exp.__doc__ and "f32" not in weft.exp.__doc__
