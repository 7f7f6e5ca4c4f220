"""weft.Kernel: WGSL of the user's, called with arrays by name."""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weft import _convert, _weft
from weft._errors import InvalidArgument, OutOfRange
from weft._weft import Array, Device

_SCALARS = {"f32": ("f", 4), "i32": ("i", 4), "u32": ("I", 4), "f16": ("e", 2)}
_SUFFIXES = {"f": "f32", "i": "i32", "u": "u32", "h": "f16"}
_ELEMENTS = {"f32": np.float32, "i32": np.int32, "u32": np.uint32, "f16": np.float16}


def _constant(name: str, value: Any) -> list[str]:
    """[name, WGSL type, WGSL text]; as the command's --set, numbers from 0 on are u32."""
    if isinstance(value, str):
        return [name, "alias", value]
    if isinstance(value, (bool, np.bool_)):
        return [name, "bool", "true" if value else "false"]
    if isinstance(value, np.float16):
        return [name, "f16", f"{float(value)!r}h"]
    if isinstance(value, (float, np.floating)):
        if not np.isfinite(np.float32(value)):
            raise OutOfRange(f"weft.Kernel: the constant {name} is {value}, and WGSL has no such f32", "pass it in params")
        return [name, "f32", f"{float(np.float32(value)):.9e}f"]
    if isinstance(value, np.int32) or (isinstance(value, int) and value < 0):
        if int(value) < -(2**31):
            raise OutOfRange(f"weft.Kernel: the constant {name} is {value}, which does not fit i32", "use a float")
        return [name, "i32", f"i32({int(value)})"]
    if isinstance(value, (int, np.integer)):
        if not 0 <= int(value) < 2**32:
            raise OutOfRange(f"weft.Kernel: the constant {name} is {value}, which does not fit u32", "use a float")
        return [name, "u32", f"{int(value)}u"]
    raise InvalidArgument(
        f"weft.Kernel: the constant {name} is {type(value).__name__}",
        "give a bool, int, float, one of numpy's scalars, or a str for an alias of a type",
    )


def _shape_of(type_name: str) -> tuple[str, int, int] | None:
    """(scalar, columns, rows) of f32, vec3f, vec3<f32>, mat4x3f, mat4x3<f32>."""
    if type_name in _SCALARS:
        return type_name, 1, 1
    found = re.fullmatch(r"vec([234])(?:<(\w+)>|([fiuh]))", type_name)
    if found:
        return found[2] or _SUFFIXES[found[3]], 1, int(found[1])
    found = re.fullmatch(r"mat([234])x([234])(?:<(\w+)>|([fh]))", type_name)
    if found:
        return found[3] or _SUFFIXES[found[4]], int(found[1]), int(found[2])
    return None


def _packer(name: str, type_name: str, offset: int) -> Callable[[bytearray, Any], None]:
    """Writes a value of Python's at its place in `struct Params`."""
    shape = _shape_of(type_name)
    if shape is None or shape[0] not in _SCALARS:
        raise InvalidArgument(f"weft.Kernel: the parameter {name} is {type_name}", "pass params as bytes")
    scalar, columns, rows = shape
    code, size = _SCALARS[scalar]
    one = struct.Struct(f"<{code}")
    # A column of three starts where one of four would.
    step = size * (rows if rows < 3 else 4)

    def write(to: bytearray, value: Any) -> None:
        try:
            if columns == rows == 1:
                if code in "iI" and isinstance(value, float) and value.is_integer():
                    value = int(value)
                one.pack_into(to, offset, value)
                return
            values = np.asarray(value)
            wanted = (rows,) if columns == 1 else (columns, rows)
            if values.shape != wanted:
                raise InvalidArgument(
                    f"weft.Kernel: params.{name} is {type_name}, and the value has shape {values.shape}",
                    f"give shape {wanted}" + ("" if columns == 1 else ": one row for each column of the matrix"),
                )
            for c, column in enumerate(values.reshape(columns, rows)):
                for r, item in enumerate(column.tolist()):
                    one.pack_into(to, offset + c * step + r * size, item)
        except (struct.error, TypeError, OverflowError) as e:
            raise InvalidArgument(
                f"weft.Kernel: params.{name} is {type_name}, and {value!r} is none", "give a number that fits"
            ) from e

    return write


