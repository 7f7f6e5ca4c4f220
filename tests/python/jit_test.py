"""weft.jit, weft.Graph and weft.lazy."""

import gc
import threading

import numpy as np
import pytest

import weft


def arrays(rng, *shapes, dtype=np.float32):
    return [weft.asarray(rng.standard_normal(s).astype(dtype)) for s in shapes]


# -- laziness


def programs(rng):
    """Functions of three arrays of (5, 7), (7,) and (5, 1)."""
    return [
        lambda a, b, c: weft.nn.relu(a * b + c),
        lambda a, b, c: weft.where(a > b, a - 1, c * 2.5) ** 2,
        lambda a, b, c: weft.clip(weft.exp(a) / (1 + weft.abs(b)), 0.25, 3) - c,
        lambda a, b, c: (a > 0) & (b < 0) | ~(c > 0),
        lambda a, b, c: weft.clip(a, b, c),
        lambda a, b, c: weft.clip(a, min=b),
        lambda a, b, c: (a * 10).astype("int32") // 3 % 5 << 1,
        lambda a, b, c: -a + +b - abs(c),
        lambda a, b, c: 2 / (a.T.reshape(7, 5).T + b) + weft.sum(c),
        lambda a, b, c: weft.nn.gelu(a @ weft.exp(b)) * 2 + 1,
        lambda a, b, c: weft.tanh(weft.exp(c)) * a,
        lambda a, b, c: (a.astype("bool") == True) + weft.isnan(b / 0),  # noqa: E712
        lambda a, b, c: weft.where(weft.asarray([True, False] * 3 + [True]), 1, 2) * a,
        lambda a, b, c: weft.pow(weft.abs(a), 1.5) + 1e30 * b + np.float32(2) * np.ones(7, "f4"),
    ]


def test_same_bits_as_eager(rng):
    a, b, c = arrays(rng, (5, 7), (7,), (5, 1))
    for i, f in enumerate(programs(rng)):
        eager = f(a, b, c)
        with weft.lazy():
            waiting = f(a, b, c)
        assert waiting.shape == eager.shape and waiting.dtype == eager.dtype, i
        np.testing.assert_array_equal(waiting.numpy(), eager.numpy(), err_msg=str(i))
        np.testing.assert_array_equal(weft.jit(f)(a, b, c).numpy(), eager.numpy(), err_msg=str(i))


def dispatches(f):
    before = weft.stats()["dispatches"]
    f()
    return weft.stats()["dispatches"] - before


def test_chains_fuse(rng):
    a, b, c = arrays(rng, (64,), (64,), (64,))

    def chain():
        return weft.nn.relu(a * b + c).numpy()

    with weft.lazy(False):
        assert dispatches(chain) == 3
    with weft.lazy():
        assert dispatches(chain) == 1
        x = a * b
        assert weft._weft._is_pending(x) and weft._weft._is_pending(x + 1)
        assert x.shape == (64,) and x.dtype == np.float32 and x.ndim == 1 and x.size == 64 and x.nbytes == 256
        assert weft._weft._is_pending(x), "its shape needs no elements"
        assert dispatches(lambda: x.numpy()) == 1 and dispatches(lambda: x.numpy()) == 0
        with weft.lazy(False):
            assert not weft._weft._is_pending(a + 1)
        # What nobody asks for never runs.
        assert dispatches(lambda: [a + i for i in range(10)]) == 0


def test_programs_have_bounds(rng):
    x = weft.asarray(rng.random(100, np.float32))

    def relus():
        y = x
        for _ in range(200):
            y = weft.nn.relu(y)
        return y.numpy()

    def many_inputs():
        total = x
        for i in range(1, 20):
            total = total + x[i : i + 1]
        return total.numpy()

    def many_numbers():
        y = x
        for i in range(40):
            y = y * 1.01 + i
        return y.numpy()

    def squares():
        y = x
        for _ in range(100):
            y = y * y + y
            y = y - y * 0.5
            y = weft.clip(y, 0, 1)
        return y.numpy()

    for f, most in ((relus, 5), (many_inputs, 5), (many_numbers, 12), (squares, 60)):
        with weft.lazy(False):
            eager = f()
        with weft.lazy():
            got = []
            assert dispatches(lambda: got.append(f())) <= most, f.__name__
        np.testing.assert_array_equal(got[0], eager, err_msg=f.__name__)


