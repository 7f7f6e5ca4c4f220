"""Linear algebra, under the names of the array API standard."""

from __future__ import annotations

from weft._functions import matrix_transpose, outer, tensordot, vecdot
from weft._weft import gemm, matmul, matmul_int8

__all__ = ["gemm", "matmul", "matmul_int8", "matrix_transpose", "outer", "tensordot", "vecdot"]
