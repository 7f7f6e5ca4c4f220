"""Objects of Python's and numpy's to arrays, and back.

What has no dtype of ours is converted on the host: float64 (and longdouble) to float32, int64 to int32, uint64 to
uint32, each with a check that every value fits; int8 and int16 to int32, uint8 and uint16 to uint32, bfloat16 to
float32, which always fit. Complex numbers, strings, dates and objects are refused.
"""

from __future__ import annotations

import numpy as np

from weft import _weft
from weft._errors import DTypeError, InvalidArgument, OutOfMemory, OutOfRange
from weft._weft import Array, Device

BOOL = np.dtype("bool")
INT32 = np.dtype("int32")
UINT32 = np.dtype("uint32")
FLOAT16 = np.dtype("float16")
FLOAT32 = np.dtype("float32")
DTYPES: tuple[np.dtype, ...] = (BOOL, INT32, UINT32, FLOAT16, FLOAT32)

_NAMES: dict[str, np.dtype] = {"i32": INT32, "u32": UINT32, "f16": FLOAT16, "f32": FLOAT32, "?": BOOL}
# Python's own types mean the widest that there is, as in numpy.
_PYTHON: dict[type, np.dtype] = {bool: BOOL, int: INT32, float: FLOAT32}
_LISTED = "bool, int32, uint32, float16 or float32"


def dtype(given) -> np.dtype:
    """The dtype that a name, numpy's object or Python's type means; one of the five."""
    if isinstance(given, type) and given in _PYTHON:
        return _PYTHON[given]
    if isinstance(given, str) and given in _NAMES:
        return _NAMES[given]
    try:
        found = np.dtype(given)
    except (TypeError, ValueError):
        raise DTypeError(f"{given!r} names no dtype", f"use {_LISTED}") from None
    found = found.newbyteorder("=")
    for known in DTYPES:
        if found == known:
            return known
    raise DTypeError(f"there are no arrays of {found}", f"use {_LISTED}")


def held_as(given: np.dtype) -> np.dtype:
    """The dtype that an array of numpy's is held in."""
    native = given.newbyteorder("=")
    for known in DTYPES:
        if native == known:
            return known
    if native.name == "bfloat16":
        return FLOAT32
    if native.kind in "iuf" and native.fields is None:
        return {"i": INT32, "u": UINT32, "f": FLOAT32}[native.kind]
    fix = {
        "c": "pass the real and imaginary parts as a last axis of two",
        "O": "make a numpy array of numbers first; rows of a list must have one length",
        "M": "subtract a date and divide by a unit first",
        "m": "divide by a unit first",
    }.get(native.kind, "make a numpy array of numbers first")
    raise DTypeError(f"there are no arrays of {given}", fix)


def _refuse(values: np.ndarray, bad: np.ndarray, target: np.dtype) -> None:
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    place = f" at {at[0] if len(at) == 1 else at}" if at else ""
    hint = "scale the values" if target.kind == "f" else "clip the values, or pass dtype='float32'"
    raise OutOfRange(f"the {values.dtype} value {values[at]!s}{place} does not fit {target}", hint)


def converted(values: np.ndarray, target: np.dtype) -> np.ndarray:
    """The values as `target`; refuses one that does not fit, with its place."""
    source = values.dtype
    if source == target or target == BOOL or values.size == 0:
        return values.astype(target, copy=False)
    if source.name == "bfloat16":
        values = values.astype(np.float32)
        source = values.dtype
    if target.kind in "iu":
        info = np.iinfo(target)
        if source.kind == "f":
            # Truncation first: -0.5 fits unsigned integers. NaN fails both comparisons.
            whole = np.trunc(values)
            ok = (whole >= info.min) & (whole < np.float64(info.max) + 1)
            if not ok.all():
                _refuse(values, ~ok, target)
        elif source.kind in "iu":
            # As Python numbers: an unsigned 64-bit array doesn't compare with a negative one.
            if int(values.min()) < info.min or int(values.max()) > info.max:
                low = np.zeros(values.shape, bool) if source.kind == "u" else values < info.min
                _refuse(values, low | (values > source.type(min(info.max, np.iinfo(source).max))), target)
        return values.astype(target)
    with np.errstate(over="ignore", under="ignore"):
        out = values.astype(target)
    overflowed = ~np.isfinite(out)
    if overflowed.any():
        overflowed &= np.isfinite(values) if source.kind == "f" else True
        if overflowed.any():
            _refuse(values, overflowed, target)
    return out


def asarray(obj, dtype=None, device: Device | None = None, copy: bool | None = None) -> Array:
    """An Array of what numpy makes an array of: numbers, nested lists, numpy arrays in any strides and byte order,
    whatever has __array__ or __dlpack__ (PyTorch's CPU tensors).

    Values are copied to the device. What has no dtype of Weft's is converted (float64 to float32, int64 to int32) and
    refused with its place when a value does not fit. An Array is given back as it is, if dtype and device agree;
    copy=True makes a new one, copy=False refuses to make one.
    """
    wanted = None if dtype is None else _dtype(dtype)
    if isinstance(obj, Array):
        return _of_array(obj, wanted, device, copy)
    if copy is False:
        raise InvalidArgument("asarray: copy=False, and values must be copied to the device", "leave copy out")
    values = _host_array(obj)
    natural = held_as(values.dtype)
    target = natural if wanted is None else wanted
    try:
        values = converted(values, target)
        # C-contiguous and of this machine's byte order: what the upload takes.
        values = np.ascontiguousarray(values, dtype=target).reshape(values.shape)
    except MemoryError:
        raise OutOfMemory(
            f"asarray: numpy has no room for a dense copy of {values.size * target.itemsize} bytes, of shape {values.shape}",
            "upload parts of it, or broadcast on the device (weft.broadcast_to)",
        ) from None
    return _weft._upload(values, values.shape, target, device)


