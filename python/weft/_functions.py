"""Functions made of others, under the names of the array API standard."""

from __future__ import annotations

import math
import operator

import numpy as np

from weft import _convert, _weft
from weft._errors import InvalidArgument, OutOfRange
from weft._weft import Array, Device

_asarray = _convert.asarray


def _whole_numbers(name: str, what: str, given) -> tuple[int, ...]:
    """One whole number or several: Python's, numpy's, arrays of no axes, or a sequence of these."""
    try:
        return (operator.index(given),)
    except TypeError:
        pass
    try:
        return tuple(operator.index(i) for i in given)
    except TypeError:
        raise InvalidArgument(f"{name}: {what} is {given!r}", "give a whole number, or several") from None


def _whole_number(name: str, what: str, given) -> int:
    try:
        return operator.index(given)
    except TypeError:
        raise InvalidArgument(f"{name}: {what} is {given!r}", "give a whole number") from None


def _axes(name: str, axis, rank: int) -> list[int]:
    """One axis or several, each from 0 on."""
    return [_axis(name, a, rank) for a in _whole_numbers(name, "axis", axis)]


def _set_of_axes(name: str, axis, rank: int) -> set[int]:
    axes = _axes(name, axis, rank)
    if len(set(axes)) != len(axes):
        raise InvalidArgument(f"{name}: an axis is given twice in {axis!r}", "name each axis once")
    return set(axes)


