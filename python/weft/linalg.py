"""Linear algebra, under the names of the array API standard."""

from __future__ import annotations

from weft._functions import matrix_transpose, outer, tensordot, vecdot
from weft._weft import matmul

__all__ = ["matmul", "matrix_transpose", "outer", "tensordot", "vecdot"]
