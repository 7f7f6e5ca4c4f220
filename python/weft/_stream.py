"""Reads that asyncio waits for, and Device.stream."""

from __future__ import annotations

import asyncio

import weft._types
from weft import _weft
from weft._weft import Array, Device


def numpy_async(self) -> asyncio.Future[weft._types.NumpyArray]:
    """The elements, for `await`: the read begins now, and the event loop goes on until they are there."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    readback = _weft._Readback(self)

    def resolve(error) -> None:
        if future.done():  # given up
            return
        try:
            if error is not None:
                raise error
            future.set_result(readback.numpy())
        except Exception as e:
            future.set_exception(e)

    def done(error) -> None:
        try:
            loop.call_soon_threadsafe(resolve, error)
        except RuntimeError:
            pass  # the loop is closed, and nobody waits

    _weft._stream(self.device).on_complete(done)
    return future


def _attach() -> None:
    numpy_async.__module__, numpy_async.__qualname__ = Array.__module__, "Array.numpy_async"
    # setattr: for mypy they are the class's own already (stubs.pat has the property).
    setattr(Array, "numpy_async", numpy_async)
    setattr(Device, "stream", property(_weft._stream, doc="What operations of this thread record into."))


_attach()
