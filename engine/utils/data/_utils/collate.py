"""PyTorch's address of `engine.data.collate`."""

import re

from ....data.collate import *  # noqa: F403

np_str_obj_array_pattern = re.compile("[SaUO]")  # the NumPy dtypes, by their letters, that cannot become tensors
