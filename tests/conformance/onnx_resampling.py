"""ONNX's operators that sample between elements, as products and look-ups. Imported for what it puts into onnx_ops.OPS."""

import itertools
import math

import numpy as np

import weft
from onnx_ops import ints, op

# -- Resize: a matrix for each axis, made on the host --------------------------------------------------------------------


def _places(mode, scale, n, m, roi):
    """Where each of m outputs lies among n inputs."""
    i = np.arange(m, dtype=np.float64)
    length = scale * n  # not rounded, as the reference has it
    if mode == "asymmetric":
        return i / scale
    if mode == "align_corners":
        return i * 0 if length == 1 else i * (n - 1) / (length - 1)
    if mode == "tf_crop_and_resize":
        start, end = roi
        return start * (n - 1) + i * (end - start) * (n - 1) / (m - 1) if m > 1 else np.full(m, (start + end) * (n - 1) / 2)
    if mode == "pytorch_half_pixel" and m == 1:
        return i
    half = (i + 0.5) / scale - 0.5
    return half + n / 2 * (1 - m / length) if mode == "half_pixel_symmetric" else half


def _cubic(distance, a):
    d = np.abs(distance)
    near, far = ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def _nearest(places, how):
    rules = {"floor": np.floor, "ceil": np.ceil, "round_prefer_floor": lambda x: np.ceil(x - 0.5),
             "round_prefer_ceil": lambda x: np.floor(x + 0.5)}  # fmt: skip
    return rules[how](places).astype(int)


def _weights(places, n, curve, support, shrink, exclude_outside):
    """Row i has what each of n elements counts in output i. What lies outside counts for the end, or not at all."""
    out = np.zeros((len(places), n))
    reach = math.ceil(support / shrink)
    for i, x in enumerate(places):
        near = np.arange(math.floor(x) - reach, math.floor(x) + reach + 2)
        w = curve((near - x) * shrink)
        if exclude_outside:
            w = np.where((near >= 0) & (near < n), w, 0)
        np.add.at(out[i], np.clip(near, 0, n - 1), w / w.sum())
    return out


def _along(x, axis, matrix):
    product = weft.tensordot(x, matrix.astype(np.float32).T, axes=((axis,), (0,)))
    return weft.moveaxis(product, -1, axis)


@op("Resize")
def _resize(n, x, roi=None, scales=None, sizes=None):
    x = n.array(x)
    axes = [a % x.ndim for a in n.get("axes", range(x.ndim))]
    lengths = [x.shape[a] for a in axes]
    if sizes is not None:
        sizes = ints(sizes)
        scales = [m / length for m, length in zip(sizes, lengths)]
        policy = n.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            one = (min if policy == "not_larger" else max)(scales)
            scales = [one] * len(axes)
            sizes = [math.floor(one * length + 0.5) for length in lengths]
    else:
        scales = [float(s) for s in np.asarray(scales)]
        sizes = [math.floor(s * length) for s, length in zip(scales, lengths)]
    mode, coordinates = n.get("mode", "nearest"), n.get("coordinate_transformation_mode", "half_pixel")
    crop = coordinates == "tf_crop_and_resize"
    outside = None
    for k, (axis, scale, length, size) in enumerate(zip(axes, scales, lengths, sizes)):
        ends = (float(roi[k]), float(roi[k + len(axes)])) if crop else None
        places = _places(coordinates, scale, length, size, ends)
        if crop:
            out_here = weft.reshape((places < 0) | (places > length - 1), [-1 if a == axis else 1 for a in range(x.ndim)])
            outside = out_here if outside is None else outside | out_here
        if size == length and np.array_equal(places, np.arange(length)):
            continue
        if mode == "nearest":
            at = np.clip(_nearest(places, n.get("nearest_mode", "round_prefer_floor")), 0, length - 1)
            x = weft.take(x, at, axis)
            continue
        a = n.get("cubic_coeff_a", -0.75)
        curve = (lambda d: np.maximum(1 - np.abs(d), 0)) if mode == "linear" else (lambda d: _cubic(d, a))
        shrink = min(1.0, scale) if n.get("antialias", 0) else 1.0
        x = _along(x, axis, _weights(places, length, curve, 1 if mode == "linear" else 2, shrink, n.get("exclude_outside", 0)))
    return x if outside is None else weft.where(outside, n.get("extrapolation_value", 0.0), x)


