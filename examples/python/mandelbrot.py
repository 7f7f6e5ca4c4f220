"""The Mandelbrot set by a kernel of one's own, one thread a pixel.

python mandelbrot.py [width] [picture.png]
"""

import sys

import numpy as np
import png

import weft

KERNEL = weft.Kernel(
    """
    struct Params { center: vec2f, scale: f32, width: u32, height: u32 }
    @group(0) @binding(0) var<storage, read_write> steps: array<f32>;

    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
      let i = linear_index(id);
      if (i >= params.width * params.height) { return; }
      let pixel = vec2f(f32(i % params.width), f32(i / params.width));
      let size = vec2f(f32(params.width), f32(params.height));
      let c = params.center + (pixel + 0.5 - size / 2.0) * (params.scale / size.x);
      var z = vec2f(0.0);
      var n = 0u;
      while (n < LIMIT && dot(z, z) < 256.0) {
        z = vec2f(z.x * z.x - z.y * z.y, 2.0 * z.x * z.y) + c;
        n++;
      }
      // A fraction of a step, so that colours change smoothly.
      steps[i] = select(f32(n) + 1.0 - log2(0.5 * log2(max(dot(z, z), 2.0))), 0.0, n == LIMIT);
    }
    """,
    constants=dict(LIMIT=300),
    label="mandelbrot",
)


def steps(width, height, center=(-0.6, 0.0), scale=3.2):
    """How many steps each point takes to leave; 0 for those that stay."""
    params = dict(center=center, scale=scale, width=width, height=height)
    return KERNEL(out=dict(steps=(height, width)), params=params)


@weft.jit
def colours(n):
    """A cosine of another phase for red, green and blue."""
    phase = weft.asarray(np.array([3.0, 3.6, 4.2], np.float32))
    waves = 0.5 + 0.5 * weft.cos(phase + 0.45 * weft.sqrt(n)[:, :, None])
    return weft.where((n > 0)[:, :, None], waves, 0.0)


def main(width=1200, path="mandelbrot.png"):
    n = steps(width, width * 3 // 4)
    png.save(path, colours(n).numpy())
    print(f"{path}: {n.shape[1]} x {n.shape[0]} pixels, {float(weft.mean(n == 0)):.1%} of them in the set")
    return n


if __name__ == "__main__":
    main(*(kind(given) for kind, given in zip((int, str), sys.argv[1:])))
