"""Reads that asyncio waits for, and Device.stream."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from weft import _weft
from weft._weft import Array, Device, Stream

if TYPE_CHECKING:
    import weft._types


def numpy_async(self) -> asyncio.Future[weft._types.HostArray]:
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


def stream(self) -> Stream:
    """What operations of this thread record into."""
    return _weft._stream(self)


def _attach() -> None:
    numpy_async.__module__, numpy_async.__qualname__ = Array.__module__, "Array.numpy_async"
    setattr(Array, "numpy_async", numpy_async)
    stream.__module__, stream.__qualname__ = Device.__module__, "Device.stream"
    setattr(Device, "stream", property(stream))


_attach()
