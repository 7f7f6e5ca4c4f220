"""Property tests of weft::io against numpy, through tests/tools/io_tool.cpp ($WEFT_IO_TOOL)."""

import os
import random
import subprocess
import zipfile

import numpy as np
import pytest

DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
ROUNDS = int(os.environ.get("WEFT_IO_ROUNDS", "300"))

# format_array follows numpy 2.3 and later, where the switch to exponents depends on the element type.
assert tuple(int(x) for x in np.__version__.split(".")[:2]) >= (2, 3), "these tests need numpy 2.3 or later"


class ToolError(Exception):
    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


class Tool:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, *fields):
        self.process.stdin.write("\t".join(str(f) for f in fields).encode() + b"\n")
        self.process.stdin.flush()
        head = self.process.stdout.readline().split()
        assert head, f"the tool died on {fields}"
        body = self.process.stdout.read(int(head[-1]))
        if head[0] == b"error":
            raise ToolError(head[1].decode(), body.decode())
        return body

    def cat(self, spec):
        head, data = self("cat", spec).split(b"\n", 1)
        dtype, shape, mapped = head.decode().replace(", ", ",").split(" ")
        array = np.frombuffer(data, dtype=dtype).reshape(eval(shape))  # noqa: S307 (our own tool's text)
        return array, mapped == "mapped"


@pytest.fixture(scope="module")
def tool():
    t = Tool(os.environ["WEFT_IO_TOOL"])
    yield t
    t.process.stdin.close()
    assert t.process.wait(timeout=10) == 0


def random_values(rng, dtype, count):
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        wide = rng.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
        return wide if rng.random() < 0.5 else (wide % 100).astype(dtype)
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        out = np.empty(count, dtype)
        out.real = random_values(rng, part, count)
        out.imag = random_values(rng, part, count)
        return out
    kind = rng.integers(0, 6)
    with np.errstate(over="ignore"):
        if kind == 0:  # any bits, so subnormals, NaN and infinities too
            values = np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).copy()
        elif kind == 1:  # whole numbers
            values = rng.integers(-1000, 1000, count).astype(dtype)
        elif kind == 2:  # few decimals
            values = (rng.integers(-100, 100, count) / 8).astype(dtype)
        elif kind == 3:
            values = rng.normal(size=count).astype(dtype)
        elif kind == 4:  # around the switches between notations
            base = rng.choice([1e-5, 1e-4, 1e-3, 1.0, 1e3, 1e5, 1e6, 1e7, 1e8, 1e15, 1e16], count)
            values = (base * (1 + rng.integers(-2, 3, count) * np.finfo(dtype).eps)).astype(dtype)
        else:  # powers of two: the gap below is half the gap above
            info = np.finfo(dtype)
            values = np.ldexp(1.0, rng.integers(info.minexp - info.nmant, info.maxexp, count)).astype(dtype)
        if count and rng.random() < 0.2:
            values[rng.integers(0, count)] = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0])
    return values


def random_array(rng, dtype=None, longest=6):
    dtype = np.dtype(dtype or rng.choice(DTYPES))
    shape = tuple(int(x) for x in rng.integers(0 if rng.random() < 0.1 else 1, longest, rng.integers(0, 6)))
    array = random_values(rng, dtype, int(np.prod(shape))).reshape(shape)
    if rng.random() < 0.4:
        array = np.asfortranarray(array)
    if rng.random() < 0.4:
        array = array.astype(dtype.newbyteorder(">"))
    return array


def same(got, want):
    want = np.ascontiguousarray(want).reshape(want.shape).astype(want.dtype.newbyteorder("="))
    assert got.dtype == want.dtype and got.shape == want.shape
    assert got.tobytes() == want.tobytes()


def test_reads_what_numpy_writes(tool, tmp_path):
    rng = np.random.default_rng(1)
    path = tmp_path / "x.npy"
    for _ in range(ROUNDS):
        array = random_array(rng)
        version = [None, (1, 0), (2, 0), (3, 0)][rng.integers(0, 4)]
        with open(path, "wb") as file:
            np.lib.format.write_array(file, array, version=version)
        got, mapped = tool.cat(path)
        same(got, array)
        assert mapped == (array.size > 0 and array.dtype.isnative)


