# What stubgen can't see (see nanobind's documentation of pattern files).
weft._weft.__prefix__:
    import numpy

weft._weft.Array.__eq__:
    def __eq__(self, other: object, /) -> Array: ...  # type: ignore[override]

weft._weft.Array.__ne__:
    def __ne__(self, other: object, /) -> Array: ...  # type: ignore[override]

weft._weft.Array.__hash__:
    __hash__: None  # type: ignore[assignment]

weft._weft.Device.stream:
    @property
    def stream(self) -> Stream:
        """What operations of this thread record into."""
