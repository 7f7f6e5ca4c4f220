"""Random numbers, the same for a seed on every device.

    g = weft.random.Generator(7)
    g.uniform((3, 4)); g.normal(10); g.integers(0, 6, 100); g.bits(4)

Each draw moves its generator on. Not for secrets.
"""

from __future__ import annotations

import copyreg

from weft._weft import Generator


def _generator(seed: int, offset: int) -> Generator:
    g = Generator(seed)
    g.offset = offset
    return g


copyreg.pickle(Generator, lambda g: (_generator, (g.seed, g.offset)))

__all__ = ["Generator"]
