"""Weft: arrays on any GPU that has WebGPU, with numpy's manners.

    import numpy as np, weft
    x = weft.asarray(np.random.rand(4096, 64))
    p = weft.nn.softmax(x @ w + b, axis=1)
    p.numpy()
"""

from __future__ import annotations

import atexit as _atexit
import json as _json

import numpy as _np

from weft import _weft
from weft._errors import (
    CompileError,
    DeviceLost,
    DTypeError,
    Error,
    ForeignBuffer,
    InternalError,
    InvalidArgument,
    IoError,
    OutOfMemory,
    OutOfRange,
    TimedOut,
    Unsupported,
)
from weft._weft import (
    Array,
    Device,
    abs,
    add,
    all,
    any,
    argmax,
    argmin,
    argsort,
    atan2,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    broadcast_to,
    ceil,
    clip,
    concat,
    cos,
    default_device,
    divide,
    empty,
    equal,
    erf,
    exp,
    exp2,
    expand_dims,
    expm1,
    floor,
    floor_divide,
    fmod,
    full,
    gather_nd,
    greater,
    greater_equal,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    log2,
    logical_not,
    logsumexp,
    matmul,
    max,
    maximum,
    mean,
    min,
    minimum,
    multiply,
    negative,
    not_equal,
    ones,
    permute_dims,
    positive,
    pow,
    prod,
    reciprocal,
    remainder,
    round,
    rsqrt,
    set_default_device,
    scatter_along_axis,
    scatter_nd,
    sign,
    sin,
    sort,
    sqrt,
    square,
    stack,
    std,
    subtract,
    sum,
    take,
    take_along_axis,
    tan,
    tanh,
    topk,
    tril,
    triu,
    trunc,
    var,
    where,
    zeros,
)
from weft._convert import asarray, from_dlpack
from weft._dtypes import Info as _Info, can_cast, finfo, iinfo, isdtype, result_type
from weft._functions import (
    acos,
    acosh,
    arange,
    asin,
    asinh,
    astype,
    atan,
    atanh,
    broadcast_arrays,
    broadcast_shapes,
    copysign,
    cosh,
    count_nonzero,
    cumulative_prod,
    cumulative_sum,
    diff,
    einsum,
    empty_like,
    eye,
    flip,
    full_like,
    hypot,
    linspace,
    log10,
    logaddexp,
    logical_and,
    logical_or,
    logical_xor,
    matrix_transpose,
    meshgrid,
    moveaxis,
    ones_like,
    outer,
    pad,
    repeat,
    reshape,
    roll,
    signbit,
    sinh,
    split,
    squeeze,
    swapaxes,
    tensordot,
    tile,
    unstack,
    vecdot,
    zeros_like,
)
from weft import _array as _array
from weft import _stream as _stream
from weft._jit import Graph, jit
from weft._kernel import Kernel
from weft._profile import profile
from weft._weft import Stream, lazy
from weft import fft, linalg, nn, random

__version__: str = _weft.version
__array_api_version__ = "2024.12"
#: The WebGPU implementation of this build: "wgpu-native" or "dawn".
implementation: str = _weft.implementation

bool = _np.dtype("bool")
int32 = _np.dtype("int32")
uint32 = _np.dtype("uint32")
float16 = _np.dtype("float16")
float32 = _np.dtype("float32")
inf = _np.inf
nan = _np.nan
pi = _np.pi
e = _np.e
newaxis = None

# numpy's names for what the standard calls otherwise.
concatenate = concat
power = pow
transpose = permute_dims
absolute = abs


def __array_namespace_info__() -> _Info:
    """What the array API standard asks about a library."""
    return _Info()


def devices() -> list[dict]:
    """The adapters of this machine: name, type, backend, driver, limits, features."""
    return Device.adapters()


def memory(device: Device | None = None) -> dict:
    """Where a device's memory is now, in bytes; the default device's unless one is given."""
    return _json.loads(_weft._device_or_default(device)._memory_json())


def stats(device: Device | None = None) -> dict:
    """Counters of a device since it was opened."""
    return _weft._device_or_default(device).stats()


def synchronize(device: Device | None = None, timeout: float | None = None) -> None:
    """Waits until all work recorded so far is done."""
    _weft._device_or_default(device).synchronize(timeout)


_atexit.register(_weft._at_exit)

__all__ = [n for n in dir() if not n.startswith("_") and n != "annotations"]
