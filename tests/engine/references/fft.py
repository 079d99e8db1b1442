"""Fourier transforms."""

from __future__ import annotations

import scipy.fft

FOURIER = {
    "fourier": lambda input, dims, scale=1.0: scipy.fft.fftn(input, axes=dims) * scale,
    "fourier_back": lambda input, dims, scale=1.0: scipy.fft.ifftn(input, axes=dims, norm="forward") * scale,
}
