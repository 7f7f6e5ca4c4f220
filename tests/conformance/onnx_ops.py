"""What each ONNX operator means in calls of the Python package.

A handler takes a Node (attributes) and its inputs, each a numpy array, a weft.Array or None, and gives its outputs
likewise. What the library has no op for, or no dtype, is a Skip with the reason; skips are listed in onnx_skips.txt.
"""

import math

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import weft

NATIVE = {np.dtype(t) for t in ("bool", "int32", "uint32", "float16", "float32")}
CONVERTED = {np.dtype(t) for t in ("int8", "uint8", "int16", "uint16", "int64", "uint64", "float64", ml_dtypes.bfloat16)}
HELD = {"b": "bool", "i": "int32", "u": "uint32", "f": "float32"}


class Skip(Exception):
    """Why a test can't run here."""


def held(dtype):
    """The dtype that values of `dtype` have in the library."""
    dtype = np.dtype(dtype)
    if dtype in NATIVE:
        return dtype
    if dtype not in CONVERTED:
        raise Skip(f"dtype: there are no arrays of {dtype}")
    return np.dtype("float32") if dtype == ml_dtypes.bfloat16 else np.dtype(HELD[dtype.kind])


def held_of_onnx(code):
    if code == TensorProto.STRING:
        raise Skip("dtype: there are no arrays of strings")
    return helper.tensor_dtype_to_np_dtype(code)


class Run:
    """One test's run: what was converted on the way."""

    def __init__(self, opset=0):
        self.converted = False
        self.opset = opset


class Node:
    def __init__(self, proto, run, scope=None):
        self.proto = proto
        self.run = run
        self.scope = scope or {}  # values by name, for the graphs in it
        self.opset = run.opset
        self.attributes = {a.name: a for a in proto.attribute}
        self.outputs = len(proto.output)

    def get(self, name, default=None):
        if name not in self.attributes:
            return default
        value = helper.get_attribute_value(self.attributes[name])
        if isinstance(value, TensorProto):
            return numpy_helper.to_array(value)
        return value.decode() if isinstance(value, bytes) else value

    def wants(self, i):
        """Whether output i is used."""
        return i < self.outputs and self.proto.output[i] != ""

    def array(self, x):
        """An input as a weft.Array."""
        if isinstance(x, weft.Array):
            return x
        if not isinstance(x, np.ndarray):
            raise Skip(f"dtype: there are no arrays of {type(x).__name__}")
        held(x.dtype)
        if x.dtype not in NATIVE:
            self.run.converted = True
        try:
            return weft.asarray(x)
        except weft.OutOfRange:
            raise Skip(f"values: {x.dtype} ones that do not fit {held(x.dtype)}") from None

    def arrays(self, xs):
        return [self.array(x) for x in xs]


def ints(x):
    """An input that is a list of whole numbers (axes, lengths), on the host."""
    if x is None:
        return None
    return [int(i) for i in np.atleast_1d(np.asarray(x))]


def number(x):
    return np.asarray(x).reshape(()).item()


OPS = {}


def op(*names):
    def put(f):
        for name in names:
            OPS[name] = f
        return f

    return put


def need(module, name):
    """A function that the library may not have yet."""
    f = getattr(module, name, None)
    if f is None:
        raise Skip(f"{name}: not in the library")
    return f


# -- elementwise ------------------------------------------------------------------------------------------------------

for _name, _f in {
    "Abs": weft.abs, "Acos": weft.acos, "Acosh": weft.acosh, "Asin": weft.asin, "Asinh": weft.asinh,
    "Atan": weft.atan, "Atanh": weft.atanh, "BitwiseNot": weft.bitwise_invert, "Ceil": weft.ceil, "Cos": weft.cos,
    "Cosh": weft.cosh, "Erf": weft.erf, "Exp": weft.exp, "Floor": weft.floor, "IsNaN": weft.isnan, "Log": weft.log,
    "Neg": weft.negative, "Not": weft.logical_not, "Reciprocal": weft.reciprocal, "Relu": weft.nn.relu,
    "Round": weft.round, "Sigmoid": weft.nn.sigmoid, "Sign": weft.sign, "Sin": weft.sin, "Sinh": weft.sinh,
    "Sqrt": weft.sqrt, "Tan": weft.tan, "Tanh": weft.tanh,
    "Softplus": lambda x: weft.logaddexp(x, 0.0),
    "Softsign": lambda x: x / (1.0 + weft.abs(x)),
    "HardSwish": lambda x: x * weft.clip(x / 6.0 + 0.5, 0.0, 1.0),
    "Mish": lambda x: x * weft.tanh(weft.logaddexp(x, 0.0)),
}.items():  # fmt: skip
    OPS[_name] = lambda n, x, f=_f: f(n.array(x))

for _name, _f in {
    "Add": weft.add, "Sub": weft.subtract, "Mul": weft.multiply, "And": weft.logical_and, "Or": weft.logical_or,
    "Xor": weft.logical_xor, "BitwiseAnd": weft.bitwise_and, "BitwiseOr": weft.bitwise_or,
    "BitwiseXor": weft.bitwise_xor, "Equal": weft.equal, "Greater": weft.greater, "Less": weft.less,
    "GreaterOrEqual": weft.greater_equal, "LessOrEqual": weft.less_equal, "MatMul": weft.matmul,
}.items():  # fmt: skip
    OPS[_name] = lambda n, a, b, f=_f: f(n.array(a), n.array(b))

for _name, _f in {"Max": weft.maximum, "Min": weft.minimum, "Sum": weft.add}.items():

    @op(_name)
    def _variadic(n, *xs, f=_f):
        xs = n.arrays(xs)
        out = xs[0]
        for x in xs[1:]:
            out = f(out, x)
        return out


@op("Mean")
def _mean(n, *xs):
    return OPS["Sum"](n, *xs) / float(len(xs))


@op("Identity")
def _identity(n, x):
    return n.array(x)


