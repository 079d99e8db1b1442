"""Recurrent layers, one step and one gate at a time."""

from __future__ import annotations

import numpy as np
import scipy.special


def _lstm(tensors, reverse=False):
    given, h, c, weight = tensors
    out = np.empty((*given.shape[:2], h.shape[-1]))
    for t in range(len(given))[:: -1 if reverse else 1]:
        i, f, g, o = np.split(given[t] + h @ weight.T, 4, axis=1)
        c = scipy.special.expit(f) * c + scipy.special.expit(i) * np.tanh(g)
        h = out[t] = scipy.special.expit(o) * np.tanh(c)
    return out, c


def _gru(tensors, reverse=False):
    given, h, weight, *bias = tensors
    out = np.empty((*given.shape[:2], h.shape[-1]))
    for t in range(len(given))[:: -1 if reverse else 1]:
        (r, z, n), (hr, hz, hn) = np.split(given[t], 3, axis=1), np.split(h @ weight.T + sum(bias), 3, axis=1)
        z = scipy.special.expit(z + hz)
        h = out[t] = (1 - z) * np.tanh(n + scipy.special.expit(r + hr) * hn) + z * h
    return out


def _rnn(tensors, relu=False, reverse=False):
    given, h, weight = tensors
    out = np.empty(given.shape)
    for t in range(len(given))[:: -1 if reverse else 1]:
        z = given[t] + h @ weight.T
        h = out[t] = np.maximum(z, 0) if relu else np.tanh(z)
    return out


RECURRENT = {"gru_steps": _gru, "lstm_steps": _lstm, "rnn_steps": _rnn}
