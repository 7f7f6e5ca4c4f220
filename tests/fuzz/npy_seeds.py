"""Writes a small seed corpus for npy_fuzz into the directory given: python npy_seeds.py DIR"""

import json
import pathlib
import sys

import numpy as np


def main(directory):
    out = pathlib.Path(directory)
    out.mkdir(parents=True, exist_ok=True)
    for code in ["?", "i1", "u2", ">i4", "u8", "f2", ">f4", "f8", "c8", ">c16"]:
        np.save(out / f"c{code[-2:].strip('?') or 'b1'}.npy", np.arange(6).reshape(2, 3).astype(code))
    np.save(out / "fortran.npy", np.asfortranarray(np.ones((3, 2), "f4")))
    np.save(out / "scalar.npy", np.float32(4.5))
    np.save(out / "empty.npy", np.zeros((0, 3), "f4"))
    for version in [(2, 0), (3, 0)]:
        with open(out / f"version{version[0]}.npy", "wb") as file:
            np.lib.format.write_array(file, np.ones(3, "f4"), version=version)
    np.savez(out / "stored.npz", a=np.ones(2, "f4"), b=np.arange(3))
    np.savez_compressed(out / "deflated.npz", a=np.ones(20, "f4"))
    header = {
        "__metadata__": {"format": "pt"},
        "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
        "b": {"dtype": "BF16", "shape": [1, 2], "data_offsets": [8, 12]},
    }
    text = json.dumps(header).encode()
    (out / "two.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + b"\0\0\x80\x3f" * 3)


if __name__ == "__main__":
    main(sys.argv[1])
