#!/usr/bin/env python3
"""Fits the polynomials of src/ops/element_math.cpp and prints their coefficients.

Minimax by Lawson's reweighting of least squares on Chebyshev nodes, the functions in 40 digits. Needs numpy and mpmath.
"""
import mpmath as mp
import numpy as np

mp.mp.dps = 40


def fit(name, f, low, high, degree, weight, nodes=400):
    """Fits f on low .. high so that max |error * weight| is least; prints it and the coefficients, lowest first."""
    xs = [(mp.mpf(low) + high) / 2 + (mp.mpf(high) - low) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * nodes))
          for i in range(nodes)]
    x = np.array([float(v) for v in xs])
    y = np.array([float(f(v)) for v in xs])
    w = np.array([float(weight(v)) for v in xs])
    scale = max(abs(low), abs(high))
    powers = np.vander(x / scale, degree + 1, increasing=True)
    share = np.ones(nodes) / nodes
    best, coefficients = np.inf, None
    for _ in range(300):
        s = np.sqrt(share) * w
        c = np.linalg.lstsq(powers * s[:, None], y * s, rcond=None)[0]
        error = np.abs((powers @ c - y) * w)
        if error.max() < best:
            best, coefficients = error.max(), c
        share *= error
        share /= share.sum()
    values = (np.float32(c / float(scale) ** i) for i, c in enumerate(coefficients))
    print(f'{name}: error {best:.2g}\n  ' + ', '.join(f'{v:.9g}' for v in values))


def log_erfcx_over_t(t):
    """ln(erfc(z) e^(z^2) / t), z = 2/t - 2; far out by the asymptotic series."""
    z = 2 / t - 2
    if t >= 0.02:
        return mp.log(mp.erfc(z) / t) + z * z
    series = sum((-1) ** k * mp.fac2(2 * k - 1) / (2 * z * z) ** k for k in range(8))
    return mp.log(series / (z * mp.sqrt(mp.pi))) - mp.log(t)


def odd(f, limit):
    """(f(x)/x - 1)/x^2 as a function of z = x^2; `limit` at 0."""
    return lambda z: (f(mp.sqrt(z)) / mp.sqrt(z) - 1) / z if z > 1e-12 else limit


half_ln2 = float(mp.log(2) / 2 * mp.mpf('1.01'))
root2 = float(mp.sqrt(2))
quarter = float((mp.pi / 4 * mp.mpf('1.01')) ** 2)
fit('expm1_near_0', lambda r: (mp.expm1(r) - r) / r**2 if abs(r) > 1e-12 else mp.mpf(1) / 2, -half_ln2, half_ln2, 5,
    lambda r: abs(r) + 1e-9)
fit('log1p_cubic', lambda f: (mp.log1p(f) - f + f * f / 2) / f**3 if abs(f) > 1e-9 else mp.mpf(1) / 3 - f / 4,
    1 / root2 - 1.0005, root2 - 0.9995, 8, lambda f: f * f)
fit('sin_near_0', odd(mp.sin, mp.mpf(-1) / 6), 1e-13, quarter, 3, lambda z: z)
fit('cos_near_0', lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2 if z > 1e-9 else mp.mpf(1) / 24, 1e-13, quarter, 3,
    lambda z: z * z)
fit('f_atan2', odd(mp.atan, mp.mpf(-1) / 3), 1e-13, 1.0, 8, lambda z: z)
fit('f_tanh', odd(mp.tanh, mp.mpf(-1) / 3), 1e-13, 0.36 * 1.01, 4, lambda z: z)
fit('erfc_times', log_erfcx_over_t, 2 / 13, 1.0, 9, lambda t: 1, 200)
fit('f_erf', lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) if z > 1e-20 else 2 / mp.sqrt(mp.pi), 1e-13, 1.0, 6, lambda z: 1)
