"""The exceptions that Weft raises: weft.Error and, by what went wrong, one that is also Python's own of that kind."""

from __future__ import annotations


class Error(Exception):
    """Every failure in Weft. `str(e)` says what happened, with the numbers, and ends in "Fix: ...".

    code: a stable lower-case name such as "out_of_memory"; message and fix: the two parts of the text.
    """

    code = "internal"

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(f"{message}. Fix: {fix}." if fix else message)
        self.message = message
        self.fix = fix

    def __reduce__(self):
        return type(self), (self.message, self.fix)


class InvalidArgument(Error, ValueError):
    """Arguments that contradict each other, or what the call asks for."""

    code = "invalid_argument"


class DTypeError(InvalidArgument, TypeError):
    """A dtype that Weft has no arrays of, or that an operation has no meaning for, or an object that is no array."""


class OutOfRange(Error, IndexError, ValueError):
    """An index, axis or number past the end. Both of Python's kinds, as numpy's AxisError is."""

    code = "out_of_range"


class OutOfMemory(Error, MemoryError):
    """The device, or the host, has no room."""

    code = "out_of_memory"


class TimedOut(Error, TimeoutError):
    """A deadline passed; everything stays usable."""

    code = "timed_out"

    __str__ = Exception.__str__  # OSError's own would look for an errno


class Unsupported(Error, RuntimeError):
    """The device, or this build, lacks a feature."""

    code = "unsupported"


class CompileError(Error, RuntimeError):
    """WGSL did not compile."""

    code = "compile_error"


class DeviceLost(Error, RuntimeError):
    """The device is gone; open another."""

    code = "device_lost"


class ForeignBuffer(Error, ValueError):
    """Arrays of two devices met."""

    code = "foreign_buffer"


class IoError(Error, OSError):
    """A file could not be read or written."""

    code = "io_error"

    __str__ = Exception.__str__


class InternalError(Error, RuntimeError):
    """A fault of Weft or of the driver below it."""

    code = "internal"


_BY_CODE = {
    c.code: c
    for c in (
        InvalidArgument,
        OutOfRange,
        OutOfMemory,
        TimedOut,
        Unsupported,
        CompileError,
        DeviceLost,
        ForeignBuffer,
        IoError,
        InternalError,
    )
}

for _c in (Error, DTypeError, *_BY_CODE.values()):
    _c.__module__ = "weft"  # as users name them


def make(code: str, message: str, fix: str) -> Error:
    """For the C++ part. "dtype" is a kind of invalid_argument."""
    return (DTypeError if code == "dtype" else _BY_CODE.get(code, InternalError))(message, fix)
