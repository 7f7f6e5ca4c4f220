"""Fourier transforms. Complex numbers are float32 pairs (real, imaginary) along a last axis of length 2."""

from __future__ import annotations

from weft._weft import fft, ifft, irfft, rfft

__all__ = ["fft", "ifft", "irfft", "rfft"]
