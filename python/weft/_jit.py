"""weft.jit and weft.Graph: a function of arrays, recorded once and replayed."""

from __future__ import annotations

import functools
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from weft import _convert, _weft
from weft._errors import Error, InvalidArgument
from weft._weft import Array, Device

_LEAF = object()


def _flatten(value: Any, leaves: list[Any]):
    """The arrays, numpy's too, go to `leaves`; what is left, hashable, tells all else: containers and static values."""
    if isinstance(value, Array):
        leaves.append(value)
        return _LEAF
    if isinstance(value, (bool, int, float, str, bytes, type(None))):
        # 1, 1.0 and True are equal, -0.0 and 0.0 too, and none may stand for the other.
        return type(value), repr(value) if isinstance(value, float) else value, _Static(value)
    if isinstance(value, (tuple, list)):
        return type(value), tuple(_flatten(v, leaves) for v in value)
    if isinstance(value, dict):
        return dict, tuple(value), tuple(_flatten(v, leaves) for v in value.values())
    if isinstance(value, slice):  # not hashable before Python 3.12
        return slice, tuple(_flatten(v, leaves) for v in (value.start, value.stop, value.step))
    if isinstance(value, np.ndarray):
        leaves.append(value)  # _settle brings it to the device of the others
        return _LEAF
    if isinstance(value, np.generic):
        return type(value), repr(value), _Static(value)
    try:
        hash(value)
    except TypeError:
        raise InvalidArgument(
            f"weft.jit: an argument is {type(value).__name__}, which is neither made of arrays nor hashable",
            "pass arrays, numbers, strings, and tuples, lists and dicts of these",
        ) from None
    if type(value).__eq__ is object.__eq__:
        try:
            # One of its kind, such as the `self` of a method: a graph is no reason for it to live on.
            ref = weakref.ref(value)
            return type(value), ref, _Weak(ref)
        except TypeError:
            pass
    return type(value), value, _Static(value)


def _settle(leaves: list[Any]) -> list[Array]:
    return _convert.asarrays(*leaves) if any(isinstance(a, np.ndarray) for a in leaves) else leaves


