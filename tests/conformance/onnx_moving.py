"""ONNX's operators that put elements elsewhere, and optimizers' steps. Imported for what it puts into onnx_ops.OPS."""

import itertools
import math

import numpy as np

import weft
from onnx_ops import ints, number, op


def _along(x, axis, rank):
    """One axis, put in this place among axes of length 1."""
    return weft.reshape(x, [-1 if k == axis else 1 for k in range(rank)])


@op("TensorScatter")
def _tensor_scatter(n, past, update, write=None):
    past, update = n.array(past), n.array(update)
    axis = n.get("axis", -2) % past.ndim
    length = past.shape[axis]
    start = weft.zeros((past.shape[0],), "int32") if write is None else n.array(write)
    places = _along(start, 0, past.ndim) + _along(weft.arange(update.shape[axis]), axis, past.ndim)
    if n.get("mode", "linear") == "circular":
        places = places % length
    return weft.scatter_along_axis(past, weft.broadcast_to(places, update.shape), update, axis=axis)


@op("ReverseSequence")
def _reverse_sequence(n, x, lengths):
    x = n.array(x)
    time, batch = n.get("time_axis", 0), n.get("batch_axis", 1)
    step, count = _along(weft.arange(x.shape[time]), time, x.ndim), _along(n.array(lengths), batch, x.ndim)
    places = weft.where(step < count, count - 1 - step, step)
    return weft.take_along_axis(x, weft.broadcast_to(places, x.shape), axis=time)


@op("MaxUnpool")
def _max_unpool(n, x, places, shape=None):
    x, kernel = n.array(x), n.get("kernel_shape")
    axes = len(kernel)
    stride, pads = n.get("strides", [1] * axes), n.get("pads", [0] * 2 * axes)
    natural = [
        (m - 1) * s + k - pads[i] - pads[i + axes] for i, (m, s, k) in enumerate(zip(x.shape[2:], stride, kernel))
    ]
    natural = list(x.shape[:2]) + natural
    flat = weft.scatter_along_axis(
        weft.zeros((math.prod(natural),), x.dtype), weft.reshape(n.array(places), (-1,)), weft.reshape(x, (-1,)), axis=0
    )
    out = weft.reshape(flat, tuple(natural))
    return out if shape is None else weft.pad(out, [(0, b - a) for a, b in zip(natural, ints(shape))])


@op("Col2Im")
def _col2im(n, x, image, block):
    x, image, block = n.array(x), ints(image), ints(block)
    axes = len(image)
    stride, dilation = n.get("strides", [1] * axes), n.get("dilations", [1] * axes)
    pads = n.get("pads", [0] * 2 * axes)
    padded = [m + pads[k] + pads[k + axes] for k, m in enumerate(image)]
    turns = [(m - d * (b - 1) - 1) // s + 1 for m, d, b, s in zip(padded, dilation, block, stride)]
    # Where each element of a column goes, in the padded image.
    places = np.zeros([*block, *turns], np.int64)
    for at in itertools.product(*map(range, block)):
        grid = np.meshgrid(*(np.arange(t) * s + a * d for t, s, a, d in zip(turns, stride, at, dilation)), indexing="ij")
        places[at] = np.ravel_multi_index(grid, padded)
    batch = x.shape[0] * (x.shape[1] // math.prod(block))
    columns = weft.reshape(x, (batch, -1))
    flat = np.broadcast_to(places.reshape(1, -1), (batch, places.size))
    out = weft.scatter_along_axis(weft.zeros((batch, math.prod(padded)), x.dtype), flat, columns, axis=1, op="add")
    out = weft.reshape(out, (x.shape[0], -1, *padded))
    return out[(slice(None), slice(None), *(slice(pads[k], pads[k] + m) for k, m in enumerate(image)))]


@op("STFT")
def _stft(n, signal, step, window=None, length=None):
    signal, step = n.array(signal), int(number(step))
    size = int(number(length)) if length is not None else np.asarray(window).shape[0]
    count = (signal.shape[1] - size) // step + 1
    frames = signal[:, np.arange(count)[:, None] * step + np.arange(size)]
    if window is not None:
        frames = frames * n.array(window)[:, None]
    real = signal.shape[2] == 1
    if n.get("onesided", 1):
        return weft.fft.rfft(frames[..., 0])
    return weft.fft.fft(weft.concat([frames, weft.zeros_like(frames)], axis=-1) if real else frames)


@op("ArrayFeatureExtractor")
def _array_feature_extractor(n, x, places):
    return weft.take(n.array(x), weft.reshape(n.array(places), (-1,)), -1)


@op("Binarizer")
def _binarizer(n, x):
    x = n.array(x)
    return weft.astype(x > n.get("threshold", 0.0), x.dtype)


# -- training: each array has its gradient and states ------------------------------------------------------------------------


def _steps(n, rate, turn, given, states, step):
    count = len(given) // (2 + states)
    parts = [n.arrays(given[k * count : (k + 1) * count]) for k in range(2 + states)]
    decay = n.get("norm_coefficient", 0.0)
    made = [step(float(number(rate)), int(number(turn)), x, g + decay * x, *rest) for x, g, *rest in zip(*parts)]
    return [value for column in zip(*made) for value in column]


@op("Adagrad")
def _adagrad(n, rate, turn, *given):
    def step(r, t, x, g, h):
        h = h + g * g
        return x - r / (1 + t * n.get("decay_factor", 0.0)) * g / (weft.sqrt(h) + n.get("epsilon", 1e-6)), h

    return _steps(n, rate, turn, given, 1, step)


@op("Adam")
def _adam(n, rate, turn, *given):
    alpha, beta = n.get("alpha", 0.9), n.get("beta", 0.999)

    def step(r, t, x, g, v, h):
        v, h = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * g * g
        r = r * math.sqrt(1 - beta**t) / (1 - alpha**t) if t > 0 else r
        x = x - r * v / (weft.sqrt(h) + n.get("epsilon", 1e-6))
        return (1 - n.get("norm_coefficient_post", 0.0)) * x, v, h

    return _steps(n, rate, turn, given, 2, step)


@op("Momentum")
def _momentum(n, rate, turn, *given):
    alpha = n.get("alpha")

    def step(r, t, x, g, v):
        v = alpha * v + (n.get("beta") if t > 0 else 1.0) * g
        return x - r * (g + alpha * v if n.get("mode") == "nesterov" else v), v

    return _steps(n, rate, turn, given, 1, step)
