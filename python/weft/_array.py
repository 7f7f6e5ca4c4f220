"""Methods of weft.Array that need no C++ of their own."""

from __future__ import annotations

import numpy as np

import weft._types
from weft import _convert, _functions, _weft
from weft._errors import InvalidArgument
from weft._weft import Array, Device

_EDGE = 3  # elements that repr shows at each end of a long axis


def __array__(self, dtype=None, copy=None) -> weft._types.NumpyArray:
    if copy is False:
        raise ValueError(
            "weft: an array's memory is the device's, and copy=False asks for none to be made. Fix: leave copy out."
        )
    values = self.numpy()
    return values if dtype is None else values.astype(dtype, copy=False)


def __array_namespace__(self, *, api_version: str | None = None):
    import weft

    if api_version is not None and api_version not in ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12"):
        raise InvalidArgument(f"there is no version {api_version!r} of the array API here", "use '2024.12'")
    return weft


def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    """The elements in host memory, in a copy. DLPack's own type for WebGPU names memory that no other library here
    takes."""
    if stream is not None:
        raise ValueError("weft: __dlpack__ to the host takes no stream. Fix: leave stream out.")
    if dl_device is not None and tuple(dl_device) != (1, 0):
        raise BufferError(f"weft: __dlpack__ exports to the CPU, (1, 0), not to {tuple(dl_device)}. Fix: leave it out.")
    if copy is False:
        raise BufferError("weft: __dlpack__ copies from the device. Fix: leave copy=False out.")
    values = self.numpy()
    return values.__dlpack__() if max_version is None else values.__dlpack__(max_version=max_version)


def __dlpack_device__(self) -> tuple[int, int]:
    return (1, 0)  # kDLCPU


def _one(self, kind: str):
    if self.size != 1:
        raise InvalidArgument(
            f"{kind} of an array of {self.size} elements {self.shape}",
            "use .any() or .all()" if kind == "bool()" else "take one element first",
        )
    return self.numpy().reshape(()).item()


def item(self):
    """The one element as a Python number."""
    return _one(self, "item()")


def __bool__(self) -> bool:
    return bool(_one(self, "bool()"))


def __int__(self) -> int:
    return int(_one(self, "int()"))


def __float__(self) -> float:
    return float(_one(self, "float()"))


def __complex__(self) -> complex:
    return complex(_one(self, "complex()"))


def __index__(self) -> int:
    if self.ndim != 0 or self.dtype.kind not in "iu":
        raise TypeError(
            f"weft: only integer arrays of no axes stand for an index, not {self.dtype} of shape {self.shape}. "
            "Fix: use int(x)."
        )
    return int(self.numpy())


def __iter__(self):
    if self.ndim == 0:
        raise TypeError("weft: iteration over an array of no axes. Fix: use x.item().")
    return (self[i] for i in range(self.shape[0]))


def __contains__(self, value) -> bool:
    same = self == value
    return bool(same.any()) if isinstance(same, Array) else False  # what is no number is in no array


def __divmod__(self, other) -> tuple[Array, Array]:
    return self // other, self % other


def __rdivmod__(self, other) -> tuple[Array, Array]:
    return other // self, other % self


def __round__(self, ndigits: int | None = None):
    """Of an array of no axes, as of a number; of others each element, to whole numbers."""
    if self.ndim == 0:
        return round(self.item(), ndigits)
    if ndigits:
        raise InvalidArgument(f"round() of an array to {ndigits} digits", "round to whole numbers, or x.numpy()")
    return _weft.round(self)


def __trunc__(self) -> int:
    return int(_one(self, "trunc()"))


def __format__(self, spec: str) -> str:
    """Of an array of no axes, as of its number."""
    if not spec:
        return str(self)
    if self.ndim == 0:
        return format(self.item(), spec)
    raise TypeError(f"weft: the format {spec!r} of an array of shape {self.shape}. Fix: format x.item() or x.numpy().")


def __copy__(self) -> Array:
    return self.copy()


def __deepcopy__(self, memo) -> Array:
    return self.copy()


def __reduce__(self):
    """Pickled by value; it comes back on the default device."""
    return _convert.asarray, (self.numpy(),)


def __setitem__(self, key, value):
    raise TypeError(
        "weft: arrays never change, so x[...] = value is not there. "
        "Fix: make a new one, with weft.where(mask, value, x) or weft.concat."
    )


def __delitem__(self, key):
    raise TypeError(
        "weft: arrays never change, so del x[...] is not there. Fix: make a new one, with an index or weft.concat."
    )


def tolist(self) -> list:
    """Nested lists of Python's numbers; of no axes, one number."""
    return self.numpy().tolist()


def _shown(self) -> tuple[np.ndarray, bool]:
    """What repr prints; of a large array only the ends of each axis are read."""
    if self.size <= np.get_printoptions()["threshold"]:
        return self.numpy(), False
    return _ends(self, 0).numpy(), True