class _Static:
    """A value that the rest of its key tells apart."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Static)

    def __hash__(self) -> int:
        return 0


class _Weak(_Static):
    """Of an object that its caller keeps: here is only a weak reference."""

    __slots__ = ()


def _unflatten(tree, leaves):
    """`leaves`: an iterator."""
    if tree is _LEAF:
        return next(leaves)
    if isinstance(tree[-1], _Static):
        return tree[-1].value() if isinstance(tree[-1], _Weak) else tree[-1].value
    if tree[0] is dict:
        return {k: _unflatten(t, leaves) for k, t in zip(tree[1], tree[2])}
    parts = [_unflatten(t, leaves) for t in tree[1]]
    if tree[0] is list:
        return parts
    return tree[0](*parts) if tree[0] is slice or hasattr(tree[0], "_fields") else tree[0](parts)


def _weak_in(tree) -> list[weakref.ref]:
    if not isinstance(tree, tuple):
        return [tree.value] if isinstance(tree, _Weak) else []
    return [ref for part in tree for ref in _weak_in(part)]


def _flatten_result(value: Any, leaves: list[Array]):
    """Of what the function returned. What is no array is given back as it is."""
    if isinstance(value, Array):
        leaves.append(value)
        return _LEAF
    if isinstance(value, (tuple, list)):
        return type(value), tuple(_flatten_result(v, leaves) for v in value)
    if isinstance(value, dict):
        return dict, tuple(value), tuple(_flatten_result(v, leaves) for v in value.values())
    return (_Static(value),)


class Graph:
    """What a function of arrays records on a device, captured by one call of it; Graph(function, *args) makes it.

    A call with arguments of the same kinds (shapes, dtypes, the same static values) replays it: no Python, no look-ups,
    one submit. Results are new arrays each time. weft.jit keeps one Graph for each kind of arguments.
    """

    def __init__(self, function: Callable, /, *args: Any, **kwargs: Any) -> None:
        leaves: list[Array] = []
        tree = _flatten((args, kwargs), leaves)
        self._begin(function, tree, _settle(leaves))

    @classmethod
    def _of(cls, function: Callable, tree, leaves: list[Array]) -> Graph:
        self = cls.__new__(cls)
        self._begin(function, tree, leaves)
        return self

    def _begin(self, function: Callable, tree, leaves: list[Array]) -> None:
        if _weft._tracing():
            raise InvalidArgument("weft.Graph inside a function of weft.jit", "make it outside")
        self._watched: list[weakref.ref] = []
        self.name = getattr(function, "__name__", type(function).__name__)
        self._tree = tree
        self._specs = [(a.shape, a.dtype) for a in leaves]
        self.device: Device = leaves[0].device if leaves else _weft.default_device()
        _check_devices(leaves, self.device)

        def traced(arguments: list[Array]) -> list[Array]:
            args, kwargs = _unflatten(tree, iter(arguments))
            made: list[Array] = []
            self._result = _flatten_result(function(*args, **kwargs), made)
            return made

        try:
            self._graph = _weft._Graph(self.device, self._specs, traced)
        except Error as e:
            if "capturing" not in str(e):
                raise
            raise InvalidArgument(
                f"weft.jit: {self.name} needs the elements of an array while it is captured, when nothing has run yet "
                f"({e.message})",
                "read, or index with masks, outside of the function; choose by value with weft.where",
            ) from e

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves: list[Array] = []
        tree = _flatten((args, kwargs), leaves)
        if tree != self._tree:
            raise InvalidArgument(
                f"weft.Graph of {self.name}: the arguments differ from those captured in more than the arrays' elements",
                "make another Graph, or use weft.jit, which does so by itself",
            )
        return self._run(_settle(leaves))

    def _run(self, leaves: list[Array]) -> Any:
        made = self._graph.run(leaves)
        return made[0] if self._result is _LEAF else _unflatten(self._result, iter(made))

    @property
    def nodes(self) -> list[tuple[str, tuple[int, int, int]]]:
        """What a run records: labels of kernels, "copy" or "clear", with their workgroups."""
        return self._graph.nodes()

    def __repr__(self) -> str:
        arguments = ", ".join(f"{d}{list(s)}" for s, d in self._specs)
        return f"<weft.Graph {self.name}({arguments}): {len(self.nodes)} commands>"


def _check_devices(leaves: list[Array], device: Device) -> None:
    for a in leaves:
        if a.device != device:
            raise InvalidArgument(
                f"weft.jit: arguments on devices {device.id} and {a.device.id}", "bring them to one with weft.asarray"
            )


def _forget(graphs: dict[Any, Graph], key: Any, _: weakref.ref) -> None:
    """An argument of the call that the graph was made for is gone, and nobody can call it again."""
    graphs.pop(key, None)


class _Jitted:
    """A function whose calls replay graphs."""

    def __init__(self, function: Callable, cache: int) -> None:
        if not callable(function):
            raise InvalidArgument(f"weft.jit of {type(function).__name__}", "give a function")
        if not isinstance(cache, int) or cache < 1:
            raise InvalidArgument(f"weft.jit: cache is {cache!r}", "give a whole number from 1 on")
        functools.update_wrapper(self, function)
        self._function = function
        self._bound = cache
        self._graphs: OrderedDict[Any, Graph] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _weft._tracing():
            return self._function(*args, **kwargs)  # becomes part of the graph that is being captured
        leaves: list[Array] = []
        if kwargs:
            tree = _flatten((args, kwargs), leaves)
        else:
            tree = tuple, (_flatten(args, leaves), (dict, (), ()))
        try:
            key = (tree, *[_weft._signature(a) for a in leaves])
        except TypeError:  # an array of numpy's among them
            leaves = _settle(leaves)
            key = (tree, *[_weft._signature(a) for a in leaves])
        graph = self._graphs.get(key)
        if graph is None:
            graph = Graph._of(self._function, tree, leaves)
            drop = functools.partial(_forget, self._graphs, key)
            graph._watched = [weakref.ref(ref(), drop) for ref in _weak_in(tree)]
            with self._lock:
                self._graphs[key] = graph
                while len(self._graphs) > self._bound:
                    self._graphs.popitem(last=False)
        elif len(self._graphs) > 1:
            with self._lock:
                if key in self._graphs:
                    self._graphs.move_to_end(key)
        return graph._run(leaves)

    def __copy__(self) -> _Jitted:
        return self  # as functions do

    def __deepcopy__(self, memo) -> _Jitted:
        return self

    def __reduce__(self):
        raise TypeError("weft: graphs of weft.jit stay in their process. Fix: pickle the function, and wrap it anew.")

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)

    @property
    def graphs(self) -> list[Graph]:
        """Those kept, the one that was used longest ago first."""
        return list(self._graphs.values())

    def clear(self) -> None:
        """Drops all graphs: the next call captures anew, with the closure's arrays as they are then."""
        with self._lock:
            self._graphs.clear()

    def __repr__(self) -> str:
        return f"<weft.jit {getattr(self._function, '__name__', self._function)!s}: {len(self._graphs)} graphs>"


def jit(function: Callable | None = None, /, *, cache: int = 32):
    """A function of arrays that is recorded at the first call, and replayed after it.

        step = weft.jit(lambda a: weft.nn.layer_norm(a @ w))
        y = step(x)

    The function runs once for each kind of its arguments: the shapes, dtypes and device of arrays, wherever they stand
    in tuples, lists and dicts, and the values of all else (numbers, strings, None, anything hashable). Of an object such
    as a method's `self` that is which one it is, not what it holds: attributes are those of the first call. A number that
    changes from call to call is better passed as an array of no axes: weft.asarray(x). Elementwise chains in it become
    one kernel. Results are new arrays each time.

    Arrays that the function takes from elsewhere (its closure, globals) are constants: those of the first call. What
    needs elements (`.numpy()`, `if x > 0`, indexing with masks) is refused, as nothing has run yet; for the same reason
    an index out of range is no error in it, but gives 0, or writes nothing. A function of jit that is called in another
    becomes part of that one's graph. cache: how many graphs are kept; the one unused longest goes first.
    """
    if function is None:
        return lambda f: _Jitted(f, cache)
    return _Jitted(function, cache)
