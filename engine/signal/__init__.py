"""`engine.signal`: windows."""

from . import windows
