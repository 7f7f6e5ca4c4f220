"""ONNX's operators with a state that goes from step to step. Imported for what it puts into onnx_ops.OPS."""

import math

import weft
from onnx_ops import Skip, op


def _rnn_cell(p, x, h, c):
    return weft.tanh(p.of("i", x) + p.of("h", h)), c


def _gru_cell(p, x, h, c):
    wz, wr, wh = weft.split(p.of("i", x), 3, -1)
    rz, rr, rh = weft.split(p.of("h", h), 3, -1)
    z, r = weft.nn.sigmoid(wz + rz), weft.nn.sigmoid(wr + rr)
    if not p.linear_before_reset:
        rh = p.of("h", r * h)[:, 2 * h.shape[1] :]
    return (1.0 - z) * weft.tanh(wh + r * rh if p.linear_before_reset else wh + rh) + z * h, c


def _lstm_cell(p, x, h, c):
    i, o, f, g = weft.split(p.of("i", x) + p.of("h", h), 4, -1)
    pi, po, pf = (0.0, 0.0, 0.0) if p.peephole is None else weft.split(p.peephole, 3, -1)
    i, f = weft.nn.sigmoid(i + pi * c), weft.nn.sigmoid(f + pf * c)
    c = f * c + i * weft.tanh(g)
    return weft.nn.sigmoid(o + po * c) * weft.tanh(c), c


class _Direction:
    """The weights of one direction."""

    def __init__(self, w, r, bias, peephole, linear_before_reset):
        self.weight = {"i": w.T, "h": r.T}
        halves = (0.0, 0.0) if bias is None else weft.split(bias, 2)
        self.bias = dict(zip("ih", halves))
        self.peephole, self.linear_before_reset = peephole, linear_before_reset

    def of(self, side, x):
        return weft.matmul(x, self.weight[side]) + self.bias[side]


def _recurrent(n, cell, x, w, r, b, lengths, h0, c0=None, peepholes=None):
    if lengths is not None and any(int(i) != x.shape[0] for i in lengths):
        raise Skip(f"{n.proto.op_type}: sequences of several lengths")
    if n.get("activations") or n.get("clip") or n.get("input_forget", 0):
        raise Skip(f"{n.proto.op_type}: other activations")
    x, w, r = n.arrays([x, w, r])
    b, h0, c0, peepholes = (None if a is None else n.array(a) for a in (b, h0, c0, peepholes))
    batch_first = n.get("layout", 0)
    if batch_first:
        x = weft.swapaxes(x, 0, 1)
        h0, c0 = (None if a is None else weft.swapaxes(a, 0, 1) for a in (h0, c0))
    size, batch = r.shape[2], x.shape[1]
    backwards = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[n.get("direction", "forward")]
    ys, hs, cs = [], [], []
    for d, back in enumerate(backwards):
        pick = lambda a: None if a is None else a[d]  # noqa: B023, E731
        p = _Direction(w[d], r[d], pick(b), pick(peepholes), n.get("linear_before_reset", 0))
        h = weft.zeros((batch, size)) if h0 is None else h0[d]
        c = weft.zeros((batch, size)) if c0 is None else c0[d]
        rows = []
        for step in weft.unstack(x)[:: -1 if back else 1]:
            h, c = cell(p, step, h, c)
            rows.append(h)
        ys.append(weft.stack(rows[:: -1 if back else 1]))
        hs.append(h)
        cs.append(c)
    y, h, c = weft.stack(ys, 1), weft.stack(hs), weft.stack(cs)
    if batch_first:
        y, h, c = weft.permute_dims(y, (2, 0, 1, 3)), weft.swapaxes(h, 0, 1), weft.swapaxes(c, 0, 1)
    return [y, h, c][: n.outputs]


@op("RNN")
def _rnn(n, x, w, r, b=None, lengths=None, h=None):
    return _recurrent(n, _rnn_cell, x, w, r, b, lengths, h)


@op("GRU")
def _gru(n, x, w, r, b=None, lengths=None, h=None):
    return _recurrent(n, _gru_cell, x, w, r, b, lengths, h)


@op("LSTM")
def _lstm(n, x, w, r, b=None, lengths=None, h=None, c=None, peepholes=None):
    return _recurrent(n, _lstm_cell, x, w, r, b, lengths, h, c, peepholes)


@op("CausalConvWithState")
def _causal_conv(n, x, w, b=None, past=None):
    x, w = n.array(x), n.array(w)
    channels, width = w.shape[0], w.shape[2]
    past = weft.zeros((x.shape[0], channels, width - 1), x.dtype) if past is None else n.array(past)
    whole = weft.concat([past, x], axis=2)
    activation = "silu" if n.get("activation", "none") in ("silu", "swish") else None
    y = weft.nn.conv(whole, w, None if b is None else n.array(b), groups=channels, activation=activation)
    return [y, whole[:, :, whole.shape[2] - (width - 1) :]][: n.outputs]


@op("LinearAttention")
def _linear_attention(n, q, k, v, past=None, decay=None, beta=None):
    q, k, v = n.arrays([q, k, v])
    heads, groups, rule = n.get("kv_num_heads"), n.get("q_num_heads") // n.get("kv_num_heads"), n.get("update_rule", "gated_delta")

    def unpacked(x, count):
        x = n.array(x)
        return weft.astype(weft.reshape(x, (*x.shape[:2], count, -1)), "float32")

    qs, ks, vs = unpacked(q, heads * groups), unpacked(k, heads), unpacked(v, heads)
    scale = n.get("scale", 0.0) or 1 / math.sqrt(qs.shape[3])
    state = weft.zeros((q.shape[0], heads, ks.shape[3], vs.shape[3])) if past is None else weft.astype(n.array(past), "float32")
    fades = None if decay is None or rule in ("linear", "delta") else weft.exp(unpacked(decay, heads))
    rates = None if beta is None or "delta" not in rule else unpacked(beta, n.array(beta).shape[2])
    rows = []
    for t in range(q.shape[1]):
        key, value = ks[:, t, :, :, None], vs[:, t, :, None, :]
        if fades is not None:
            state = state * fades[:, t, :, :, None]
        if rates is not None:
            value = rates[:, t, :, :, None] * (value - weft.matmul(key.mT, state))
        state = state + key * value
        rows.append(scale * weft.matmul(qs[:, t, :, None, :], weft.repeat(state, groups, axis=1)))
    y = weft.reshape(weft.stack(rows, 1), (*q.shape[:2], -1))
    return [weft.astype(y, q.dtype), weft.astype(state, q.dtype)][: n.outputs]
