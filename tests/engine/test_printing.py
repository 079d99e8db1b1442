"""Tensors as text: the strings are PyTorch 2.13's, with `engine.` for `torch.`."""

from __future__ import annotations

import math

import numpy
import pytest

import engine

