"""What the array API standard asks about dtypes."""

from __future__ import annotations

import numpy as np

from weft import _convert
from weft._errors import InvalidArgument
from weft._weft import Array, Device

KINDS = {
    "bool": (_convert.BOOL,),
    "signed integer": (_convert.INT32,),
    "unsigned integer": (_convert.UINT32,),
    "integral": (_convert.INT32, _convert.UINT32),
    "real floating": (_convert.FLOAT16, _convert.FLOAT32),
    "complex floating": (),
    "numeric": (_convert.INT32, _convert.UINT32, _convert.FLOAT16, _convert.FLOAT32),
}


def isdtype(dtype, kind) -> bool:
    """Whether a dtype is another, or of a kind such as "real floating", or of any in a tuple of these."""
    dtype = _convert.dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str) and kind in KINDS:
        return dtype in KINDS[kind]
    return dtype == _convert.dtype(kind)


def _promoted(a: np.dtype, b: np.dtype) -> np.dtype:
    """As in weft/ops.h: bool < int32, uint32 < float16 < float32; an integer with float16 gives float32."""
    if a == b or b == _convert.BOOL:
        return a
    if a == _convert.BOOL:
        return b
    return _convert.FLOAT32 if "f" in a.kind + b.kind else _convert.INT32


def _dtype_of(x):
    return x.dtype if isinstance(x, (Array, np.ndarray, np.generic)) else x


def result_type(*arrays_and_dtypes) -> np.dtype:
    """The dtype that these meet in. Python's numbers are weak, as beside an array, and so are numpy's integers and bools;
    numpy's floats count by their dtypes."""
    given = [x.item() if isinstance(x, (np.integer, np.bool_)) else x for x in arrays_and_dtypes]
    weak = [x for x in given if type(x) in (bool, int, float)]
    strong = [_convert.held_as(np.dtype(_dtype_of(x))) for x in given if type(x) not in (bool, int, float)]
    if not strong:
        raise InvalidArgument("result_type of numbers only", "give an array or a dtype too")
    out = strong[0]
    for d in strong[1:]:
        out = _promoted(out, d)
    for x in weak:
        if type(x) is float and out.kind != "f":
            out = _convert.FLOAT32
        elif type(x) is int and out == _convert.BOOL:
            out = _convert.INT32
    return out


def can_cast(from_, to) -> bool:
    """Whether promotion may turn the one into the other."""
    source = _convert.held_as(np.dtype(_dtype_of(from_)))
    return _promoted(source, _convert.dtype(to)) == _convert.dtype(to)


def finfo(type_):
    """numpy.finfo of a float dtype or array."""
    return np.finfo(_convert.dtype(_dtype_of(type_)))


def iinfo(type_):
    """numpy.iinfo of an integer dtype or array."""
    return np.iinfo(_convert.dtype(_dtype_of(type_)))


class Info:
    """The standard's __array_namespace_info__()."""

    def capabilities(self) -> dict:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self) -> Device:
        from weft import default_device

        return default_device()

    def default_dtypes(self, *, device=None) -> dict:
        return {"real floating": _convert.FLOAT32, "integral": _convert.INT32, "indexing": _convert.INT32}

    def devices(self) -> list[Device]:
        return [self.default_device()]

    def dtypes(self, *, device=None, kind=None) -> dict:
        return {d.name: d for d in _convert.DTYPES if kind is None or isdtype(d, kind)}