def _axis(name: str, axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise OutOfRange(
            f"{name}: axis {axis} is out of range for an array of {rank} axes",
            f"use an axis from {-rank} to {rank - 1}" if rank else "leave axis out",
        )
    return axis % rank


def astype(x, dtype, /, *, copy: bool = True, device: Device | None = None) -> Array:
    """numpy's astype: floats to integers towards zero; NaN gives 0, and what is out of range the nearest end."""
    x = _asarray(x, device=device)
    if _convert.dtype(dtype) == x.dtype:
        return _convert.duplicate(x) if copy else x
    return _weft._astype(x, dtype)


def reshape(x, shape, *, copy: bool | None = None) -> Array:
    """One length may be -1. A view where the strides allow it; copy=True always copies."""
    out = _weft.reshape(x, shape)
    return _convert.duplicate(out) if copy else out


def squeeze(x, axis: int | tuple[int, ...] | None = None) -> Array:
    """Without axes of length 1: those named, else all. A view."""
    x = _asarray(x)
    if axis is None:
        axes = {k for k, n in enumerate(x.shape) if n == 1}
    else:
        axes = _set_of_axes("squeeze", axis, x.ndim)
    for k in axes:
        if x.shape[k] != 1:
            raise InvalidArgument(f"squeeze: axis {k} of {x.shape} has length {x.shape[k]}", "name axes of length 1")
    return x[tuple(0 if k in axes else slice(None) for k in range(x.ndim))]


def flip(x, axis: int | tuple[int, ...] | None = None) -> Array:
    """The other way round along these axes, or all. A view."""
    x = _asarray(x)
    flipped = set(range(x.ndim)) if axis is None else _set_of_axes("flip", axis, x.ndim)
    return x[tuple(slice(None, None, -1) if k in flipped else slice(None) for k in range(x.ndim))]


def roll(x, shift: int | tuple[int, ...], axis: int | tuple[int, ...] | None = None) -> Array:
    """Elements that leave at one end come back at the other."""
    x = _asarray(x)
    if axis is None:
        return _weft.reshape(roll(_weft.reshape(x, (-1,)), shift, 0), x.shape)
    axes = _axes("roll", axis, x.ndim)
    shifts = _whole_numbers("roll", "shift", shift)
    if len(shifts) == 1:
        shifts *= len(axes)
    if len(axes) == 1:
        axes *= len(shifts)
    if len(shifts) != len(axes):
        raise InvalidArgument(f"roll: {len(shifts)} shifts for {len(axes)} axes", "give one for each")
    for s, k in zip(shifts, axes):
        n = x.shape[k]
        if n and s % n:
            x = _weft.concat([_weft._slice(x, k, n - s % n, None, 1), _weft._slice(x, k, 0, n - s % n, 1)], k)
    return x


def moveaxis(x, source, destination) -> Array:
    """Axes to new places, the others in order. A view."""
    x = _asarray(x)
    origins = _axes("moveaxis", source, x.ndim)
    targets = _axes("moveaxis", destination, x.ndim)
    if len(origins) != len(targets) or len(set(origins)) != len(origins) or len(set(targets)) != len(targets):
        raise InvalidArgument(f"moveaxis: from {source} to {destination}", "name each axis once on both sides")
    order = [k for k in range(x.ndim) if k not in origins]
    for target, origin in sorted(zip(targets, origins)):
        order.insert(target, origin)
    return _weft.permute_dims(x, tuple(order)) if x.ndim else x


def swapaxes(x, axis1: int, axis2: int) -> Array:
    """Two axes in each other's place; a view."""
    x = _asarray(x)
    order = list(range(x.ndim))
    a, b = _axis("swapaxes", axis1, x.ndim), _axis("swapaxes", axis2, x.ndim)
    order[a], order[b] = order[b], order[a]
    return _weft.permute_dims(x, tuple(order))


def matrix_transpose(x) -> Array:
    """The last two axes swapped; a view."""
    x = _asarray(x)
    if x.ndim < 2:
        raise InvalidArgument(f"matrix_transpose of an array of {x.ndim} axes", "give at least 2")
    return _weft.permute_dims(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def unstack(x, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis, without it; views."""
    x = _asarray(x)
    k = _axis("unstack", axis, x.ndim)
    return tuple(x[(slice(None),) * k + (i,)] for i in range(x.shape[k]))


def broadcast_arrays(*arrays) -> tuple[Array, ...]:
    """All stretched to the shape that they broadcast to; views."""
    made = _convert.asarrays(*arrays)
    try:
        shape = np.broadcast_shapes(*(a.shape for a in made))
    except ValueError:
        shapes = " and ".join(str(a.shape) for a in made)
        raise InvalidArgument(f"broadcast_arrays: {shapes} do not broadcast", "make lengths equal, or 1") from None
    return tuple(_weft.broadcast_to(a, shape) for a in made)


def broadcast_shapes(*shapes) -> tuple[int, ...]:
    """The shape that these broadcast to."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = " and ".join(str(s) for s in shapes)
        raise InvalidArgument(f"broadcast_shapes: {listed} do not broadcast", "make lengths equal, or 1") from None


def _scan(op: str):
    def run(
        x, /, *, axis: int | None = None, dtype=None, include_initial: bool = False, exclusive: bool = False,
        reverse: bool = False,
    ) -> Array:  # fmt: skip
        x = _asarray(x)
        if axis is None:
            if x.ndim != 1:
                raise InvalidArgument(f"cumulative_{op} of an array of {x.ndim} axes", "name an axis")
            axis = 0
        if dtype is not None:
            x = astype(x, dtype, copy=False)
        out = _weft._scan(x, op, axis, exclusive, reverse)
        if dtype is not None:
            out = astype(out, dtype, copy=False)  # of bools, which are counted in int32
        if not include_initial:
            return out
        k = _axis(f"cumulative_{op}", axis, x.ndim)
        shape = x.shape[:k] + (1,) + x.shape[k + 1 :]
        first = _weft.full(shape, 1 if op == "prod" else 0, dtype=out.dtype, device=x.device)
        return _weft.concat([out, first] if reverse else [first, out], k)

    run.__name__ = run.__qualname__ = f"cumulative_{op}"
    return run


cumulative_sum = _scan("sum")
cumulative_sum.__doc__ = """Running sum along an axis; exclusive: of the elements before each only; reverse: from the end."""
cumulative_prod = _scan("prod")
cumulative_prod.__doc__ = """Running product, as cumulative_sum."""


def diff(x, /, *, axis: int = -1, n: int = 1, prepend=None, append=None) -> Array:
    """Each element less the one before, n times over; of bools whether they differ. prepend, append: put at the ends
    first."""
    x = _asarray(x)
    k = _axis("diff", axis, x.ndim)
    if n < 0:
        raise InvalidArgument(f"diff: {n} times", "use a count from 0 on")
    ends = [None if e is None else _asarray(e, device=x.device) for e in (prepend, append)]
    # A number stands for a slice of it.
    before, after = ([_weft.broadcast_to(e, x.shape[:k] + (1,) + x.shape[k + 1 :]) if e.ndim == 0 else e]
                     if e is not None else [] for e in ends)  # fmt: skip
    if n and (before or after):
        x = _weft.concat([*before, x, *after], k)
    step = _weft.not_equal if x.dtype == _convert.BOOL else _weft.subtract
    for _ in range(n):
        x = step(_weft._slice(x, k, 1, None, 1), _weft._slice(x, k, None, -1, 1))
    return x


def split(x, indices_or_sections: int | tuple[int, ...], axis: int = 0) -> list[Array]:
    """numpy.split: so many equal parts, or parts that end at these indices. Views."""
    x = _asarray(x)
    k = _axis("split", axis, x.ndim)
    n = x.shape[k]
    ends = list(_whole_numbers("split", "indices_or_sections", indices_or_sections))
    if not hasattr(indices_or_sections, "__len__") or getattr(indices_or_sections, "ndim", 1) == 0:
        (count,) = ends
        if count < 1 or n % count:
            raise InvalidArgument(f"split: an axis of length {n} into {count} equal parts", "give a divisor, or indices")
        ends = [n // count * i for i in range(1, count)]
    return [_weft._slice(x, k, a, b, 1) for a, b in zip([None, *ends], [*ends, None])]


def pad(x, pad_width, mode: str = "constant", constant_values=0) -> Array:
    """numpy.pad: a number for all, (before, after) for all axes, or a pair for each. mode: "constant", "edge",
    "reflect" or "wrap". Negative widths cut off."""
    x = _asarray(x)
    try:
        widths = np.asarray(pad_width)
        widths = np.broadcast_to(widths.astype(np.int64, casting="safe"), (x.ndim, 2))
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"pad: widths {pad_width!r} for an array of {x.ndim} axes",
            "give a whole number, (before, after), or such a pair for each axis",
        ) from None
    return _weft._pad(x, [(int(a), int(b)) for a, b in widths], mode, constant_values)


def repeat(x, repeats, /, *, axis: int | None = None) -> Array:
    """Each element so many times, along an axis or of the flattened array. repeats: a number, or one for each place
    along the axis (read on the host)."""
    x = _asarray(x)
    if axis is None:
        x, axis = _weft.reshape(x, (-1,)), 0
    try:
        return _weft._repeat(x, operator.index(repeats), axis)
    except TypeError:
        pass
    counts = repeats.numpy() if isinstance(repeats, Array) else np.asarray(repeats)
    if counts.size == 0:
        counts = counts.astype(np.int64)
    k = _axis("repeat", axis, x.ndim)
    if counts.dtype.kind not in "iu" or counts.shape not in ((1,), (x.shape[k],)):
        raise InvalidArgument(
            f"repeat: counts of {counts.dtype} and shape {counts.shape} for axis {k} of {x.shape}",
            f"give a whole number, or {x.shape[k]} of them",
        )
    if counts.size and counts.min() < 0:
        raise InvalidArgument(f"repeat: {counts.min()} times", "use counts from 0 on")
    if counts.size == 1:
        return _weft._repeat(x, int(counts[0]), k)
    return _weft.take(x, np.repeat(np.arange(x.shape[k], dtype=np.int64), counts), k)


def tile(x, repetitions: int | tuple[int, ...], /) -> Array:
    """The whole so many times along each axis."""
    x = _asarray(x)
    counts = _whole_numbers("tile", "repetitions", repetitions)
    rank = max(len(counts), x.ndim)
    x = _weft.reshape(x, (1,) * (rank - x.ndim) + x.shape)
    return _weft._tile(x, [1] * (rank - len(counts)) + list(counts))


# -- making --------------------------------------------------------------------------------------------------------


def arange(start, /, stop=None, step=1, *, dtype=None, device: Device | None = None) -> Array:
    """start, start + step, ... before stop; int32, or float32 when any of them is a float."""
    if stop is None:
        start, stop = 0, start
    return _weft._arange(start, stop, step, dtype, device)


def linspace(start, stop, /, num: int = 50, *, dtype=None, device: Device | None = None, endpoint: bool = True) -> Array:
    """num numbers from start to stop, evenly spaced; of integers the next below. Worked out on the host in float64."""
    num = _whole_number("linspace", "num", num)
    if num < 0:
        raise InvalidArgument(f"linspace: {num} numbers", "give a count from 0 on")
    values = np.linspace(_convert.number(start), _convert.number(stop), num, endpoint=endpoint)
    if dtype is not None and _convert.dtype(dtype).kind in "iu":
        values = np.floor(values)
    return _asarray(values, dtype=_convert.FLOAT32 if dtype is None else dtype, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype=None, device: Device | None = None) -> Array:
    """Ones on the k-th diagonal, zeros elsewhere."""
    n_rows = _whole_number("eye", "n_rows", n_rows)
    columns = n_rows if n_cols is None else _whole_number("eye", "n_cols", n_cols)
    if n_rows < 0 or columns < 0:
        raise InvalidArgument(f"eye: {n_rows} rows and {columns} columns", "use lengths of 0 or more")
    k = max(-n_rows, min(_whole_number("eye", "k", k), columns))  # past the corners there is no diagonal
    row = _weft.reshape(_weft._arange(0, n_rows, 1, None, device), (n_rows, 1))
    return _weft._astype(_weft.equal(row + k, _weft._arange(0, columns, 1, None, device)), dtype or _convert.FLOAT32)


def _like(make):
    def of(x, /, *, dtype=None, device: Device | None = None) -> Array:
        x = _asarray(x)
        return make(x.shape, dtype=x.dtype if dtype is None else dtype, device=x.device if device is None else device)

    of.__name__ = of.__qualname__ = make.__name__ + "_like"
    of.__doc__ = f"weft.{make.__name__} of x's shape, dtype and device, unless others are given."
    return of


zeros_like = _like(_weft.zeros)
ones_like = _like(_weft.ones)
empty_like = _like(_weft.empty)


def full_like(x, /, fill_value, *, dtype=None, device: Device | None = None) -> Array:
    """An array of x's shape, dtype and device, unless others are given, of one number."""
    x = _asarray(x)
    return _weft.full(
        x.shape, fill_value, dtype=x.dtype if dtype is None else dtype, device=x.device if device is None else device
    )


def meshgrid(*arrays, indexing: str = "xy") -> tuple[Array, ...]:
    """Of one-dimensional arrays, grids of their coordinates; views. indexing: "xy" or "ij", as numpy's."""
    made = _convert.asarrays(*arrays)
    if indexing not in ("xy", "ij"):
        raise InvalidArgument(f"meshgrid: indexing is {indexing!r}", "use 'xy' or 'ij'")
    n = len(made)
    out = []
    for k, a in enumerate(made):
        at = 1 - k if indexing == "xy" and n > 1 and k < 2 else k
        out.append(_weft.reshape(a, (1,) * at + (-1,) + (1,) * (n - at - 1)))
    return broadcast_arrays(*out)


# -- elementwise ---------------------------------------------------------------------------------------------------


def _truth(x) -> Array:
    x = _asarray(x)
    return x if x.dtype == _convert.BOOL else _weft._astype(x, _convert.BOOL)


def _truths(*given) -> list[Array]:
    return [_truth(x) for x in _convert.asarrays(*(bool(x) if type(x) in (int, float) else x for x in given))]


def logical_and(x1, x2) -> Array:
    """Whether both are other than 0."""
    return _weft.bitwise_and(*_truths(x1, x2))


def logical_or(x1, x2) -> Array:
    """Whether one of them is other than 0."""
    return _weft.bitwise_or(*_truths(x1, x2))


def logical_xor(x1, x2) -> Array:
    """Whether one of them, and not both, is other than 0."""
    return _weft.bitwise_xor(*_truths(x1, x2))


def _to_float32(x) -> tuple[Array, np.dtype]:
    """What these functions compute in, and the dtype of their result: float16 has too little room between steps, and
    integers wrap."""
    x = _asarray(x)
    return _weft._astype(x, _convert.FLOAT32), _convert.FLOAT16 if x.dtype == _convert.FLOAT16 else _convert.FLOAT32


def _to_float32s(x1, x2):
    """The same for two, of which one may be a number, weak as beside an operator."""
    own = [_convert.held_as(x.dtype) for x in (x1, x2) if isinstance(x, np.floating)]
    both = [x.item() if isinstance(x, np.generic) else x for x in (x1, x2)]
    device = next((x.device for x in both if isinstance(x, Array)), None)
    both = [x if type(x) in (bool, int, float) else _asarray(x, device=device) for x in both]
    if not any(isinstance(x, Array) for x in both):
        both[0] = _asarray(both[0])
    dtypes = [x.dtype for x in both if isinstance(x, Array)] + own
    half = _convert.FLOAT16 in dtypes and all(d in (_convert.FLOAT16, _convert.BOOL) for d in dtypes)
    a, b = (_weft._astype(x, _convert.FLOAT32) if isinstance(x, Array) else float(x) for x in both)
    return a, b, _convert.FLOAT16 if half else _convert.FLOAT32


def _unary_in_float32(f):
    def run(x) -> Array:
        x, dtype = _to_float32(x)
        return _weft._astype(f(x), dtype)

    run.__name__ = run.__qualname__ = f.__name__
    run.__doc__ = f.__doc__
    return run


def _binary_in_float32(f):
    def run(x1, x2) -> Array:
        x1, x2, dtype = _to_float32s(x1, x2)
        return _weft._astype(f(x1, x2), dtype)

    run.__name__ = run.__qualname__ = f.__name__
    run.__doc__ = f.__doc__
    return run


def _below_zero(x) -> Array:
    """Of float32, a zero's sign too."""
    return _weft.less(_weft.where(_weft.equal(x, 0), _weft.reciprocal(x), x), 0)


def _with_sign(size, x) -> Array:
    return _weft.where(_below_zero(x), -size, size)


@_binary_in_float32
def logaddexp(x1, x2):
    """log(exp(x1) + exp(x2)), without overflow."""
    high, low = _weft.maximum(x1, x2), _weft.minimum(x1, x2)
    # Of two equal infinities the difference would be NaN.
    gap = _weft.where(_weft.equal(high, low), 0.0, low - high)
    return high + _weft.log1p(_weft.exp(gap))


@_unary_in_float32
def sinh(x):
    """Hyperbolic sine."""
    size = _weft.abs(x)
    grown = _weft.expm1(_weft.minimum(size, 20.0))
    small = 0.5 * (grown + grown / (grown + 1.0))
    root = _weft.exp(0.5 * size)  # its square may be twice the largest float
    return _with_sign(_weft.where(_weft.greater(size, 20.0), 0.5 * root * root, small), x)


@_unary_in_float32
def cosh(x):
    """Hyperbolic cosine."""
    root = _weft.exp(0.5 * _weft.abs(x))
    half = 0.5 * root * root
    return half + 0.25 / half


@_unary_in_float32
def asin(x):
    """Arcsine; NaN outside of -1 to 1."""
    return _weft.atan2(x, _weft.sqrt((1.0 - x) * (1.0 + x)))


@_unary_in_float32
def acos(x):
    """Arccosine; NaN outside of -1 to 1."""
    return _weft.atan2(_weft.sqrt((1.0 - x) * (1.0 + x)), x)


@_unary_in_float32
def atan(x):
    """Arctangent."""
    return _weft.atan2(x, 1.0)


@_unary_in_float32
def asinh(x):
    """Inverse hyperbolic sine."""
    size = _weft.abs(x)
    # Past 1e9 the 1 below the root is gone, and the square would overflow.
    small = _weft.minimum(size, 1e9)
    exact = _weft.log1p(small + small * small / (1.0 + _weft.sqrt(1.0 + small * small)))
    return _with_sign(_weft.where(_weft.greater(size, 1e9), _weft.log(size) + math.log(2), exact), x)


@_unary_in_float32
def acosh(x):
    """Inverse hyperbolic cosine; NaN below 1."""
    small = _weft.clip(x, -1.0, 1e9) - 1.0  # below 1, and so NaN, wherever x is
    exact = _weft.log1p(small + _weft.sqrt(small * (small + 2.0)))
    return _weft.where(_weft.greater(x, 1e9), _weft.log(x) + math.log(2), _weft.where(_weft.less(x, 1), math.nan, exact))


@_unary_in_float32
def atanh(x):
    """Inverse hyperbolic tangent."""
    size = _weft.abs(x)
    return _with_sign(0.5 * _weft.log1p(2.0 * size / (1.0 - size)), x)


@_unary_in_float32
def log10(x):
    """Logarithm to base 10."""
    return _weft.log(x) * (1 / math.log(10))


@_binary_in_float32
def hypot(x1, x2):
    """sqrt(x1^2 + x2^2), the larger taken out first."""
    a, b = _weft.abs(x1), _weft.abs(x2)
    high, low = _weft.maximum(a, b), _weft.minimum(a, b)
    plain = _weft.logical_not(_weft.isfinite(high)) | (high == 0)
    ratio = _weft.where(plain, 0.0, low / high)
    infinite = _weft.isinf(a) | _weft.isinf(b)
    return _weft.where(infinite, math.inf, high * _weft.sqrt(1.0 + ratio * ratio))


@_binary_in_float32
def copysign(x1, x2):
    """The size of x1 with the sign of x2, a zero's too. Integers give float32."""
    return _with_sign(_weft.abs(x1), x2)


def signbit(x) -> Array:
    """Whether the sign is a minus, a zero's too."""
    return _below_zero(_to_float32(x)[0])


# -- products ------------------------------------------------------------------------------------------------------


def count_nonzero(x, /, *, axis=None, keepdims: bool = False) -> Array:
    """How many elements are other than 0, over these axes or all."""
    return _weft.sum(_truth(x), axis, keepdims)


def trace(x, /, *, offset: int = 0, dtype=None) -> Array:
    """The sum of a diagonal of the last two axes."""
    return _weft.sum(diagonal(x, offset=offset), -1, dtype=dtype)


def diagonal(x, /, *, offset: int = 0) -> Array:
    """Of the last two axes, as a last axis."""
    x = _asarray(x)
    if x.ndim < 2:
        raise InvalidArgument(f"diagonal of an array of {x.ndim} axes", "give at least 2")
    rows, columns = x.shape[-2:]
    first_row, first_column = (0, offset) if offset >= 0 else (-offset, 0)
    count = max(0, min(rows - first_row, columns - first_column))
    flat = _weft.reshape(x, (*x.shape[:-2], rows * columns))
    if count == 0:
        return _weft._slice(flat, -1, 0, 0, 1)
    start = first_row * columns + first_column
    return _weft._slice(flat, -1, start, start + (count - 1) * (columns + 1) + 1, columns + 1)


def cross(x1, x2, /, *, axis: int = -1) -> Array:
    """The cross product of vectors of 3 along an axis."""
    a, b = broadcast_arrays(x1, x2)
    k = _axis("cross", axis, a.ndim)
    if a.shape[k] != 3:
        raise InvalidArgument(f"cross: axis {k} has length {a.shape[k]}", "give vectors of 3")
    a0, a1, a2 = unstack(a, axis=k)
    b0, b1, b2 = unstack(b, axis=k)
    return _weft.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], k)


def matrix_norm(x, /, *, keepdims: bool = False) -> Array:
    """Frobenius' norm of the last two axes."""
    return _weft.vector_norm(x, axis=(-2, -1), keepdims=keepdims)


def vecdot(x1, x2, /, *, axis: int = -1) -> Array:
    """Products of vectors along an axis, summed."""
    return _weft.sum(_weft.multiply(x1, x2), axis)


def outer(x1, x2) -> Array:
    """Each element of x1 times each of x2, both flattened."""
    a, b = _convert.asarrays(x1, x2)
    return _weft.multiply(_weft.reshape(a, (-1, 1)), _weft.reshape(b, (1, -1)))


def tensordot(x1, x2, /, *, axes=2) -> Array:
    """numpy.tensordot: sums over `axes` axes at the end of x1 and the start of x2, or over two lists of axes."""
    a, b = _convert.asarrays(x1, x2)
    if hasattr(axes, "__len__"):
        if len(axes) != 2:
            raise InvalidArgument(f"tensordot: axes={axes!r}", "give a number of axes, or those of x1 and those of x2")
        left, right = _axes("tensordot", axes[0], a.ndim), _axes("tensordot", axes[1], b.ndim)
    else:
        count = _whole_number("tensordot", "axes", axes)
        left, right = list(range(a.ndim - count, a.ndim)), list(range(count))
        if not 0 <= count <= min(a.ndim, b.ndim):
            raise InvalidArgument(f"tensordot: axes={count} for arrays of {a.ndim} and {b.ndim} axes", "sum over fewer")
    if [a.shape[k] for k in left] != [b.shape[k] for k in right]:
        raise InvalidArgument(f"tensordot: {a.shape} and {b.shape} differ on the axes summed", "make them equal")
    keep_a = [k for k in range(a.ndim) if k not in left]
    keep_b = [k for k in range(b.ndim) if k not in right]
    inner = math.prod(a.shape[k] for k in left)
    rows = _weft.reshape(_weft.permute_dims(a, (*keep_a, *left)) if a.ndim else a, (math.prod(a.shape[k] for k in keep_a), inner))
    columns = _weft.reshape(
        _weft.permute_dims(b, (*right, *keep_b)) if b.ndim else b, (inner, math.prod(b.shape[k] for k in keep_b))
    )
    return _weft.reshape(_weft.matmul(rows, columns), (*(a.shape[k] for k in keep_a), *(b.shape[k] for k in keep_b)))


# -- einsum --------------------------------------------------------------------------------------------------------

_EINSUM_FIX = "write letters for the axes of each array, a comma between arrays, and '->' with those of the result"


def _einsum_terms(subscripts: str, ranks: list[int]) -> tuple[list[list[str]], list[str]]:
    """The labels of each array's axes and of the result's. Axes of an Ellipsis are labelled 0, 1, ... from the end."""
    text = subscripts.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ranks):
        raise InvalidArgument(
            f"einsum: '{subscripts}' names {len(terms)} arrays, and {len(ranks)} are given", _EINSUM_FIX
        )
    most = 0
    labels = []
    for term, rank in zip(terms, ranks):
        before, dots, after = term.partition("...")
        wild = rank - len(before) - len(after)
        if not all(c.isascii() and c.isalpha() for c in before + after) or wild < 0 or (wild and not dots):
            raise InvalidArgument(f"einsum: '{term}' in '{subscripts}' for an array of {rank} axes", _EINSUM_FIX)
        most = max(most, wild)
        labels.append([*before, *(str(i) for i in reversed(range(wild))), *after])
    stretched = [str(i) for i in reversed(range(most))]
    if not arrow:
        every = [c for term in labels for c in term]
        return labels, stretched + sorted(c for c in set(every) if c.isalpha() and every.count(c) == 1)
    before, dots, after = output.partition("...")
    result = [*before, *(stretched if dots else []), *after]
    known = {c for term in labels for c in term}
    if len(set(result)) != len(result) or not set(result) <= known or (most and not dots):
        raise InvalidArgument(
            f"einsum: the result '{output}' of '{subscripts}'",
            "name axes that the arrays have, each once, and '...' if they have it",
        )
    return labels, result


