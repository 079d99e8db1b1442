"""Static plots with matplotlib. Every function takes `ax=`, draws on it or on a new figure, and returns the Axes.

Nothing is shown until you call `plt.show()`, and matplotlib is imported lazily with the first plot.
"""

from __future__ import annotations

from .curves import learning_curves, update_ratio
from .distributions import histograms
from .gradients import gradient_flow
from .surface import Landscape, landscape, loss_surface, random_directions
from .values import images, tensor

__all__ = [
    "Landscape",
    "gradient_flow",
    "histograms",
    "images",
    "landscape",
    "learning_curves",
    "loss_surface",
    "random_directions",
    "tensor",
    "update_ratio",
]