def _ends(x: Array, axis: int) -> Array:
    """Of each axis from this one on the ends that are shown, and one element more, so that numpy prints the dots. Views
    are cut before they are joined: what lies between is never copied."""
    if axis == x.ndim:
        return x
    n = x.shape[axis]
    if n <= 2 * _EDGE + 1:
        return _ends(x, axis + 1)
    parts = [_weft._slice(x, axis, 0, _EDGE + 1, 1), _weft._slice(x, axis, n - _EDGE, n, 1)]
    return _weft.concat([_ends(part, axis + 1) for part in parts], axis)


def _text(self, separator: str, prefix: str = "") -> str:
    values, cut = _shown(self)
    if cut:
        return np.array2string(values, separator=separator, prefix=prefix, threshold=0, edgeitems=_EDGE)
    return np.array2string(values, separator=separator, prefix=prefix)


def __repr__(self) -> str:
    prefix = "weft.Array("
    if not _weft._is_readable(self):  # weft.jit
        return f"{prefix}not known outside of its run, shape={self.shape}, dtype={self.dtype})"
    if self.size == 0:
        return f"{prefix}[], shape={self.shape}, dtype={self.dtype})"
    values = _text(self, ", ", prefix)
    return f"{prefix}{values}, dtype={self.dtype})"


def __str__(self) -> str:
    if not _weft._is_readable(self):
        return repr(self)
    return _text(self, " ") if self.ndim else str(self.numpy())


def astype(self, dtype, copy: bool = True) -> Array:
    """Another dtype, as numpy casts: towards zero and, unlike numpy, to the nearest end when out of range."""
    return _functions.astype(self, dtype, copy=copy)


def to_device(self, device: Device, /, *, stream=None) -> Array:
    """The array on another device, by way of the host; itself where it is there."""
    return _convert.asarray(self, device=device)


def reshape(self, *shape, copy: bool | None = None) -> Array:
    """weft.reshape of this array; lengths in a tuple or one by one."""
    return _functions.reshape(self, shape[0] if len(shape) == 1 else shape, copy=copy)


def transpose(self, *axes) -> Array:
    """Axes in this order, or all reversed; a view."""
    if not axes or axes == (None,):
        return self.T
    return _weft.permute_dims(self, axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes)


def flatten(self) -> Array:
    """One axis; a view where the strides allow it."""
    return _weft.reshape(self, (-1,))


def copy(self) -> Array:
    """The same elements in new memory."""
    return _convert.duplicate(self)


def squeeze(self, axis=None) -> Array:
    """weft.squeeze of this array."""
    return _functions.squeeze(self, axis)


def _no_out(out) -> None:
    if out is not None:
        raise InvalidArgument("out: arrays never change", "leave out away, and take what is returned")


def _reduction(name: str):
    function = getattr(_weft, name)

    def plain(self, axis=None, keepdims: bool = False, *, out=None) -> Array:
        _no_out(out)  # numpy's functions pass it: np.max(x)
        return function(self, axis, keepdims)

    def adding(self, axis=None, keepdims: bool = False, *, dtype=None, out=None) -> Array:
        _no_out(out)
        return function(self, axis, keepdims, dtype=dtype)

    method = adding if name in ("sum", "mean", "prod") else plain
    method.__name__ = name
    method.__doc__ = f"weft.{name} of this array."
    return method


def _spread(name: str):
    function = getattr(_weft, name)

    def method(
        self, axis=None, *, correction: float = 0, keepdims: bool = False, ddof: float | None = None, dtype=None, out=None
    ) -> Array:
        _no_out(out)
        x = self if dtype is None else astype(self, dtype, copy=False)
        return function(x, axis, correction=correction if ddof is None else ddof, keepdims=keepdims)

    method.__name__ = name
    method.__doc__ = f"weft.{name} of this array; ddof: numpy's name for correction."
    return method


def _add(name: str, f) -> None:
    # As if written in the class: the stubs put it there.
    f.__module__, f.__qualname__ = Array.__module__, f"Array.{name}"
    setattr(Array, name, f)


def _attach() -> None:
    for f in (
        __array__, __array_namespace__, __dlpack__, __dlpack_device__, __bool__, __int__, __float__, __complex__,
        __index__, __iter__, __contains__, __divmod__, __rdivmod__, __round__, __trunc__, __format__, __copy__,
        __deepcopy__, __reduce__, __setitem__, __delitem__, __repr__, __str__, item, tolist, astype, to_device, reshape, transpose,
        flatten, copy, squeeze,
    ):  # fmt: skip
        _add(f.__name__, f)
    for name in ("sum", "mean", "prod", "max", "min", "any", "all", "argmax", "argmin"):
        _add(name, _reduction(name))
    for name in ("var", "std"):
        _add(name, _spread(name))
    # numpy leaves operators between its arrays and ours to ours.
    Array.__array_priority__ = 1000


_attach()