def _with_axes(x: Array, labels: list[str], wanted: list[str]) -> Array:
    """Axes in this order, with new ones of length 1 for labels that x lacks."""
    x = _weft.permute_dims(x, tuple(labels.index(c) for c in wanted if c in labels)) if x.ndim else x
    lengths = iter(x.shape)
    return _weft.reshape(x, tuple(next(lengths) if c in labels else 1 for c in wanted))


def _contract(a: Array, in_a: list[str], b: Array, in_b: list[str], kept: set[str]) -> tuple[Array, list[str]]:
    batch = [c for c in in_a if c in in_b and c in kept]
    inner = [c for c in in_a if c in in_b and c not in kept]
    left, right = [c for c in in_a if c not in in_b], [c for c in in_b if c not in in_a]
    labels = batch + left + right
    if not inner:
        return _weft.multiply(_with_axes(a, in_a, labels), _with_axes(b, in_b, labels)), labels
    size = {**dict(zip(in_a, a.shape)), **dict(zip(in_b, b.shape))}

    def matrices(x, own, rows, columns):
        x = _with_axes(x, own, batch + rows + columns)
        return _weft.reshape(x, tuple(math.prod(size[c] for c in part) for part in (batch, rows, columns)))

    out = _weft.matmul(matrices(a, in_a, left, inner), matrices(b, in_b, inner, right))
    return _weft.reshape(out, tuple(size[c] for c in labels)), labels


