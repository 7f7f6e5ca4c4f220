"""ONNX's control flow, run on the host. Imported for what it puts into onnx_ops.OPS."""

import numpy as np

import weft
from onnx_ops import Skip, number, op, run_graph


def _ask(condition):
    return bool(number(condition))


@op("If")
def _if(n, condition):
    return run_graph(n.get("then_branch" if _ask(condition) else "else_branch"), [], n.run, n.scope)


def _stacked(n, rows, axis=0, backwards=False):
    rows = [n.array(r) for r in (rows[::-1] if backwards else rows)]
    return weft.stack(rows, axis)


@op("Loop")
def _loop(n, most=None, condition=None, *states):
    body = n.get("body")
    states = list(states)
    rows = [[] for _ in range(len(body.output) - 1 - len(states))]
    turn = 0
    while (most is None or turn < number(most)) and (condition is None or _ask(condition)):
        out = run_graph(body, [np.array(turn, np.int64), np.array(True), *states], n.run, n.scope)
        if any(isinstance(s, list) for s in (*states, *out)):
            raise Skip("dtype: there are no sequences and optional values")
        condition, states = out[0], out[1 : 1 + len(states)]
        for row, value in zip(rows, out[1 + len(states) :]):
            row.append(value)
        turn += 1
    return [*states, *(_stacked(n, row) for row in rows)]


def _scan_once(n, states, inputs):
    body, count = n.get("body"), n.get("num_scan_inputs")
    axes, directions = n.get("scan_input_axes", [0] * count), n.get("scan_input_directions", [0] * count)
    parts = []
    for x, axis, backwards in zip(inputs, axes, directions):
        slices = weft.unstack(n.array(x), axis=axis)
        parts.append(slices[::-1] if backwards else slices)
    made = len(body.output) - len(states)
    rows = [[] for _ in range(made)]
    for now in zip(*parts):
        out = run_graph(body, [*states, *now], n.run, n.scope)
        states = out[: len(states)]
        for row, value in zip(rows, out[len(states) :]):
            row.append(value)
    ends = zip(rows, n.get("scan_output_axes", [0] * made), n.get("scan_output_directions", [0] * made))
    return [*states, *(_stacked(n, row, axis, backwards) for row, axis, backwards in ends)]


@op("Scan")
def _scan(n, *given):
    count = n.get("num_scan_inputs")
    if n.opset >= 9:
        return _scan_once(n, list(given[: len(given) - count]), given[len(given) - count :])
    if given[0] is not None:
        raise Skip("Scan: lengths of sequences in version 8")
    # Version 8: all have a batch in front.
    states = len(given) - 1 - count
    items = zip(*(weft.unstack(n.array(x)) for x in given[1:]))
    runs = [_scan_once(n, list(item[:states]), item[states:]) for item in items]
    return [weft.stack([n.array(x) for x in column]) for column in zip(*runs)]