def test_a_dear_small_operand_is_not_computed_for_each_element(rng):
    small, big = arrays(rng, (1, 8), (512, 8))
    with weft.lazy():
        assert dispatches(lambda: (weft.exp(small) * big).numpy()) == 2


def test_errors_come_from_the_call_that_is_wrong(rng):
    a, b = arrays(rng, (3, 4), (5,))
    i = weft.asarray([1, 2, 3, 4])
    for f in (
        lambda: a + b, lambda: a + [1, 2], lambda: i + 2**40, lambda: ~a, lambda: a & a, lambda: weft.where(a > 0, a, b),
        lambda: a << 1, lambda: weft.clip(i, 0, 2**40), lambda: a + "x", lambda: weft.asarray(a) + None,
    ):  # fmt: skip
        texts = []
        for on in (False, True):
            with weft.lazy(on), pytest.raises((weft.Error, TypeError)) as e:
                f()
            texts.append((type(e.value), str(e.value)))
        assert texts[0] == texts[1]


def test_waiting_arrays_hold_what_they_need(rng):
    with weft.lazy():
        a = weft.asarray(rng.random(10, np.float32))
        want = a.numpy() * 2 + 1
        y = a * 2 + 1
        del a
        gc.collect()
        for _ in range(10):
            weft.asarray(np.zeros(10, np.float32)) + 1
        np.testing.assert_array_equal(y.numpy(), want)


def test_lazy_memory_is_flat(rng):
    x = weft.asarray(rng.random(1000, np.float32))
    with weft.lazy():
        y = x
        for k in range(3000):
            y = y * 0.5 + x
            if k == 300:
                weft.synchronize()
                live = weft.stats()["live_bytes"]
        y.numpy()
    del y
    gc.collect()
    assert weft.stats()["live_bytes"] <= live


def test_lazy_in_threads(rng):
    x = weft.asarray(rng.random(1000, np.float32))
    with weft.lazy():
        shared = x * 2 + 1
    want = x.numpy() * 2 + 1
    wrong = []

    def work():
        for _ in range(50):
            with weft.lazy():
                y = shared - x
            if not np.array_equal(y.numpy(), want - x.numpy()) or not np.array_equal(shared.numpy(), want):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


# -- jit


def test_replays_with_new_inputs(rng):
    calls = []

    @weft.jit
    def f(x, w, *, scale=1.0):
        calls.append(1)
        return weft.nn.softmax(x @ w * scale)

    for _ in range(5):
        x, w = arrays(rng, (9, 5), (5, 3))
        np.testing.assert_array_equal(f(x, w).numpy(), weft.nn.softmax(x @ w).numpy())
    assert len(calls) == 1 and len(f.graphs) == 1
    got = f(x, w, scale=2.0).numpy()
    np.testing.assert_array_equal(got, weft.nn.softmax(x @ w * 2.0).numpy())
    assert len(calls) == 2 and f.__name__ == "f" and "2 graphs" in repr(f)


def test_results_are_new_arrays(rng):
    f = weft.jit(lambda x: x * 2)
    x, y = arrays(rng, (10,), (10,))
    first = f(x)
    want = first.numpy()
    second = f(y)
    np.testing.assert_array_equal(first.numpy(), want)
    np.testing.assert_array_equal(second.numpy(), y.numpy() * 2)
    kept = [f(weft.full(10, i, dtype="float32")) for i in range(20)]
    assert [k.numpy()[0] for k in kept] == [2 * i for i in range(20)]
    # Of results that feed back, each is its own.
    y = x
    for _ in range(5):
        y = f(y)
    np.testing.assert_array_equal(y.numpy(), x.numpy() * 32)


def test_views_and_strides_as_inputs(rng):
    f = weft.jit(lambda x: weft.sum(x, axis=1) + x[:, 0])
    base = rng.standard_normal((12, 12)).astype(np.float32)
    d = weft.asarray(base)
    for view in (
        lambda a: a[:4, :6], lambda a: a[3:7, 2:8], lambda a: a.T[:4, :6], lambda a: a[::-3, ::2],
        lambda a: a[:1, :6].repeat(4, 0) if isinstance(a, np.ndarray) else weft.broadcast_to(a[:1, :6], (4, 6)),
        lambda a: a.reshape(-1)[5:29].reshape(4, 6),
    ):  # fmt: skip
        want = view(base)
        np.testing.assert_allclose(f(view(d)).numpy(), want.sum(1) + want[:, 0], rtol=1e-5, atol=1e-6)
    assert len(f.graphs) == 1