def einsum(subscripts: str, *operands) -> Array:
    """numpy.einsum of a string: sums of products over the axes that the result lacks, with matrix products, from left
    to right. Repeated letters are diagonals; "..." broadcasts."""
    if not isinstance(subscripts, str) or not operands:
        raise InvalidArgument("einsum: no string and arrays given", "call einsum('ij,jk->ik', a, b)")
    arrays = _convert.asarrays(*operands)
    terms, result = _einsum_terms(subscripts, [x.ndim for x in arrays])
    sizes: dict[str, int] = {}
    for x, term in zip(arrays, terms):
        own: dict[str, int] = {}
        for c, n in zip(term, x.shape):
            if own.setdefault(c, n) != n:
                raise InvalidArgument(
                    f"einsum: axis '{c}' of '{subscripts}' has lengths {own[c]} and {n} in one array of shape {x.shape}",
                    "make them equal: a diagonal runs along both",
                )
            if sizes.setdefault(c, n) != n and 1 not in (n, sizes[c]):
                raise InvalidArgument(
                    f"einsum: axis '{c}' of '{subscripts}' has lengths {sizes[c]} and {n}", "make them equal"
                )
            sizes[c] = n if sizes[c] == 1 else sizes[c]
    parts: list[tuple[Array, list[str]]] = []
    for x, term in zip(arrays, terms):
        # An axis of length 1 where others have more is no axis; a label twice is a diagonal.
        keep = [n == sizes[c] for c, n in zip(term, x.shape)]
        x = x[tuple(slice(None) if k else 0 for k in keep)]
        term = [c for c, k in zip(term, keep) if k]
        for c in set(term):
            while term.count(c) > 1:
                i = term.index(c)
                j = term.index(c, i + 1)
                x = diagonal(moveaxis(x, (i, j), (-2, -1)))
                term = term[:i] + term[i + 1 : j] + term[j + 1 :] + [c]
        parts.append((x, term))
    while True:
        # Of the first array, what no other and not the result has is summed now.
        x, term = parts[0]
        later = set(result).union(*(t for _, t in parts[1:]))
        alone = tuple(k for k, c in enumerate(term) if c not in later)
        if alone:
            x = _weft.any(x, alone) if x.dtype == _convert.BOOL else _weft.sum(x, alone)
            term = [c for c in term if c in later]
        if len(parts) == 1:
            break
        y, others = parts[1]
        kept = set(result).union(*(t for _, t in parts[2:]))
        alone = tuple(k for k, c in enumerate(others) if c not in kept and c not in term)
        if alone:
            y = _weft.any(y, alone) if y.dtype == _convert.BOOL else _weft.sum(y, alone)
            others = [c for k, c in enumerate(others) if k not in alone]
        parts[:2] = [_contract(x, term, y, others, kept)]
    return _with_axes(x, term, result)
