"""PyTorch's names for the classes in `engine.data.fetch`."""

from ....data.fetch import MapFetcher as _MapDatasetFetcher  # noqa: F401
from ....data.fetch import StreamFetcher as _IterableDatasetFetcher  # noqa: F401
