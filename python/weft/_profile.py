"""weft.profile: what ran, when, and for how long."""

from __future__ import annotations

import os
from typing import Any

from weft import _weft
from weft._errors import InvalidArgument
from weft._weft import Device


class profile:
    """Records what runs inside a with-block.

        with weft.profile() as p:
            step(x).numpy()
        print(p)                # kernels and what the host did, by time
        p.save("step.json")     # opens in Perfetto or chrome://tracing

    Waits for the work before and after. Each kernel then runs by itself, so that it can be timed. When the block
    raises, there is no profile.
    """

    def __init__(self, device: Device | None = None) -> None:
        if device is not None and not isinstance(device, Device):
            raise InvalidArgument(f"weft.profile of {type(device).__name__}", "give a weft.Device, or nothing")
        self._device = device
        self._profiler: Any = None
        self._trace: Any = None

    def __enter__(self) -> profile:
        if self._profiler is not None:
            raise InvalidArgument("this weft.profile is entered already", "make another one")
        self._trace = None
        self._profiler = _weft._Profiler(self._device or _weft.default_device())
        return self

    def __exit__(self, kind, value, traceback) -> None:
        profiler, self._profiler = self._profiler, None
        if kind is not None:
            profiler.drop()
            return
        self._trace = profiler.finish()

    def _done(self):
        if self._trace is None:
            raise InvalidArgument("this weft.profile has nothing recorded", "read it after its with-block")
        return self._trace

    @property
    def events(self) -> list[dict[str, Any]]:
        """By start: name, category, on_device, thread, start_us, duration_us, grid, bytes."""
        return self._done().events

    @property
    def has_device_times(self) -> bool:
        """False when the device has no timestamps: then there are spans of the host only."""
        return self._done().has_device_times

    @property
    def duration_us(self) -> float:
        """From the begin of the block until its work was done."""
        return self._done().duration_us

    def table(self) -> str:
        """Kernels by time, then what the host did, as text: what print shows."""
        return self._done().table()

    def save(self, path: str | os.PathLike) -> None:
        """Chrome's trace event format."""
        self._done().save(os.fspath(path))

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return "<weft.profile, not finished>" if self._trace is None else self.table()
