"""Op by op, an independent expression in NumPy or SciPy: called like the op's `forward`, on float64 arrays, without `xp`."""

from __future__ import annotations

from .attention import ATTENTION
from .conv import CONVOLUTION
from .elementwise import ELEMENTWISE
from .fft import FOURIER
from .index import INDEX
from .linalg import LINEAR
from .loss import LOSS
from .norm import NORM
from .pool import POOL
from .recurrent import RECURRENT
from .reduce import ALONG
from .shape import SHAPE

TABLE = ATTENTION | SHAPE | INDEX | ELEMENTWISE | ALONG | NORM | CONVOLUTION | POOL | LINEAR | FOURIER | RECURRENT | LOSS