def test_numpy_reads_what_weft_writes_and_the_bytes_agree(tool, tmp_path):
    rng = np.random.default_rng(2)
    source, copy, reference = tmp_path / "x.npy", tmp_path / "y.npy", tmp_path / "z.npy"
    for _ in range(ROUNDS):
        array = random_array(rng)
        np.save(source, array)
        tool("resave", source, copy)
        same(np.load(copy, allow_pickle=False), array)
        native = np.ascontiguousarray(array).reshape(array.shape).astype(array.dtype.newbyteorder("="))
        np.save(reference, native)
        assert copy.read_bytes() == reference.read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.npy", "y.npy", "z.npy"]


def test_as_device_dtype(tool, tmp_path):
    rng = np.random.default_rng(3)
    source, copy = tmp_path / "x.npy", tmp_path / "y.npy"
    exact = {"i1": "i4", "u1": "i4", "i2": "i4", "u2": "i4", "i4": "i4", "u4": "u4", "f2": "f2", "f4": "f4", "?": "?"}
    narrowing = {"i8": "i4", "u8": "u4", "f8": "f4"}
    for _ in range(ROUNDS):
        array = random_array(rng)
        np.save(source, array)
        code = "?" if array.dtype.kind == "b" else f"{array.dtype.kind}{array.dtype.itemsize}"
        if code in exact:
            note = tool("copy", source, copy)
            same(np.load(copy), array.astype(exact[code]))
            assert bool(note) == (code != exact[code])
            continue
        copy.unlink(missing_ok=True)
        with pytest.raises(ToolError) as error:
            tool("copy", source, copy)
        assert error.value.code == "unsupported" and not copy.exists()
        if code not in narrowing:
            continue
        assert "--allow-downcast" in str(error.value)
        with np.errstate(over="ignore", invalid="ignore"):
            want = array.astype(narrowing[code])
        if code == "f8":
            note = tool("copy", source, copy, "--allow-downcast").decode()
            assert np.array_equal(np.load(copy), want, equal_nan=True)
            lost = int((np.isinf(want) & np.isfinite(array)).sum())
            assert ("overflowed" in note) == (lost > 0) and (not lost or f"({lost} value" in note)
        elif np.array_equal(want.astype(array.dtype), array):
            tool("copy", source, copy, "--allow-downcast")
            same(np.load(copy), want)
        else:
            with pytest.raises(ToolError) as error:
                tool("copy", source, copy, "--allow-downcast")
            assert error.value.code == "out_of_range" and not copy.exists()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tool, tmp_path, save):
    rng = np.random.default_rng(4)
    path = tmp_path / "archive.npz"
    for _ in range(ROUNDS // 10):
        arrays = {f"name{i}": random_array(rng) for i in range(rng.integers(1, 5))}
        save(path, **arrays)
        assert tool("list", path).decode().split() == list(arrays)
        for name, array in arrays.items():
            same(tool.cat(f"{path}:{name}")[0], array)
        if len(arrays) == 1:
            same(tool.cat(path)[0], arrays["name0"])
        else:
            with pytest.raises(ToolError, match="holds"):
                tool.cat(path)


class Unseekable:
    """A sink that cannot seek: zipfile then writes data descriptors."""

    def __init__(self, file):
        self.write, self.flush = file.write, file.flush


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_npz_from_a_stream_behind_other_bytes(tool, tmp_path, method):
    path = tmp_path / "a.npz"
    np.save(tmp_path / "x.npy", np.arange(1000.0))
    with open(path, "wb") as file:
        with zipfile.ZipFile(Unseekable(file), "w", method) as archive:
            archive.write(tmp_path / "x.npy", "x.npy")
            archive.comment = b"PK\5\6 in a comment"
    same(tool.cat(f"{path}:x")[0], np.arange(1000.0))
    path.write_bytes(b"#!/bin/sh\n" + path.read_bytes())
    path.rename(tmp_path / "shifted.npz")
    same(tool.cat(f"{tmp_path / 'shifted.npz'}:x")[0], np.arange(1000.0))


def test_npz_other_methods_and_damage(tool, tmp_path):
    np.save(tmp_path / "x.npy", np.arange(1000.0))
    with zipfile.ZipFile(tmp_path / "b.npz", "w", zipfile.ZIP_BZIP2) as archive:
        archive.write(tmp_path / "x.npy", "x.npy")
    with pytest.raises(ToolError, match="compression method 12") as error:
        tool.cat(tmp_path / "b.npz")
    assert error.value.code == "unsupported"
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "c.npz", x=np.arange(1000.0))
        good = (tmp_path / "c.npz").read_bytes()
        rng = random.Random(5)
        for _ in range(ROUNDS):
            bad = bytearray(good)
            at = rng.randrange(len(bad))
            bad[at] ^= 1 << rng.randrange(8)
            (tmp_path / "c.npz").write_bytes(bad if rng.random() < 0.7 else bad[:at])
            try:  # the damage may lie in a date or in padding; elsewhere it must be told
                same(tool.cat(tmp_path / "c.npz")[0], np.arange(1000.0))
            except ToolError as error:
                assert error.code in ("io_error", "unsupported")


