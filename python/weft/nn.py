"""Layers of neural networks."""

from __future__ import annotations

from weft import _weft
from weft._errors import InvalidArgument
from weft._weft import (
    Array,
    attention,
    avg_pool,
    batch_norm,
    conv,
    conv_transpose,
    embedding,
    group_norm,
    layer_norm,
    log_softmax,
    max_pool,
    one_hot,
    relu,
    rms_norm,
    sigmoid,
    silu,
    softmax,
    tanh,
)

__all__ = [
    "attention",
    "avg_pool",
    "batch_norm",
    "conv",
    "conv_transpose",
    "embedding",
    "gelu",
    "group_norm",
    "layer_norm",
    "log_softmax",
    "max_pool",
    "one_hot",
    "relu",
    "rms_norm",
    "sigmoid",
    "silu",
    "softmax",
    "tanh",
]


def gelu(x, approximate: str = "none") -> Array:
    """x times the normal distribution's probability below x; approximate='tanh' takes the usual formula for it."""
    if approximate not in ("none", "tanh"):
        raise InvalidArgument(f"gelu: approximate is {approximate!r}", "use 'none' or 'tanh'")
    return _weft._gelu(x) if approximate == "none" else _weft._gelu_tanh(x)