def test_what_a_function_returns(rng):
    (c,) = arrays(rng, (3,))

    def f(x, y):
        s = x + y
        host = weft.asarray(np.array([1.0, 2, 3], "f4"))
        return {"sum": s, "twice": (s, s[1:], s.T), "given": [x, x, c, c[1:]], "host": host, "n": 3, "none": None, "z": weft.zeros(0)}

    g = weft.jit(f)
    for _ in range(3):
        x, y = arrays(rng, (3,), (3,))
        got, want = g(x, y), f(x, y)
        assert list(got) == list(want) and got["n"] == 3 and got["none"] is None and got["z"].shape == (0,)
        assert type(got["twice"]) is tuple and type(got["given"]) is list
        for a, b in zip(weft_leaves(got), weft_leaves(want)):
            np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert weft.jit(lambda: None)() is None
    assert weft.jit(lambda: weft.arange(3))().numpy().tolist() == [0, 1, 2]
    assert weft.jit(lambda x: 5)(x) == 5


def weft_leaves(value):
    if isinstance(value, weft.Array):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [leaf for v in value for leaf in weft_leaves(v)] if isinstance(value, (tuple, list)) else []


def test_a_result_is_no_view_of_an_input(rng):
    f = weft.jit(lambda x: x)
    x = weft.asarray(np.zeros(8, "f4"))
    y = f(x)
    saxpy = weft.Kernel(
        "@group(0) @binding(0) var<storage, read_write> y: array<f32>;\n"
        "@compute @workgroup_size(8) fn main(@builtin(global_invocation_id) id: vec3u) { y[id.x] += 1.0; }"
    )
    saxpy(y=x)
    assert y.numpy().tolist() == [0] * 8 and x.numpy().tolist() == [1] * 8 and f(x).numpy().tolist() == [1] * 8


def test_the_same_array_twice_and_unused_arguments(rng):
    f = weft.jit(lambda a, b, unused: a * 2 + b)
    (x,) = arrays(rng, (6,))
    np.testing.assert_array_equal(f(x, x, x).numpy(), x.numpy() * 2 + x.numpy())
    np.testing.assert_array_equal(f(x, x + 1, x).numpy(), x.numpy() * 2 + (x.numpy() + 1))


def test_signatures(rng):
    traced = []

    @weft.jit
    def f(tree, k, flag=None):
        traced.append((k, flag))
        return tree["a"][0] * k + tree["b"]

    a, b = arrays(rng, (4,), (4,))
    for k in (2, 2.0, True, -0.0, 0.0):
        f(dict(a=(a,), b=b), k)
        f(dict(a=(b,), b=a), k)
    assert [str(k) for k, _ in traced] == ["2", "2.0", "True", "-0.0", "0.0"]
    f(dict(a=(a,), b=b.astype("int32")), 2)
    f(dict(a=[a], b=b), 2)
    f(dict(a=(a[:1],), b=b), 2)
    f(dict(a=(a,), b=b), 2, flag="x")
    f(dict(a=(a.numpy(),), b=b.numpy()), 2)  # numpy arrays are uploaded: no new kind
    assert len(traced) == 9
    with pytest.raises(weft.InvalidArgument, match="neither made of arrays nor hashable"):
        f(dict(a=(a,), b=b), {1, 2})


def test_the_cache_has_a_bound(rng):
    f = weft.jit(lambda x: x + 1, cache=3)
    for n in (1, 2, 3, 1, 4, 5):
        f(weft.zeros(n))
    assert [g._specs[0][0] for g in f.graphs] == [(1,), (4,), (5,)]
    f.clear()
    assert f.graphs == []
    for bad in (0, -1):
        with pytest.raises(weft.InvalidArgument, match="cache"):
            weft.jit(lambda x: x, cache=bad)
    with pytest.raises(weft.InvalidArgument):
        weft.jit(3)


def test_closures_are_constants(rng):
    w = weft.asarray(np.full(4, 2.0, "f4"))
    box = {"w": w}

    @weft.jit
    def f(x):
        return x * box["w"]

    x = weft.asarray(np.ones(4, "f4"))
    assert f(x).numpy().tolist() == [2] * 4
    # The array of the first call, kept by the graph although nobody else has it.
    box["w"] = weft.asarray(np.full(4, 5.0, "f4"))
    del w
    gc.collect()
    for _ in range(5):
        weft.asarray(np.full(4, 9.0, "f4")) + 1
    assert f(x).numpy().tolist() == [2] * 4
    f.clear()
    assert f(x).numpy().tolist() == [5] * 4