def mutated(rng, good):
    bad = bytearray(good)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(bad))
        bad[at : at + rng.randrange(0, 3)] = rng.choice([b"", b" ", b",", b"'", b"(", b"9", b"-", bytes([rng.randrange(256)])])
    return bytes(bad)


def test_bad_headers_are_refused_wherever_numpy_refuses(tool, tmp_path):
    rng = random.Random(6)
    path = tmp_path / "x.npy"
    np.save(path, np.arange(6, dtype="f4").reshape(2, 3))
    good = path.read_bytes()
    accepted = refused = 0
    for _ in range(ROUNDS * 3):
        text = mutated(rng, good[10:70])
        path.write_bytes(good[:10] + text.ljust(117)[:117] + b"\n" + good[128:])
        try:
            got, _ = tool.cat(path)
        except ToolError as error:
            refused += 1
            assert error.code in ("io_error", "unsupported")
            continue
        accepted += 1
        same(got, np.load(path, allow_pickle=False))
    assert accepted > 10 and refused > 100


def test_print(tool, tmp_path):
    rng = np.random.default_rng(7)
    path = tmp_path / "x.npy"
    for i in range(ROUNDS * 3):
        array = random_array(rng, longest=4 if i % 2 else 12)
        np.save(path, array)
        threshold = int(rng.choice([0, 10, 1000, 10**6]))
        with np.printoptions(threshold=threshold):
            assert tool("print", path, threshold).decode() == str(array), (array.dtype, array.shape)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
def test_print_scalars_and_single_floats(tool, tmp_path, dtype):
    rng = np.random.default_rng(8)
    path = tmp_path / "x.npy"
    for _ in range(ROUNDS):
        values = random_values(rng, dtype, 3)
        for array in (values, values[:1], values[0].reshape(())):
            np.save(path, array)
            assert tool("print", path).decode() == str(array), array.tobytes()


def test_print_every_float16(tool, tmp_path):
    path = tmp_path / "x.npy"
    every = np.arange(1 << 16, dtype="u2").view("f2")
    for column in (every, every[(every >= 0.001) & (every < 1)]):
        np.save(path, column)
        with np.printoptions(threshold=1 << 20):
            assert tool("print", path, 1 << 20).decode() == str(column)
    finite = every[np.isfinite(every)][::7]
    for value in finite:
        np.save(path, value)
        assert tool("print", path).decode() == str(value)


def test_safetensors(tool, tmp_path):
    # Written by hand: the format is 8 bytes of length, JSON, data.
    import json

    rng = np.random.default_rng(9)
    names = {"?": "BOOL", "i1": "I8", "u1": "U8", "i2": "I16", "u2": "U16", "i4": "I32", "u4": "U32", "i8": "I64"}
    names |= {"u8": "U64", "f2": "F16", "f4": "F32", "f8": "F64"}
    path = tmp_path / "model.safetensors"
    for _ in range(ROUNDS // 3):
        header, data, arrays = {"__metadata__": {"format": "pt"}}, b"", {}
        for i, code in enumerate(rng.choice(list(names), rng.integers(1, 6))):
            array = random_values(rng, code, int(rng.integers(0, 30)))
            arrays[f"layer.{i}:w"] = array
            header[f"layer.{i}:w"] = {
                "dtype": names[code],
                "shape": list(array.shape),
                "data_offsets": [len(data), len(data) + array.nbytes],
            }
            data += array.tobytes()
        text = json.dumps(header).encode() + b" " * int(rng.integers(0, 8))
        path.write_bytes(len(text).to_bytes(8, "little") + text + data)
        assert sorted(tool("list", path).decode().split()) == sorted(arrays)
        for name, array in arrays.items():
            same(tool.cat(f"{path}:{name}")[0], array)