@op("Upsample")
def _upsample(n, x, scales):
    x = n.array(x)
    for axis, scale in enumerate(np.asarray(scales)):
        length = x.shape[axis]
        x = weft.take(x, np.floor(np.arange(math.floor(length * scale)) / scale).astype(int), axis)
    return x


# -- grids ---------------------------------------------------------------------------------------------------------------


@op("AffineGrid")
def _affine_grid(n, theta, size):
    theta, lengths = n.array(theta), ints(size)[2:]
    corners = n.get("align_corners", 0)
    steps = [np.linspace(-1, 1, m) if corners else (2 * np.arange(m) + 1) / m - 1 for m in lengths]
    # x comes first, the last axis of the picture.
    grids = np.meshgrid(*steps, indexing="ij")
    parts = np.stack([*grids[::-1], np.ones(lengths)], axis=-1).reshape(-1, len(lengths) + 1).astype(np.float32)
    out = weft.matmul(parts, theta.mT)
    return weft.reshape(out, (theta.shape[0], *lengths, len(lengths)))


def _reflected(x, low, high):
    span = high - low
    if span == 0:
        return x * 0 + low
    t = weft.remainder(x - low, 2.0 * span)
    return low + weft.where(t <= span, t, 2.0 * span - t)


def _padded(x, n, low, high, padding):
    """Places outside brought inside. For zeros they stay: the caller masks them."""
    if padding == "border":
        return weft.clip(x, 0.0, float(n - 1))
    if padding == "reflection":
        return weft.where((x < low) | (x > high), _reflected(x, low, high), x)
    return x


@op("GridSample")
def _grid_sample(n, x, grid):
    x, grid = n.array(x), n.array(grid)
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(n.get("mode", "linear"), n.get("mode", "linear"))
    padding, corners = n.get("padding_mode", "zeros"), bool(n.get("align_corners", 0))
    batch, channels, lengths = x.shape[0], x.shape[1], x.shape[2:]
    volume = math.prod(lengths)
    rows = weft.reshape(weft.moveaxis(x, 1, -1), (batch * volume, channels))
    first = weft.reshape(weft.arange(batch) * volume, (-1,) + (1,) * len(lengths))
    bounds = [(0.0, m - 1.0) if corners else (-0.5, m - 0.5) for m in lengths]
    places = []
    for k, (m, (low, high)) in enumerate(zip(lengths, bounds)):
        g = grid[..., len(lengths) - 1 - k]  # x, the last axis, comes first
        p = (g + 1.0) * (0.5 * (m - 1)) if corners else ((g + 1.0) * float(m) - 1.0) * 0.5
        places.append(_padded(weft.round(p) if mode == "nearest" else p, m, low, high, padding))

    def at(index):
        """The elements at whole places [batch, ...], channels last."""
        flat, inside = 0, None
        for i, m, (low, high) in zip(index, lengths, bounds):
            here = (i >= 0) & (i <= m - 1)
            inside = here if inside is None else inside & here
            flat = flat * m + weft.astype(weft.clip(_padded(i, m, low, high, padding), 0.0, float(m - 1)), "int32")
        values = weft.take(rows, first + flat, 0)
        return weft.where(inside[..., None], values, 0.0) if padding == "zeros" else values

    if mode == "nearest":
        out = at(places)
    else:
        taps = (0, 1) if mode == "linear" else (-1, 0, 1, 2)
        floors = [weft.floor(p) for p in places]
        out = 0
        for tap in itertools.product(taps, repeat=len(lengths)):
            weight = 1.0
            for p, f, t in zip(places, floors, tap):
                d = weft.abs(p - f - float(t))
                if mode == "linear":
                    weight = weight * (1.0 - d)
                else:
                    a = -0.75
                    near, far = ((a + 2) * d - (a + 3)) * d * d + 1.0, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
                    weight = weight * weft.where(d <= 1, near, far)
            out = out + at([f + float(t) for f, t in zip(floors, tap)]) * weight[..., None]
    return weft.moveaxis(out, -1, 1)
