"""Stars that attract each other: two discs pass, and their paths are drawn.

python nbody.py [stars] [steps] [picture.png]
"""

import sys

import numpy as np
import png

import weft

SOFTENING = 0.05  # near misses stay finite
DT = 0.01


def accelerations(x, m):
    """Of stars at x (n, 2) with masses m (n,): every pair, in one kernel but for the sums."""
    d = x[None, :, :] - x[:, None, :]
    r2 = weft.sum(d * d, axis=2) + SOFTENING**2
    return weft.sum(d * (m * r2**-1.5)[:, :, None], axis=1)


@weft.jit
def step(x, v, m):
    """Leapfrog, which keeps the energy: half a kick, a drift, half a kick."""
    v = v + accelerations(x, m) * (DT / 2)
    x = x + v * DT
    return x, v + accelerations(x, m) * (DT / 2)


@weft.jit
def energy(x, v, m):
    d = x[None, :, :] - x[:, None, :]
    pairs = m[:, None] * m / weft.sqrt(weft.sum(d * d, axis=2) + SOFTENING**2)
    own = weft.sum(m * m) / SOFTENING  # each star with itself
    return 0.5 * weft.sum(m * weft.sum(v * v, axis=1)) - 0.5 * (weft.sum(pairs) - own)


def disc(rng, n, center, velocity):
    """Half the mass in the middle, the rest circling it."""
    r = np.sqrt(rng.uniform(0.02, 1, n)) * 0.7
    angle = rng.uniform(0, 2 * np.pi, n)
    inside = 0.5 + 0.5 * (r / 0.7) ** 2
    speed = np.sqrt(inside * r**2 / (r**2 + SOFTENING**2) ** 1.5)
    x = np.stack([np.cos(angle), np.sin(angle)], 1) * r[:, None]
    v = np.stack([-np.sin(angle), np.cos(angle)], 1) * speed[:, None]
    x[0] = v[0] = 0
    m = np.full(n, 0.5 / max(n - 1, 1))
    m[0] = 0.5
    return x + center, v + velocity, m


def draw(path, frames, size=640, half=2.2):
    """Where stars have been, brighter where more and later."""
    picture = np.zeros((size, size, 3), np.float32)
    tint = np.array([[1.0, 0.75, 0.4], [0.45, 0.7, 1.0]], np.float32)
    for k, x in enumerate(frames):
        at = ((x + half) / (2 * half) * size).astype(int)
        seen = ((at >= 0) & (at < size)).all(axis=1)
        which = (np.arange(len(x)) >= len(x) // 2).astype(int)
        np.add.at(picture, (size - 1 - at[seen, 1], at[seen, 0]), tint[which[seen]] * (0.2 + (k + 1) / len(frames)))
    png.save(path, 1 - np.exp(-picture / max(1e-6, picture[picture > 0].mean()) * 0.6))


def main(stars=500, steps=300, path="nbody.png"):
    rng = np.random.default_rng(1)
    parts = [disc(rng, stars // 2, (-0.9, -0.4), (0.35, 0.1)), disc(rng, stars - stars // 2, (0.9, 0.4), (-0.35, -0.1))]
    x, v, m = (weft.asarray(np.concatenate(p)) for p in zip(*parts))
    start = float(energy(x, v, m))
    frames = []
    for k in range(steps):
        x, v = step(x, v, m)
        if k % max(1, steps // 40) == 0:
            frames.append(x.numpy())
    end = float(energy(x, v, m))
    draw(path, frames)
    print(f"{path}: {stars} stars, {steps} steps; energy {start:.4f}, then {end:.4f}")
    return start, end


if __name__ == "__main__":
    main(*(kind(given) for kind, given in zip((int, int, str), sys.argv[1:])))