@op("Dropout")
def _dropout(n, x, ratio=None, training=None):
    if training is not None and bool(number(training)) and (ratio is None or number(ratio) != 0):
        raise Skip("Dropout: random numbers of another generator")
    x = n.array(x)
    return [x, weft.ones(x.shape, "bool")][: n.outputs]


@op("Div")
def _div(n, a, b):
    a, b = n.array(a), n.array(b)
    if a.dtype.kind == "f":
        return a / b
    q = a // b
    # Towards zero.
    return q if a.dtype.kind == "u" else q + weft.astype((q * b != a) & ((a < 0) != (b < 0)), "int32")


@op("Mod")
def _mod(n, a, b):
    a, b = n.array(a), n.array(b)
    return weft.fmod(a, b) if n.get("fmod", 0) else weft.remainder(a, b)


@op("Pow")
def _pow(n, a, b):
    a, b = n.array(a), n.array(b)
    out = weft.pow(a, b)
    return out if out.dtype == a.dtype else weft.astype(out, a.dtype)


@op("BitShift")
def _bit_shift(n, a, b):
    f = weft.bitwise_left_shift if n.get("direction") == "LEFT" else weft.bitwise_right_shift
    return f(n.array(a), n.array(b))


@op("IsInf")
def _isinf(n, x):
    x = n.array(x)
    out = weft.isinf(x)
    if not n.get("detect_negative", 1):
        out = out & (x > 0)
    if not n.get("detect_positive", 1):
        out = out & (x < 0)
    return out


@op("Where")
def _where(n, c, a, b):
    return weft.where(n.array(c), n.array(a), n.array(b))


@op("Clip")
def _clip(n, x, low=None, high=None):
    x = n.array(x)
    low = n.get("min") if low is None else low
    high = n.get("max") if high is None else high
    if low is not None:
        x = weft.maximum(x, n.array(low) if isinstance(low, (np.ndarray, weft.Array)) else low)
    if high is not None:
        x = weft.minimum(x, n.array(high) if isinstance(high, (np.ndarray, weft.Array)) else high)
    return x


@op("Gelu")
def _gelu(n, x):
    return weft.nn.gelu(n.array(x), approximate=n.get("approximate", "none"))


@op("Swish")
def _swish(n, x):
    x = n.array(x)
    return x * weft.nn.sigmoid(x * n.get("alpha", 1.0))


def _exponential(x, alpha, scale=1.0):
    return scale * weft.where(x > 0, x, alpha * weft.expm1(weft.minimum(x, 0.0)))


@op("SwiGLU")
def _swiglu(n, gate, x):
    return _swish(n, gate) * n.array(x)


OPS["Elu"] = lambda n, x: _exponential(n.array(x), n.get("alpha", 1.0))
OPS["Selu"] = lambda n, x: _exponential(
    n.array(x), n.get("alpha", 1.67326319217681884765625), n.get("gamma", 1.05070102214813232421875)
)


@op("Celu")
def _celu(n, x):
    x, alpha = n.array(x), n.get("alpha", 1.0)
    return weft.maximum(x, 0.0) + weft.minimum(alpha * weft.expm1(x / alpha), 0.0)


@op("LeakyRelu")
def _leaky_relu(n, x):
    x = n.array(x)
    return weft.where(x < 0, x * n.get("alpha", 0.01), x)


@op("PRelu")
def _prelu(n, x, slope):
    x = n.array(x)
    return weft.where(x < 0, x * n.array(slope), x)


@op("ThresholdedRelu")
def _thresholded_relu(n, x):
    x = n.array(x)
    return weft.where(x > n.get("alpha", 1.0), x, 0.0)


@op("HardSigmoid")
def _hard_sigmoid(n, x):
    return weft.clip(n.array(x) * n.get("alpha", 0.2) + n.get("beta", 0.5), 0.0, 1.0)


@op("Shrink")
def _shrink(n, x):
    x, bias, lambd = n.array(x), n.get("bias", 0.0), n.get("lambd", 0.5)
    return weft.where(x < -lambd, x + bias, weft.where(x > lambd, x - bias, 0.0))


def cast(n, x, dtype):
    dtype = np.dtype(dtype)
    target = held(dtype)
    if dtype == ml_dtypes.bfloat16 or (isinstance(x, np.ndarray) and x.dtype == ml_dtypes.bfloat16):
        raise Skip("dtype: a cast from or to bfloat16")
    if dtype.itemsize < 4 and dtype.kind in "iu":
        raise Skip(f"dtype: a cast to {dtype}")
    if dtype not in NATIVE:
        n.run.converted = True
    x = n.array(x)
    return weft.astype(x, target)


@op("Einsum")
def _einsum(n, *arrays):
    return weft.einsum(n.get("equation"), *(n.array(x) for x in arrays))


@op("Cast")
def _cast(n, x):
    return cast(n, x, held_of_onnx(n.get("to")))


@op("CastLike")
def _cast_like(n, x, like):
    if not isinstance(like, (np.ndarray, weft.Array)):
        raise Skip(f"dtype: there are no arrays of {type(like).__name__}")
    return cast(n, x, like.dtype)


# -- reductions -------------------------------------------------------------------------------------------------------


def _axes(n, x, given):
    """Axes to reduce over; None for all, () for none."""
    axes = n.get("axes") if given is None else ints(given)
    if not axes:
        return () if n.get("noop_with_empty_axes", 0) else None
    return tuple(axes)


def reduction(name, before, reduce, after):
    @op(name)
    def run(n, x, axes=None):
        x = n.array(x)
        over = _axes(n, x, axes)
        y = before(x)
        if over != ():
            keepdims = bool(n.get("keepdims", 1))
            if x.size == 0 and name in ("ReduceMax", "ReduceMin"):
                # ONNX has a result for no elements, where numpy and the library have none: one slice of it, reduced.
                worst = -math.inf if name == "ReduceMax" else math.inf
                if y.dtype.kind != "f":
                    limits = weft.iinfo(y.dtype) if y.dtype != "bool" else None
                    worst = name == "ReduceMin" if limits is None else limits.min if name == "ReduceMax" else limits.max
                axes = range(y.ndim) if over is None else [a % y.ndim for a in over]
                y = weft.full([1 if k in axes else m for k, m in enumerate(y.shape)], worst, dtype=y.dtype)
            y = reduce(y, axis=over, keepdims=keepdims)
        return after(y)


