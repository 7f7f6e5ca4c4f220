"""Writes pictures, with nothing but Python's own library."""

import struct
import zlib

import numpy as np


def save(path, pixels):
    """pixels: (height, width) or (height, width, 3), numbers from 0 to 1."""
    data = (np.clip(pixels, 0, 1) * 255 + 0.5).astype(np.uint8)
    height, width = data.shape[:2]
    lines = np.concatenate([np.zeros((height, 1), np.uint8), data.reshape(height, -1)], axis=1)  # 0: no filter

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2 if data.ndim == 3 else 0, 0, 0, 0)
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header))
        f.write(chunk(b"IDAT", zlib.compress(lines.tobytes(), 6)) + chunk(b"IEND", b""))
