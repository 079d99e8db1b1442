"""Signal processing: `engine.signal.windows`."""

from . import windows
