"""Names for annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from weft._weft import Array

# What asarray takes: an Array, or what numpy makes an array of, numbers among it.
ArrayLike: TypeAlias = Union["Array", npt.ArrayLike]
# "float32", numpy.float32, weft.float32, float, ...
DTypeLike: TypeAlias = Union[str, type, np.dtype[Any]]
# Under a name that a class with a method numpy() can use.
NumpyArray: TypeAlias = np.ndarray[Any, Any]