def test_a_waiting_closure(rng):
    x, y = arrays(rng, (4,), (4,))
    with weft.lazy():
        w = x * 3
    f = weft.jit(lambda a: a + w)
    want = y.numpy() + x.numpy() * 3
    np.testing.assert_array_equal(f(y).numpy(), want)
    np.testing.assert_array_equal(f(y).numpy(), want)
    np.testing.assert_array_equal(w.numpy(), x.numpy() * 3)
    with weft.lazy():
        waiting = y * 1
    np.testing.assert_array_equal(f(waiting).numpy(), want)


def test_reading_values_is_refused(rng):
    (x,) = arrays(rng, (4,))
    for f in (
        lambda a: a.numpy(), lambda a: a * 2 if a[0] > 0 else a, lambda a: float(a[0]), lambda a: a[:1].item(),
        lambda a: np.asarray(a), lambda a: a.tolist(), lambda a: weft.synchronize(), lambda a: a[a > 0],
    ):  # fmt: skip
        g = weft.jit(f)
        for _ in range(2):
            with pytest.raises(weft.InvalidArgument, match="weft.jit.*Fix: "):
                g(x)
        assert g.graphs == []
    np.testing.assert_array_equal(weft.jit(lambda a: a + 1)(x).numpy(), x.numpy() + 1)  # all is as before
    shown = []
    weft.jit(lambda a: shown.append(f"{a!r} {a}") or a)(x)
    assert shown[0].count("not known outside of its run") == 2


def test_indices_are_trusted(rng):
    (x,) = arrays(rng, (5, 3))
    n = x.numpy()
    picks = [weft.asarray(np.asarray(v, np.int32)) for v in ([4, 0, -1], [1, 1, 2])]
    step = weft.jit(lambda a, i: (a[i], weft.take(a, i, 1), weft.nn.embedding(a, i)))
    for i in picks:
        at = i.numpy()
        if at.max() < 3:
            np.testing.assert_array_equal(step(x, i)[1].numpy(), n[:, at])
        np.testing.assert_array_equal(step(x, i)[0].numpy(), n[at])
        np.testing.assert_array_equal(step(x, i)[2].numpy(), n[at])
    assert len(step.graphs) == 1
    along = weft.jit(lambda a, i: weft.take_along_axis(a, i, 1))
    order = np.argsort(n, axis=1).astype("i4")
    np.testing.assert_array_equal(along(x, weft.asarray(order)).numpy(), np.sort(n, axis=1))
    place = weft.jit(lambda a, i, u: weft.scatter_nd(a, i, u))
    want = n.copy()
    want[[1, 3]] = n[:2] * 2
    np.testing.assert_array_equal(place(x, weft.asarray([[1], [3]]), x[:2] * 2).numpy(), want)
    # Out of range there is nothing to raise an error: 0, and nothing written.
    far = weft.asarray(np.asarray([7, 1, -6], np.int32))
    np.testing.assert_array_equal(step(x, far)[0].numpy(), np.stack([n[0] * 0, n[1], n[0] * 0]))
    np.testing.assert_array_equal(place(x, weft.asarray([[9], [-7]]), x[:2]).numpy(), n)
    with pytest.raises(IndexError):
        weft.take(x, far, 0)


def test_arrays_that_escape_are_refused(rng):
    (x,) = arrays(rng, (4,))
    escaped = []
    weft.jit(lambda a: escaped.extend([a, a * 2, a[1:], weft.zeros(3)]) or a)(x)
    for e in escaped:
        assert e.shape and "not known" in repr(e)
        with pytest.raises(weft.InvalidArgument, match="outside of it.*return it"):
            e.numpy()
        with pytest.raises(weft.InvalidArgument, match="outside of it"):
            e + 1
        with weft.lazy(), pytest.raises(weft.InvalidArgument, match="outside of it"):
            e + 1


def test_exceptions(rng):
    (x,) = arrays(rng, (4,))
    fail = [True]

    @weft.jit
    def f(a):
        b = a + 1
        if fail[0]:
            raise KeyError("from the function")
        return b

    with pytest.raises(KeyError, match="from the function"):
        f(x)
    with pytest.raises(weft.InvalidArgument, match="broadcast|shape"):
        weft.jit(lambda a: a + weft.zeros(3))(x)
    assert not weft._weft._tracing() and (x + 1).numpy().shape == (4,)
    fail[0] = False
    np.testing.assert_array_equal(f(x).numpy(), x.numpy() + 1)