def _same(x):
    return x


reduction("ReduceSum", _same, weft.sum, _same)
reduction("ReduceMean", _same, weft.mean, _same)
reduction("ReduceMax", _same, weft.max, _same)
reduction("ReduceMin", _same, weft.min, _same)
reduction("ReduceProd", _same, weft.prod, _same)
reduction("ReduceL1", weft.abs, weft.sum, _same)
reduction("ReduceL2", weft.square, weft.sum, lambda x: weft.sqrt(x))
reduction("ReduceSumSquare", weft.square, weft.sum, _same)
reduction("ReduceLogSum", _same, weft.sum, weft.log)


@op("ReduceLogSumExp")
def _log_sum_exp(n, x, axes=None):
    x = n.array(x)
    over = _axes(n, x, axes)
    if over == ():
        return x
    keepdims = bool(n.get("keepdims", 1))
    ready = getattr(weft, "logsumexp", None)
    if ready is not None:
        return ready(x, axis=over, keepdims=keepdims)
    if x.size == 0:
        return weft.log(weft.sum(x, axis=over, keepdims=keepdims))
    top = weft.max(x, axis=over, keepdims=True)
    total = weft.sum(weft.exp(x - top), axis=over, keepdims=keepdims)
    return weft.log(total) + weft.reshape(top, total.shape)


@op("ArgMax", "ArgMin")
def _arg(n, x):
    x = n.array(x)
    f = weft.argmax if n.proto.op_type == "ArgMax" else weft.argmin
    axis, keepdims = n.get("axis", 0), bool(n.get("keepdims", 1))
    if n.get("select_last_index", 0):
        return x.shape[axis] - 1 - f(weft.flip(x, axis), axis, keepdims)
    return f(x, axis, keepdims)


@op("CumSum", "CumProd")
def _cumulative(n, x, axis):
    f = need(weft, "cumulative_sum" if n.proto.op_type == "CumSum" else "cumulative_prod")
    exclusive, reverse = bool(n.get("exclusive", 0)), bool(n.get("reverse", 0))
    return f(n.array(x), axis=int(number(axis)), exclusive=exclusive, reverse=reverse)


# -- shapes -----------------------------------------------------------------------------------------------------------