class Kernel:
    """A WGSL kernel.

        scale = weft.Kernel('''
          struct Params { a: f32 }
          @group(0) @binding(0) var<storage, read> x: array<f32>;
          @group(0) @binding(1) var<storage, read_write> y: array<f32>;
          @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
            let i = linear_index(id);
            if (i < arrayLength(&y)) { y[i] = params.a * x[i]; }
          }''')
        y = scale(x=x, out=dict(y=x.shape), params=dict(a=2.0))

    The runtime declares `params` and `linear_index`. constants: names that the source may use, as bool, int (u32, below
    0 i32), float (f32), a scalar of numpy's, or a str, which becomes an alias of that type. overrides: values of the
    source's `override` declarations.

    Compiled here for `device`, else the default one, and again for the devices of other arrays that it is called with.
    """

    def __init__(
        self,
        source: str,
        entry: str = "main",
        *,
        constants: Mapping[str, Any] | None = None,
        overrides: Mapping[str, float] | None = None,
        label: str = "",
        device: Device | None = None,
    ) -> None:
        if not isinstance(source, str):
            raise InvalidArgument(f"weft.Kernel: the source is {type(source).__name__}", "give WGSL as a str")
        self._arguments = (
            source,
            entry,
            label or entry,
            [_constant(k, v) for k, v in (constants or {}).items()],
            [(k, float(v)) for k, v in (overrides or {}).items()],
        )
        self._compiled: dict[int, Any] = {}
        first = self._on(device or _weft.default_device())
        self._bindings = {name: (kind, writable) for name, kind, writable, _ in first.bindings}
        self._params = first.params
        self._size = first.params_size
        self._packers: dict[str, Callable[[bytearray, Any], None]] | None = None

    def _on(self, device: Device):
        found = self._compiled.get(device.id)
        if found is None:
            found = self._compiled[device.id] = _weft._Kernel.compile(device, *self._arguments)
        return found

    @property
    def label(self) -> str:
        """What errors and profiles call it."""
        return self._arguments[2]

    @property
    def bindings(self) -> dict[str, str]:
        """WGSL types of the arrays by name."""
        return {name: kind for name, (kind, _) in self._bindings.items()}

    @property
    def params(self) -> dict[str, str]:
        """WGSL types of the members of struct Params by name."""
        return {p[0]: p[1] for p in self._params}

    def __repr__(self) -> str:
        return f"<weft.Kernel {self.label}({', '.join(f'{n}: {k}' for n, k in self.bindings.items())})>"

    def __copy__(self) -> Kernel:
        return self  # it never changes

    def __deepcopy__(self, memo) -> Kernel:
        return self

    def __reduce__(self):
        raise TypeError("weft: a kernel is compiled for a device here. Fix: pickle its source, and make it anew.")

    def __call__(
        self,
        arrays: Mapping[str, Any] | None = None,
        /,
        *,
        params: Mapping[str, Any] | bytes | None = None,
        out: Mapping[str, Any] | None = None,
        grid: int | Sequence[int] | None = None,
        elements: int | None = None,
        device: Device | None = None,
        **named: Any,
    ):
        """Records the kernel and returns the arrays that it made: one, a tuple in the order of `out`, or None.

        Arrays by name, as keywords or (for names such as `grid`) in a dict; what is only read may be anything that
        asarray takes. A written binding is either an Array, which changes (the one way in which an Array does), or in
        `out`: a shape, or (shape, dtype), of a new array, all zero at first.

        grid: workgroups, one to three numbers; elements: one thread for each of so many; neither: one thread for each
        element of the first written array.
        """
        for name, value, what in (("the first argument", arrays, "arrays"), ("out", out, "shapes")):
            if value is not None and not isinstance(value, Mapping):
                raise InvalidArgument(f"weft.Kernel: {name} is {type(value).__name__}", f"give a dict of {what} by name")
        if elements is not None and (not hasattr(elements, "__index__") or not 0 <= operator.index(elements) < 2**64):
            raise InvalidArgument(f"weft.Kernel: elements is {elements!r}", "give a whole number from 0 on")
        given = {**(arrays or {}), **named}
        out = out or {}
        self._check_names(given, out)
        device = device or next((a.device for a in given.values() if isinstance(a, Array)), None) or _weft.default_device()
        for name, value in given.items():
            if not isinstance(value, Array) and not self._bindings[name][1]:
                given[name] = _convert.asarray(value, self._element(name), device)
        made = {}
        for name, spec in out.items():
            shape, dtype = spec if isinstance(spec, tuple) and len(spec) == 2 and not isinstance(spec[1], int) else (spec, None)
            made[name] = _weft.zeros(shape, self._element(name) if dtype is None else dtype, device=device)
        for name, value in given.items():
            if not isinstance(value, Array):
                raise InvalidArgument(
                    f"weft.Kernel: '{name}' is written, and is {type(value).__name__}",
                    f"give a weft.Array, or its shape in out: out={{'{name}': shape}}",
                )
        given.update(made)
        self._on(device).call(list(given), list(given.values()), self._pack(params), grid, elements, device)
        results = tuple(made.values())
        return None if not results else results[0] if len(results) == 1 else results

    def _element(self, name: str):
        """The dtype of the array's elements where the source says it by itself."""
        kind = self._bindings[name][0]
        inner = re.sub(r"^array<(.*?)(,\w+)?>$", r"\1", kind)
        shape = _shape_of(re.sub(r"^atomic<(.*)>$", r"\1", inner))
        return _ELEMENTS.get(shape[0]) if shape else None

    def _check_names(self, given: Mapping[str, Any], out: Mapping[str, Any]) -> None:
        for name in (*given, *out):
            if name not in self._bindings:
                raise InvalidArgument(
                    f"weft.Kernel: {self.label} has no array '{name}'", f"it has {', '.join(self._bindings) or 'none'}"
                )
        for name, (kind, writable) in self._bindings.items():
            if name in given and name in out:
                raise InvalidArgument(f"weft.Kernel: '{name}' is given, and in out too", "keep one of them")
            if name in out and not writable:
                raise InvalidArgument(f"weft.Kernel: '{name}' is in out, and the kernel only reads it", "give an array")
            if name not in given and name not in out:
                fix = f"give {name}=array" + (f", or its shape in out: out={{'{name}': shape}}" if writable else "")
                raise InvalidArgument(f"weft.Kernel: {self.label} needs the array '{name}' ({kind})", fix)

    def _pack(self, params: Mapping[str, Any] | bytes | None) -> bytes:
        if isinstance(params, (bytes, bytearray)):
            return bytes(params)
        if params is None and not self._params:
            return b""
        if params is not None and not isinstance(params, Mapping):
            raise InvalidArgument(f"weft.Kernel: params is {type(params).__name__}", "give a dict of values by name, or bytes")
        if self._packers is None:
            self._packers = {name: _packer(name, kind, offset) for name, kind, offset, _ in self._params}
        values = params or {}
        if values.keys() != self._packers.keys():
            for name in values:
                if name not in self._packers:
                    raise InvalidArgument(
                        f"weft.Kernel: {self.label} has no parameter '{name}'",
                        f"it has {', '.join(self._packers)}" if self._packers else "declare it in struct Params",
                    )
            missing = [name for name in self._packers if name not in values]
            raise InvalidArgument(
                f"weft.Kernel: {self.label} needs the parameters {', '.join(missing)}",
                f"give params=dict({missing[0]}=...)",
            )
        packed = bytearray(self._size)
        for name, write in self._packers.items():
            write(packed, values[name])
        return bytes(packed)