def test_nested(rng):
    (x,) = arrays(rng, (4,))
    inner = weft.jit(lambda a: weft.exp(a) + 1)
    inner(x)
    outer = weft.jit(lambda a: inner(a) * inner(a * 2))
    v = x.numpy()
    for _ in range(2):
        np.testing.assert_array_equal(outer(x).numpy(), (inner(x) * inner(x * 2)).numpy())
    assert len(inner.graphs) == 1 and v.shape == (4,)
    with pytest.raises(weft.InvalidArgument, match="inside"):
        weft.jit(lambda a: weft.Graph(lambda b: b, a)(a))(x)


def test_methods(rng):
    class Layer:
        def __init__(self, k):
            self.k = k

        @weft.jit
        def __call__(self, x):
            return x * self.k

    (x,) = arrays(rng, (4,))
    np.testing.assert_array_equal(Layer(2.0)(x).numpy(), x.numpy() * 2)
    np.testing.assert_array_equal(Layer(3.0)(x).numpy(), x.numpy() * 3)


def test_a_long_chain_is_few_kernels():
    def chain(x):
        for _ in range(1000):
            x = weft.nn.relu(x)
        return x

    f = weft.jit(chain)
    values = np.linspace(-1, 1, 4096, dtype=np.float32)
    x = weft.asarray(values)
    f(x)
    assert len(f.graphs[0].nodes) <= 16
    assert dispatches(lambda: f(x).numpy()) <= 16
    np.testing.assert_array_equal(f(x).numpy(), np.maximum(values, 0))


def test_graph(rng):
    a, b = arrays(rng, (4,), (4,))
    g = weft.Graph(lambda x, k: x * k, a, 3)
    np.testing.assert_array_equal(g(b, 3).numpy(), b.numpy() * 3)
    assert len(g.nodes) == 1 and "float32[4]" in repr(g)
    with pytest.raises(weft.InvalidArgument, match="differ"):
        g(b, 4)
    with pytest.raises(weft.InvalidArgument, match="captured as"):
        g(b[1:], 3)


def test_kernels_in_a_graph(rng):
    double = weft.Kernel(
        "@group(0) @binding(0) var<storage, read> x: array<f32>;\n"
        "@group(0) @binding(1) var<storage, read_write> y: array<f32>;\n"
        "@compute @workgroup_size(8) fn main(@builtin(global_invocation_id) id: vec3u) {\n"
        "  let i = linear_index(id); if (i < arrayLength(&y)) { y[i] += 2.0 * x[i]; } }"
    )
    f = weft.jit(lambda x: double(x=x + 1, out=dict(y=x.shape)) - 1)
    for _ in range(3):
        (x,) = arrays(rng, (20,))
        np.testing.assert_allclose(f(x).numpy(), 2 * (x.numpy() + 1) - 1, rtol=1e-5, atol=1e-6)

    def changes(x, y):
        double(x=x, y=y)
        return y

    with pytest.raises(weft.InvalidArgument, match="is an argument.*out="):
        weft.jit(changes)(x, weft.zeros(20))
    closed = weft.zeros(20)
    with pytest.raises(weft.InvalidArgument, match="from outside"):
        weft.jit(lambda x: double(x=x, y=closed))(x)

    def own(x):
        y = weft.zeros(20)
        double(x=x, y=y)
        return y

    g = weft.jit(own)
    for _ in range(2):
        np.testing.assert_array_equal(g(x).numpy(), 2 * x.numpy())


def test_jit_from_many_threads(rng):
    f = weft.jit(lambda x: weft.tanh(x @ x) * 2)
    wrong = []

    def work(seed):
        r = np.random.default_rng(seed)
        for _ in range(30):
            x = weft.asarray(r.standard_normal((8, 8)).astype(np.float32))
            if not np.array_equal(f(x).numpy(), (weft.tanh(x @ x) * 2).numpy()):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_memory_is_flat():
    f = weft.jit(lambda x: weft.nn.softmax(x * 2) + 1)
    x = weft.ones((64, 64))
    for k in range(600):
        y = f(x)
        if k == 100:
            weft.synchronize()
            gc.collect()
            live = weft.stats()["live_bytes"]
    assert y.numpy().shape == (64, 64)
    assert weft.stats()["live_bytes"] <= live
    del f, y
    gc.collect()
    assert weft.stats()["live_bytes"] < live