_dtype = dtype


def _of_array(x: Array, wanted, device, copy) -> Array:
    if device is not None and device != x.device:
        if copy is False:
            raise InvalidArgument("asarray: copy=False, and the array is on another device", "leave copy out")
        return asarray(x.numpy(), wanted, device)
    if wanted is not None and wanted != x.dtype:
        if copy is False:
            raise InvalidArgument(f"asarray: copy=False, and the array is {x.dtype}, not {wanted}", "leave copy out")
        return _weft._astype(x, wanted)
    return duplicate(x) if copy else x


def duplicate(x: Array) -> Array:
    """New memory with the same elements."""
    return _weft.concat([x]) if x.ndim else _weft.concat([x[None]])[0]


def asarrays(*given) -> list[Array]:
    """What is no Array goes to the device of the first one, else to the default device."""
    device = next((x.device for x in given if isinstance(x, Array)), None)
    return [x if isinstance(x, Array) else asarray(x, device=device) for x in given]


def _host_array(obj) -> np.ndarray:
    if isinstance(obj, np.ma.MaskedArray):
        raise DTypeError("masked arrays have no counterpart", "fill the masked elements first: x.filled(0)")
    if isinstance(obj, np.ndarray):
        return obj
    if not hasattr(obj, "__array__") and hasattr(obj, "__dlpack__"):
        return _by_dlpack(obj)
    if isinstance(obj, (list, tuple)):
        obj = _without_arrays(obj)
    try:
        values = np.asarray(obj)
    except ValueError as e:  # rows of different lengths
        raise InvalidArgument(f"asarray: numpy makes no array of it: {e}", "make the rows equally long") from None
    if values.dtype == object and any(type(i) is int for i in values.flat):
        too_large = [i for i in values.flat if type(i) is int and not -(2**63) <= i < 2**64]
        if too_large:
            raise OutOfRange(f"the number {str(too_large[0])[:40]} does not fit 64 bits", "use a smaller number, or a float")
    if isinstance(obj, (list, tuple)) and values.size == 0 and values.dtype == np.float64:
        return values.astype(np.float32)
    return values


def _without_arrays(items):
    """Lists may hold Arrays (of no axes, mostly): numpy would walk through them an element at a time. And of masked
    arrays in a list it would show what is masked."""
    if any(isinstance(i, (Array, list, tuple, np.ma.MaskedArray)) for i in items):
        return [_item_without_arrays(i) for i in items]
    return items


def _item_without_arrays(item):
    if isinstance(item, Array):
        return item.numpy()
    if isinstance(item, np.ma.MaskedArray):
        raise DTypeError("masked arrays have no counterpart", "fill the masked elements first: x.filled(0)")
    return _without_arrays(item) if isinstance(item, (list, tuple)) else item


def _by_dlpack(obj) -> np.ndarray:
    try:
        return np.from_dlpack(obj)
    except (BufferError, RuntimeError, TypeError, ValueError) as e:
        raise DTypeError(f"from_dlpack: {type(obj).__name__} does not give its memory to the host: {e}",
                         "move it to the CPU first") from e


def from_dlpack(x, /, *, device: Device | None = None, copy: bool | None = None) -> Array:
    """An Array of what has __dlpack__ on the CPU; read where it is, then copied to the device."""
    if isinstance(x, Array):
        return _of_array(x, None, device, copy)
    if not hasattr(x, "__dlpack__"):
        raise DTypeError(f"from_dlpack: {type(x).__name__} has no __dlpack__", "use weft.asarray")
    if copy is False:
        raise BufferError("weft: from_dlpack with copy=False: values must be copied to the device. Fix: leave copy out.")
    # numpy's own DLPack refuses other byte orders.
    return asarray(x if isinstance(x, np.ndarray) else _by_dlpack(x), device=device)


def operand(obj, device: Device | None = None):
    """What stands beside an Array in an operator: for C++. NotImplemented lets Python ask the other side."""
    if isinstance(obj, np.generic):
        held_as(obj.dtype)
        return obj.item()  # weak, as Python's numbers are; lazy.h has what floats keep
    if isinstance(obj, (np.ndarray, list, tuple, range, memoryview)) or hasattr(obj, "__dlpack__"):
        return asarray(obj, device=device)
    if not isinstance(obj, type) and (hasattr(obj, "__array__") or hasattr(obj, "__array_interface__")):
        # As numpy: whoever has a higher priority answers himself.
        if getattr(obj, "__array_ufunc__", True) is None or getattr(obj, "__array_priority__", 0) > Array.__array_priority__:
            return NotImplemented
        return asarray(obj, device=device)
    return NotImplemented


def number(obj):
    """A Python number of one of numpy's, or of an array of no axes."""
    if isinstance(obj, (np.generic, np.ndarray, Array)) and obj.ndim == 0:
        return obj.item()
    return obj