@op("Constant")
def _constant(n):
    for name, dtype in (("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64), ("value_ints", np.int64)):
        if name in n.attributes:
            return np.asarray(n.get(name), dtype)
    value = n.get("value")
    if value is None:
        raise Skip("Constant: neither numbers nor a tensor of them")
    return value


@op("ConstantOfShape")
def _constant_of_shape(n, shape):
    value = n.get("value")
    value = np.zeros(1, np.float32) if value is None else value
    if value.dtype not in NATIVE:
        n.run.converted = True
    return weft.full(tuple(ints(shape) if np.asarray(shape).size else []), value.item(), dtype=held(value.dtype))


@op("Shape")
def _shape(n, x):
    n.run.converted = True
    return weft.asarray(np.array(n.array(x).shape[n.get("start", 0) : n.get("end")], np.int32))


@op("Size")
def _size(n, x):
    n.run.converted = True
    return weft.asarray(np.int32(n.array(x).size))


@op("Reshape")
def _reshape(n, x, shape):
    x = n.array(x)
    lengths = ints(shape) if np.asarray(shape).size else []
    if not n.get("allowzero", 0):
        lengths = [x.shape[k] if length == 0 else length for k, length in enumerate(lengths)]
    return weft.reshape(x, tuple(lengths))


@op("Transpose")
def _transpose(n, x):
    perm = n.get("perm")
    return weft.permute_dims(n.array(x), None if perm is None else tuple(perm))


@op("Squeeze")
def _squeeze(n, x, axes=None):
    axes = n.get("axes") if axes is None else ints(axes)
    return weft.squeeze(n.array(x), None if axes is None else tuple(axes))


@op("Unsqueeze")
def _unsqueeze(n, x, axes=None):
    x = n.array(x)
    axes = n.get("axes") if axes is None else ints(axes)
    rank = x.ndim + len(axes)
    for axis in sorted(a % rank for a in axes):
        x = weft.expand_dims(x, axis)
    return x


@op("Flatten")
def _flatten(n, x):
    x = n.array(x)
    axis = n.get("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return weft.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@op("Expand")
def _expand(n, x, shape):
    x = n.array(x)
    return weft.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(ints(shape))))


@op("Concat")
def _concat(n, *xs):
    return weft.concat(n.arrays(xs), axis=n.get("axis"))


@op("Split")
def _split(n, x, lengths=None):
    x = n.array(x)
    axis = n.get("axis", 0) % x.ndim
    lengths = n.get("split") if lengths is None else ints(lengths)
    if lengths is None:
        parts = n.get("num_outputs", n.outputs)
        step = -(-x.shape[axis] // parts)
        lengths = [max(0, min(step, x.shape[axis] - step * i)) for i in range(parts)]
    return weft.split(x, [sum(lengths[:i]) for i in range(1, len(lengths))], axis)


@op("Slice")
def _slice(n, x, starts=None, ends=None, axes=None, steps=None):
    x = n.array(x)
    starts = n.get("starts") if starts is None else ints(starts)
    ends = n.get("ends") if ends is None else ints(ends)
    axes = n.get("axes", list(range(len(starts)))) if axes is None else ints(axes)
    steps = [1] * len(starts) if steps is None else ints(steps)
    key = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps):
        # Of a walk down, an end that lies before the first element is -length - 1 or less.
        key[axis] = slice(start, end, step)
    return x[tuple(key)]


@op("Gather")
def _gather(n, x, indices):
    return weft.take(n.array(x), n.array(indices), n.get("axis", 0))


@op("GatherElements")
def _gather_elements(n, x, indices):
    return weft.take_along_axis(n.array(x), n.array(indices), n.get("axis", 0))


@op("GatherND")
def _gather_nd(n, x, indices):
    return weft.gather_nd(n.array(x), n.array(indices), n.get("batch_dims", 0))


SCATTER = {"none": "set", "add": "add", "mul": "multiply", "max": "maximum", "min": "minimum"}


@op("ScatterElements", "Scatter")
def _scatter_elements(n, x, indices, updates):
    how = SCATTER[n.get("reduction", "none")]
    return weft.scatter_along_axis(n.array(x), n.array(indices), n.array(updates), n.get("axis", 0), how)


@op("ScatterND")
def _scatter_nd(n, x, indices, updates):
    return weft.scatter_nd(n.array(x), n.array(indices), n.array(updates), SCATTER[n.get("reduction", "none")])


@op("Tile")
def _tile(n, x, repeats):
    return weft.tile(n.array(x), tuple(ints(repeats)))


@op("Pad")
def _pad(n, x, pads=None, value=None, axes=None):
    x = n.array(x)
    pads = n.get("pads") if pads is None else ints(pads)
    value = n.get("value", 0) if value is None or np.asarray(value).size == 0 else number(value)
    axes = list(range(x.ndim)) if axes is None else [a % x.ndim for a in ints(axes)]
    widths = [(0, 0)] * x.ndim
    for k, axis in enumerate(axes):
        widths[axis] = (pads[k], pads[k + len(axes)])
    return weft.pad(x, widths, n.get("mode", "constant"), value)


@op("CenterCropPad")
def _center_crop_pad(n, x, shape):
    x = n.array(x)
    lengths = ints(shape)
    axes = n.get("axes", list(range(x.ndim)))
    widths = [(0, 0)] * x.ndim
    for axis, length in zip(axes, lengths):
        left = abs(length - x.shape[axis]) // 2
        more = length - x.shape[axis]
        widths[axis] = (left, more - left) if more >= 0 else (-left, more + left)
    return weft.pad(x, widths)


@op("Trilu")
def _trilu(n, x, k=None):
    f = weft.triu if n.get("upper", 1) else weft.tril
    return f(n.array(x), k=0 if k is None else int(number(k)))


@op("OneHot")
def _one_hot(n, indices, depth, values):
    indices = n.array(indices)
    if indices.dtype.kind != "i":
        indices = weft.astype(indices, "int32")
    values = n.array(values)
    off, on = values.tolist()
    axis = n.get("axis", -1)
    return weft.nn.one_hot(indices, int(number(depth)), axis=axis, on=on, off=off, dtype=values.dtype)


@op("EyeLike")
def _eye_like(n, x):
    code = n.get("dtype")
    x = n.array(x)
    dtype = x.dtype if code is None else held_of_onnx(code)
    if dtype not in NATIVE:
        n.run.converted = True
    return weft.eye(*x.shape, k=n.get("k", 0), dtype=held(dtype))


@op("Range")
def _range(n, start, limit, delta):
    if start.dtype not in NATIVE:
        n.run.converted = True
    return weft.arange(number(start), number(limit), number(delta), dtype=held(start.dtype))


@op("DepthToSpace")
def _depth_to_space(n, x):
    x, b = n.array(x), n.get("blocksize")
    batch, c, h, w = x.shape
    if n.get("mode", "DCR") == "DCR":
        y = weft.permute_dims(weft.reshape(x, (batch, b, b, c // b**2, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        y = weft.permute_dims(weft.reshape(x, (batch, c // b**2, b, b, h, w)), (0, 1, 4, 2, 5, 3))
    return weft.reshape(y, (batch, c // b**2, h * b, w * b))


@op("SpaceToDepth")
def _space_to_depth(n, x):
    x, b = n.array(x), n.get("blocksize")
    batch, c, h, w = x.shape
    if n.get("mode", "DCR") == "CRD":
        y = weft.permute_dims(weft.reshape(x, (batch, c, h // b, b, w // b, b)), (0, 1, 3, 5, 2, 4))
    else:
        y = weft.permute_dims(weft.reshape(x, (batch, c, h // b, b, w // b, b)), (0, 3, 5, 1, 2, 4))
    return weft.reshape(y, (batch, c * b * b, h // b, w // b))


@op("Compress")
def _compress(n, x, condition):
    x, mask = n.array(x), n.array(condition)
    axis = n.get("axis")
    if axis is None:
        x, axis = x.flatten(), 0
    axis %= x.ndim
    places = np.flatnonzero(mask.numpy())
    return weft.take(x, places, axis)


@op("TopK")
def _topk(n, x, k):
    f = need(weft, "topk")
    values, indices = f(n.array(x), int(number(k)), axis=n.get("axis", -1), largest=bool(n.get("largest", 1)))
    n.run.converted = True
    return [values, indices]


# -- products ---------------------------------------------------------------------------------------------------------


@op("Gemm")
def _gemm(n, a, b, c=None):
    return weft.linalg.gemm(
        n.array(a), n.array(b), None if c is None else n.array(c), alpha=n.get("alpha", 1.0), beta=n.get("beta", 1.0),
        transpose_a=bool(n.get("transA", 0)), transpose_b=bool(n.get("transB", 0)),
    )  # fmt: skip


def _less_zero_point(n, x, zero):
    x = weft.astype(n.array(x), "int32")
    return x if zero is None else x - weft.astype(n.array(zero), "int32")


@op("MatMulInteger")
def _matmul_integer(n, a, b, a_zero=None, b_zero=None):
    a = _less_zero_point(n, a, a_zero) if a_zero is None or np.ndim(a_zero) != 1 else _less_zero_point(n, a, a_zero.reshape(-1, 1))
    return weft.matmul(a, _less_zero_point(n, b, b_zero))


# -- quantisation -----------------------------------------------------------------------------------------------------

QUANTISED = {np.dtype(t) for t in ("int8", "uint8", "int16", "uint16")}


def _spread(n, p, x, axis, block):
    """A scale or zero point of no axes, one for each place on an axis, or one for each block, against x."""
    p = n.array(p)
    if block:
        return weft.repeat(p, block, axis=axis)[tuple(slice(0, length) for length in x.shape)]
    if p.ndim == 0 or p.size == 1:
        return weft.reshape(p, ())
    return weft.reshape(p, [-1 if k == axis % x.ndim else 1 for k in range(x.ndim)])


def _quantised(dtype):
    dtype = np.dtype(dtype)
    if dtype not in QUANTISED:
        raise Skip(f"dtype: there are no arrays of {dtype}")
    return np.iinfo(dtype)


def quantise(n, x, scale, zero, dtype):
    info = _quantised(dtype)
    whole = weft.round(weft.astype(x, "float32") / weft.astype(scale, "float32"))
    shifted = whole if zero is None else whole + weft.astype(zero, "float32")
    n.run.converted = True
    return weft.astype(weft.clip(shifted, float(info.min), float(info.max)), held(dtype))


@op("QuantizeLinear")
def _quantize(n, x, scale, zero=None):
    x = n.array(x)
    axis, block = n.get("axis", 1), n.get("block_size", 0)
    if zero is not None:
        if not isinstance(zero, np.ndarray):
            raise Skip("dtype: there are no arrays of 4-bit or 8-bit floats")
        dtype = zero.dtype
    else:
        code = n.get("output_dtype", 0)
        dtype = held_of_onnx(code) if code else np.dtype("uint8")
    _quantised(dtype)
    s = _spread(n, scale, x, axis, block)
    z = None if zero is None else _spread(n, zero, x, axis, block)
    return quantise(n, x, s, z, dtype)


@op("DequantizeLinear")
def _dequantize(n, x, scale, zero=None):
    if not isinstance(x, np.ndarray):
        raise Skip("dtype: there are no arrays of 4-bit or 8-bit floats")
    axis, block = n.get("axis", 1), n.get("block_size", 0)
    y = n.array(x)
    s = _spread(n, scale, y, axis, block)
    y = weft.astype(y, "float32")
    if zero is not None:
        y = y - weft.astype(_spread(n, zero, y, axis, block), "float32")
    return weft.astype(y * weft.astype(s, "float32"), s.dtype)


@op("DynamicQuantizeLinear")
def _dynamic_quantize(n, x):
    x = n.array(x)
    high = weft.maximum(weft.max(x), 0.0)
    low = weft.minimum(weft.min(x), 0.0)
    scale = (high - low) / 255.0
    zero = weft.clip(weft.round((0.0 - low) / scale), 0.0, 255.0)
    return [quantise(n, x, scale, zero, "uint8"), scale, weft.astype(zero, "uint32")]


@op("QLinearMatMul")
def _qlinear_matmul(n, a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero):
    product = weft.matmul(_less_zero_point(n, a, a_zero), _less_zero_point(n, b, b_zero))
    scale = weft.astype(n.array(a_scale), "float32") * weft.astype(n.array(b_scale), "float32")
    real = weft.astype(product, "float32") * scale
    return quantise(n, real, n.array(y_scale), n.array(y_zero), y_zero.dtype)


# -- windows ----------------------------------------------------------------------------------------------------------


def _spatial(x):
    if x.ndim > 4:
        raise Skip("windows over 3 spatial axes")
    return x.ndim - 2


def _window(n, x, kernel):
    """stride, pairs of padding, dilation."""
    axes = len(kernel)
    stride = list(n.get("strides", [1] * axes))
    dilation = list(n.get("dilations", [1] * axes))
    auto = n.get("auto_pad", "NOTSET")
    pads = list(n.get("pads", [0] * 2 * axes))
    pairs = [(pads[k], pads[k + axes]) for k in range(axes)]
    if auto == "VALID":
        pairs = [(0, 0)] * axes
    elif auto in ("SAME_UPPER", "SAME_LOWER"):
        pairs = []
        for k in range(axes):
            length = x.shape[2 + k]
            reach = (kernel[k] - 1) * dilation[k] + 1
            total = max(0, (-(-length // stride[k]) - 1) * stride[k] + reach - length)
            small = total // 2
            pairs.append((small, total - small) if auto == "SAME_UPPER" else (total - small, small))
    return stride, pairs, dilation


@op("Conv")
def _conv(n, x, w, b=None):
    x, w = n.array(x), n.array(w)
    stride, pairs, dilation = _window(n, x, w.shape[2:])
    return weft.nn.conv(
        x, w, None if b is None else n.array(b), stride=stride, padding=pairs, dilation=dilation, groups=n.get("group", 1)
    )


@op("ConvInteger")
def _conv_integer(n, x, w, x_zero=None, w_zero=None):
    x = weft.astype(_less_zero_point(n, x, x_zero), "float32")
    if w_zero is not None and np.ndim(w_zero) == 1:
        w_zero = w_zero.reshape(-1, 1, 1, 1)
    w = weft.astype(_less_zero_point(n, w, w_zero), "float32")
    stride, pairs, dilation = _window(n, x, w.shape[2:])
    y = weft.nn.conv(x, w, stride=stride, padding=pairs, dilation=dilation, groups=n.get("group", 1))
    return weft.astype(y, "int32")


@op("QLinearConv")
def _qlinear_conv(n, x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, b=None):
    sums = weft.astype(_conv_integer(n, x, w, x_zero, w_zero), "float32")
    per_channel = (1, -1) + (1,) * (sums.ndim - 2)
    if b is not None:
        sums = sums + weft.astype(weft.reshape(n.array(b), per_channel), "float32")
    scale = n.array(x_scale) * weft.reshape(n.array(w_scale), per_channel)
    return quantise(n, sums * scale, n.array(y_scale), n.array(y_zero), y_zero.dtype)


@op("ConvTranspose")
def _conv_transpose(n, x, w, b=None):
    x, w = n.array(x), n.array(w)
    axes = _spatial(x)
    stride = list(n.get("strides", [1] * axes))
    dilation = list(n.get("dilations", [1] * axes))
    extra = list(n.get("output_padding", [0] * axes))
    pads = list(n.get("pads", [0] * 2 * axes))
    pairs = [(pads[k], pads[k + axes]) for k in range(axes)]
    auto, shape = n.get("auto_pad", "NOTSET"), n.get("output_shape")
    if shape is not None or auto.startswith("SAME"):
        pairs = []
        for k in range(axes):
            want = shape[-axes + k] if shape is not None else x.shape[2 + k] * stride[k]
            total = (x.shape[2 + k] - 1) * stride[k] + extra[k] + (w.shape[2 + k] - 1) * dilation[k] + 1 - want
            if total < 0:  # longer than the product: zeros behind
                extra[k] -= total
                total = 0
            small = total // 2
            pairs.append((small, total - small) if auto == "SAME_UPPER" else (total - small, small))
    return weft.nn.conv_transpose(
        x, w, None if b is None else n.array(b), stride=stride, padding=pairs, output_padding=extra, dilation=dilation,
        groups=n.get("group", 1),
    )  # fmt: skip


def _pool(n, x, f, **options):
    kernel = list(n.get("kernel_shape"))
    stride, pairs, dilation = _window(n, x, kernel)
    if len(kernel) == 3:
        # A maximum of maxima, or a mean of means: over the last two axes, then over the first.
        batch, channels, depth = x.shape[:3]
        common = {"ceil_mode": bool(n.get("ceil_mode", 0)), **options}
        y = f(weft.reshape(x, (batch, channels * depth, *x.shape[3:])), kernel[1:], stride=stride[1:], padding=pairs[1:],
              dilation=dilation[1:], **common)  # fmt: skip
        flat = weft.reshape(y, (batch, channels, depth, -1)).mT
        z = f(weft.reshape(flat, (batch, -1, depth)), kernel[:1], stride=stride[:1], padding=pairs[:1], dilation=dilation[:1],
              **common)  # fmt: skip
        return weft.reshape(weft.reshape(z, (batch, channels, -1, z.shape[2])).mT, (batch, channels, z.shape[2], *y.shape[2:]))
    return f(x, kernel, stride=stride, padding=pairs, dilation=dilation, ceil_mode=bool(n.get("ceil_mode", 0)), **options)


@op("MaxPool")
def _max_pool(n, x):
    if n.wants(1):
        raise Skip("MaxPool: the places of the maxima")
    x = n.array(x)
    f = need(weft.nn, "max_pool")
    if x.dtype.kind == "f":
        return _pool(n, x, f)
    return weft.astype(_pool(n, weft.astype(x, "float32"), f), x.dtype)


@op("AveragePool")
def _average_pool(n, x):
    return _pool(n, n.array(x), need(weft.nn, "avg_pool"), count_padded=bool(n.get("count_include_pad", 0)))


@op("LpPool")
def _lp_pool(n, x):
    x, p = n.array(x), n.get("p", 2)
    mean = _pool(n, weft.abs(x) ** p, need(weft.nn, "avg_pool"), count_padded=True)
    return (mean * float(math.prod(n.get("kernel_shape")))) ** (1.0 / p)


@op("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(n, x):
    x = n.array(x)
    f = weft.mean if n.proto.op_type == "GlobalAveragePool" else weft.max
    return f(x, axis=tuple(range(2, x.ndim)), keepdims=True)


# -- normalisation ----------------------------------------------------------------------------------------------------


@op("Softmax")
def _softmax(n, x):
    return weft.nn.softmax(n.array(x), n.get("axis", -1))


@op("LogSoftmax")
def _log_softmax(n, x):
    return weft.nn.log_softmax(n.array(x), n.get("axis", -1))


@op("Hardmax")
def _hardmax(n, x):
    x, axis = n.array(x), n.get("axis", -1)
    return weft.nn.one_hot(weft.argmax(x, axis), x.shape[axis], axis=axis, dtype=x.dtype)


def _variance(x, axes):
    mean = weft.mean(x, axis=axes, keepdims=True)
    return mean, weft.mean(weft.square(x - mean), axis=axes, keepdims=True)


@op("LayerNormalization")
def _layer_norm(n, x, w, b=None):
    x = n.array(x)
    axis, eps = n.get("axis", -1) % x.ndim, n.get("epsilon", 1e-5)
    w = weft.broadcast_to(n.array(w), x.shape[axis:])
    b = None if b is None else weft.broadcast_to(n.array(b), x.shape[axis:])
    out = [weft.nn.layer_norm(x, w, b, axis=axis, eps=eps)]
    if n.outputs > 1:
        mean, variance = _variance(weft.astype(x, "float32"), tuple(range(axis, x.ndim)))
        out += [mean, weft.rsqrt(variance + eps)][: n.outputs - 1]
    return out


@op("RMSNormalization")
def _rms_norm(n, x, w):
    x = n.array(x)
    axis = n.get("axis", -1) % x.ndim
    return weft.nn.rms_norm(x, weft.broadcast_to(n.array(w), x.shape[axis:]), axis=axis, eps=n.get("epsilon", 1e-5))


@op("InstanceNormalization")
def _instance_norm(n, x, w, b):
    x = n.array(x)
    f = need(weft.nn, "group_norm")
    return f(x, x.shape[1], n.array(w), n.array(b), eps=n.get("epsilon", 1e-5))


@op("GroupNormalization")
def _group_norm(n, x, w, b):
    return need(weft.nn, "group_norm")(n.array(x), n.get("num_groups"), n.array(w), n.array(b), eps=n.get("epsilon", 1e-5))


@op("BatchNormalization")
def _batch_norm(n, x, w, b, mean, variance):
    f = need(weft.nn, "batch_norm")
    x, w, b, mean, variance = n.arrays([x, w, b, mean, variance])
    eps = n.get("epsilon", 1e-5)
    if not n.get("training_mode", 0):
        return f(x, mean, variance, w, b, eps=eps)
    axes = tuple(k for k in range(x.ndim) if k != 1)
    m, v = (weft.reshape(t, (-1,)) for t in _variance(x, axes))
    old = n.get("momentum", 0.9)
    return [f(x, m, v, w, b, eps=eps), mean * old + m * (1 - old), variance * old + v * (1 - old)][: n.outputs]


@op("LpNormalization")
def _lp_normalization(n, x):
    x, axis, p = n.array(x), n.get("axis", -1), n.get("p", 2)
    size = weft.sum(weft.abs(x), axis, True) if p == 1 else weft.sqrt(weft.sum(x * x, axis, True))
    return weft.where(size == 0, 0.0, x / size)


@op("MeanVarianceNormalization")
def _mean_variance(n, x):
    x = n.array(x)
    mean, variance = _variance(x, tuple(n.get("axes", [0, 2, 3])))
    return (x - mean) / (weft.sqrt(variance) + 1e-9)


@op("LRN")
def _lrn(n, x):
    x, size = n.array(x), n.get("size")
    before, after = (size - 1) // 2, size // 2
    padded = weft.pad(x * x, [(0, 0), (before, after)] + [(0, 0)] * (x.ndim - 2))
    total = padded[:, : x.shape[1]]
    for k in range(1, size):
        total = total + padded[:, k : k + x.shape[1]]
    return x / (n.get("bias", 1.0) + n.get("alpha", 1e-4) / size * total) ** n.get("beta", 0.75)


# -- losses -----------------------------------------------------------------------------------------------------------


def _likelihood_loss(n, log_probability, target, weight):
    target = n.array(target)
    ignored = n.get("ignore_index")
    counts = weft.ones(target.shape, "bool") if ignored is None else target != ignored
    safe = weft.where(counts, target, 0)
    picked = weft.squeeze(weft.take_along_axis(log_probability, weft.expand_dims(safe, 1), 1), 1)
    w = weft.astype(counts, "float32")
    if weight is not None:
        w = w * weft.take(n.array(weight), safe, 0)
    # An ignored place may show anything, an infinity too.
    loss = weft.where(counts, -picked * w, 0.0)
    how = n.get("reduction", "mean")
    if how == "none":
        return loss
    return weft.sum(loss) if how == "sum" else weft.sum(loss) / weft.sum(w)


@op("NegativeLogLikelihoodLoss")
def _nll(n, x, target, weight=None):
    return _likelihood_loss(n, n.array(x), target, weight)


@op("SoftmaxCrossEntropyLoss")
def _cross_entropy(n, x, target, weight=None):
    log_probability = weft.nn.log_softmax(n.array(x), 1)
    loss = _likelihood_loss(n, log_probability, target, weight)
    return [loss, log_probability][: n.outputs]


# -- attention --------------------------------------------------------------------------------------------------------


def _heads(x, count):
    batch, length, width = x.shape
    return weft.permute_dims(weft.reshape(x, (batch, length, count, width // count)), (0, 2, 1, 3))


@op("Attention")
def _attention(n, q, k, v, mask=None, past_key=None, past_value=None, lengths=None):
    if isinstance(q, np.ndarray) and q.dtype == ml_dtypes.bfloat16:
        raise Skip("dtype: the sums of bfloat16 arrays, rounded at each step")
    q, k, v = n.arrays([q, k, v])
    flat = q.ndim == 3
    if flat:
        q = _heads(q, n.get("q_num_heads"))
        k, v = _heads(k, n.get("kv_num_heads")), _heads(v, n.get("kv_num_heads"))
    if past_key is not None:
        k = weft.concat([n.array(past_key), k], axis=2)
        v = weft.concat([n.array(past_value), v], axis=2)
    queries, keys = q.shape[2], k.shape[2]
    past = keys - n.array(k).shape[2] if past_key is None else past_key.shape[2]
    softcap = n.get("softcap", 0.0) or 0.0
    scale = n.get("scale") or 1 / math.sqrt(q.shape[3])
    causal = bool(n.get("is_causal", 0))
    left, right = n.get("left_window_size", -1), n.get("right_window_size", -1)

    if mask is not None:
        mask = n.array(mask)
        short = keys - mask.shape[-1]
        if short > 0:
            mask = weft.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, short)], "constant", False if mask.dtype == "bool" else -math.inf)
    valid = None if lengths is None else n.array(lengths)
    # Where the first query stands among the keys.
    if past_key is None and valid is not None:
        offset = weft.reshape(valid, (-1, 1, 1, 1)) - queries
    else:
        offset = past
    seen = None
    if left >= 0 or right >= 0 or (causal and not (isinstance(offset, int) and offset == keys - queries)):
        distance = weft.reshape(weft.arange(queries), (-1, 1)) + offset - weft.arange(keys)
        for limit, side in ((0 if causal else right, -distance), (left, distance)):
            if limit >= 0:
                seen = side <= limit if seen is None else seen & (side <= limit)
        causal = False
    if seen is not None:
        if mask is None:
            mask = seen
        elif mask.dtype == "bool":
            mask = mask & seen
        else:
            mask = weft.where(seen, mask, weft.asarray(-math.inf, dtype=mask.dtype))
    y = weft.nn.attention(q, k, v, mask, lengths=valid, scale=scale, causal=causal, softcap=softcap)
    out = [weft.reshape(weft.permute_dims(y, (0, 2, 1, 3)), (y.shape[0], queries, -1)) if flat else y]
    if n.wants(1):
        out += [k, v]
    if n.wants(3):
        while len(out) < 3:
            out.append(None)
        groups = q.shape[1] // k.shape[1]
        scores = weft.matmul(q, weft.repeat(k, groups, axis=1).mT) * scale
        mode = n.get("qk_matmul_output_mode", 0)
        if softcap:
            scores = softcap * weft.tanh(scores / softcap)
        if mode >= 2:
            if valid is not None:
                inside = weft.arange(keys) < weft.reshape(valid, (-1, 1, 1, 1))
                seen = inside if seen is None else seen & inside
            if causal:
                ahead = weft.arange(keys) <= weft.reshape(weft.arange(queries), (-1, 1)) + past
                seen = ahead if seen is None else seen & ahead
            if mask is not None and mask.dtype != "bool":
                scores = scores + mask
            elif mask is not None:
                seen = mask if seen is None else mask & seen
            if seen is not None:
                scores = weft.where(seen, scores, weft.asarray(-math.inf, dtype=scores.dtype))
            if mode == 3:
                nothing = weft.max(scores, -1, True) == -math.inf
                scores = weft.where(nothing, weft.asarray(0.0, dtype=scores.dtype), weft.nn.softmax(scores))
        out.append(scores)
    return out


@op("RotaryEmbedding")
def _rotary(n, x, cos, sin, positions=None):
    x = n.array(x)
    flat = x.ndim == 3
    if flat:
        x = _heads(x, n.get("num_heads"))
    cos, sin = n.array(cos), n.array(sin)
    if positions is not None:
        positions = n.array(positions)
        cos, sin = weft.take(cos, positions, 0), weft.take(sin, positions, 0)
    width = n.get("rotary_embedding_dim", 0) or x.shape[3]
    turned, rest = x[..., :width], x[..., width:]
    cos, sin = cos[:, None, :, : width // 2], sin[:, None, :, : width // 2]
    interleaved = n.get("interleaved", 0)
    a, b = (turned[..., 0::2], turned[..., 1::2]) if interleaved else (turned[..., : width // 2], turned[..., width // 2 :])
    real, imaginary = cos * a - sin * b, sin * a + cos * b
    if interleaved:
        y = weft.reshape(weft.stack([real, imaginary], axis=-1), turned.shape)
    else:
        y = weft.concat([real, imaginary], axis=-1)
    if rest.shape[3]:
        y = weft.concat([y, rest], axis=-1)
    return weft.reshape(weft.permute_dims(y, (0, 2, 1, 3)), (y.shape[0], y.shape[2], -1)) if flat else y


# -- signals ----------------------------------------------------------------------------------------------------------


@op("HannWindow", "HammingWindow", "BlackmanWindow")
def _window_function(n, size):
    if n.get("output_datatype", 1) not in (TensorProto.FLOAT, TensorProto.FLOAT16):
        raise Skip("windows of other dtypes")
    count = int(number(size))
    period = count if n.get("periodic", 1) else count - 1
    turn = weft.arange(count) * (2 * math.pi / period)
    if n.proto.op_type == "HannWindow":
        return 0.5 - 0.5 * weft.cos(turn)
    if n.proto.op_type == "HammingWindow":
        return 25 / 46 - (1 - 25 / 46) * weft.cos(turn)
    return 0.42 - 0.5 * weft.cos(turn) + 0.08 * weft.cos(2 * turn)


@op("DFT")
def _dft(n, x, length=None, axis=None):
    module = need(weft, "fft")
    x = n.array(x)
    axis = (n.get("axis", 1) if axis is None else int(number(axis))) % x.ndim
    count = None if length is None else int(number(length))
    real = x.shape[-1] == 1
    at = axis - (x.ndim - 1)
    if n.get("onesided", 0):
        if n.get("inverse", 0):
            return weft.expand_dims(module.irfft(x, count, at), -1)
        if real:
            return module.rfft(x[..., 0], count, at)
    if real:
        x = weft.concat([x, weft.zeros_like(x)], axis=-1)
    y = (module.ifft if n.get("inverse", 0) else module.fft)(x, count, at)
    if n.get("onesided", 0):
        y = weft.split(y, [y.shape[axis] // 2 + 1], axis)[0]
    return y


# -- running ----------------------------------------------------------------------------------------------------------

DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training")
WHY_NOT = {
    "random": {"Bernoulli", "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Multinomial"},
    "control flow": {"SequenceMap"},
    "lengths that depend on values": {"NonZero", "Unique", "NonMaxSuppression"},
}


def missing(node):
    if node.domain not in ("", "ai.onnx"):
        return f"{node.op_type}: of {node.domain}, not in the library"
    for why, names in WHY_NOT.items():
        if node.op_type in names:
            return f"{node.op_type}: {why}"
    if node.op_type.startswith(("Sequence", "Optional", "String", "Split" + "ToSequence", "ConcatFrom", "Regex", "Tf")):
        return f"{node.op_type}: sequences, optional values and strings"
    return f"{node.op_type}: not in the library"


def run_model(model, inputs, run):
    """The outputs of a model's graph, each a weft.Array or numpy array."""
    run.opset = max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=0)
    return run_graph(model.graph, inputs, run, {})


def run_graph(graph, inputs, run, outer):
    """`outer`: what the graph sees of the one around it."""
    for node in graph.node:
        if node.op_type not in OPS or node.domain not in DOMAINS:
            raise Skip(missing(node))
    values = {**outer, **{t.name: numpy_helper.to_array(t) for t in graph.initializer}}
    values.update(zip((i.name for i in graph.input), inputs))
    values[""] = None
    for proto in graph.node:
        n = Node(proto, run, values)
        out = OPS[proto.op_type](n, *(values[name] for name in proto.input))
        out = out if isinstance(out, (list, tuple)) else [out]
        values.update((name, value) for name, value in zip(proto.output, out) if name)
    return [values[o.name] for o in graph.output]
