"""Indexing with arrays: x[i], x[:, i, j], x[mask]. Whole numbers, slices, None and Ellipsis alone are done in C++."""

from __future__ import annotations

import operator

import numpy as np

from weft import _weft
from weft._errors import DTypeError, InvalidArgument, OutOfRange
from weft._weft import Array


def get_item(x: Array, key) -> Array:
    items = list(key) if isinstance(key, tuple) else [key]
    items = [_item(i) for i in items]
    masks = [i for i in items if isinstance(i, (Array, np.ndarray)) and i.dtype == np.bool_]
    if masks:
        return _by_mask(x, items)
    if not any(isinstance(i, (Array, np.ndarray)) for i in items):
        return x[tuple(items)]
    return _by_arrays(x, items)


def _item(item):
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, Array):
        if item.dtype.kind == "f":
            raise DTypeError(f"an index is an array of {item.dtype}", "use integers or bools")
        return item
    if isinstance(item, (bool, np.bool_)):
        raise InvalidArgument(f"{item} as an index", "use an array of bools, or None for a new axis")
    if isinstance(item, np.ndarray) or isinstance(item, (list, tuple)):
        array = np.asarray(item)
        if array.size == 0 and isinstance(item, (list, tuple)):
            array = array.astype(np.int32)
        if array.dtype.kind not in "iub":
            raise DTypeError(f"an index is an array of {array.dtype}", "use integers or bools")
        return array
    try:
        return operator.index(item)
    except TypeError:
        raise DTypeError(
            f"an index is {type(item).__name__}", "use whole numbers, slices, None, ..., or arrays of integers or bools"
        ) from None


def _is_mask(item) -> bool:
    return isinstance(item, (Array, np.ndarray)) and item.dtype == np.bool_


def _axes_of(item) -> int:
    """How many axes of the array an item stands for."""
    if item is None or item is Ellipsis:
        return 0
    return item.ndim if _is_mask(item) else 1


def _left_over(x: Array, items: list) -> int:
    """The axes that no item names: Ellipsis stands for them."""
    used = sum(_axes_of(i) for i in items)
    if used > x.ndim:
        raise OutOfRange(f"{used} indices for an array of {x.ndim} axes {x.shape}", f"give at most {x.ndim}")
    if sum(i is Ellipsis for i in items) > 1:
        raise OutOfRange("an index has two ellipses (...)", "keep one of them")
    return x.ndim - used


def _by_mask(x: Array, items: list) -> Array:
    """The number of elements depends on the mask's values: it is read, and its places are taken."""
    left_over = _left_over(x, items)
    out = []
    axis = 0
    for i in items:
        if not _is_mask(i):
            out.append(i)
            axis += left_over if i is Ellipsis else _axes_of(i)
            continue
        mask = i.numpy() if isinstance(i, Array) else i
        if mask.ndim == 0:
            # numpy: a new axis, of length 1 or 0.
            x = x[(slice(None),) * axis + (None,)]
            out.append(np.zeros(int(mask), np.int64))
            axis += 1
            continue
        if mask.shape != x.shape[axis : axis + mask.ndim]:
            raise OutOfRange(
                f"a mask of shape {mask.shape} on axes of shape {x.shape[axis : axis + mask.ndim]}",
                "give the mask the lengths of the axes that it stands for",
            )
        out += list(np.nonzero(mask))
        axis += mask.ndim
    return _by_arrays(x, out)


def _is_advanced(item) -> bool:
    return isinstance(item, (int, Array, np.ndarray))


def _by_arrays(x: Array, items: list) -> Array:
    # numpy: whole numbers beside arrays are arrays too, and when the arrays do not stand side by side (an Ellipsis for
    # no axes parts them too) the axes that they make come first.
    places = [k for k, i in enumerate(items) if _is_advanced(i)]
    together = places[-1] - places[0] + 1 == len(places)
    left_over = _left_over(x, items)
    at = next((k for k, i in enumerate(items) if i is Ellipsis), len(items))
    items = items[:at] + [slice(None)] * left_over + items[at + 1 :]
    advanced = [k for k, i in enumerate(items) if _is_advanced(i)]
    # All else first: a slice in the place of each array.
    x = x[tuple(slice(None) if k in advanced else i for k, i in enumerate(items))]
    first = advanced[0]  # an axis of x, as each item now stands for one axis
    if len(advanced) == 1 and isinstance(items[first], Array):
        return _weft.take(x, items[first], first)
    arrays = [_whole(items[k].numpy() if isinstance(items[k], Array) else items[k]) for k in advanced]
    lengths = [x.shape[k] for k in advanced]
    for index, length, k in zip(arrays, lengths, advanced):
        bad = (index < -length) | (index >= length)
        if bad.any():
            raise OutOfRange(
                f"index {index[bad].flat[0]} is out of range for axis {k} of length {length}",
                f"use indices from {-length} to {length - 1}" if length else "leave the index out: the axis is empty",
            )
    try:
        arrays = list(np.broadcast_arrays(*arrays))
    except ValueError:
        shapes = " and ".join(str(a.shape) for a in arrays)
        raise InvalidArgument(f"index arrays of shapes {shapes} do not broadcast", "give them one shape") from None
    flat = np.zeros(arrays[0].shape, np.int64)
    for index, length in zip(arrays, lengths):
        flat = flat * length + np.where(index < 0, index + length, index)
    if together:
        # The indexed axes lie side by side: they become one.
        merged = _weft.reshape(x, x.shape[:first] + (_product(lengths),) + x.shape[first + len(advanced) :])
        return _weft.take(merged, flat, first)
    rest = [k for k in range(x.ndim) if k not in advanced]
    moved = _weft.permute_dims(x, (*advanced, *rest))
    merged = _weft.reshape(moved, (_product(lengths), *(x.shape[k] for k in rest)))
    return _weft.take(merged, flat, 0)


def _whole(index) -> np.ndarray:
    """As int64, in which places are counted; what is past its end stays out of range."""
    index = np.asarray(index)
    if index.dtype == np.uint64:
        index = np.minimum(index, np.uint64(2**63 - 1))
    return index.astype(np.int64)


def _product(lengths) -> int:
    out = 1
    for n in lengths:
        out *= n
    return out
