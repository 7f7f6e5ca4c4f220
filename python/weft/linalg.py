"""Linear algebra, under the names of the array API standard."""

from __future__ import annotations

from weft._functions import cross, diagonal, matrix_norm, matrix_transpose, outer, tensordot, trace, vecdot
from weft._weft import gemm, matmul, matmul_int8, vector_norm

__all__ = [
    "cross",
    "diagonal",
    "gemm",
    "matmul",
    "matmul_int8",
    "matrix_norm",
    "matrix_transpose",
    "outer",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]
