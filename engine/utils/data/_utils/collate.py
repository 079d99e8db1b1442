"""PyTorch's name for `engine.data.collate`."""

import re

from ....data.collate import *  # noqa: F403

np_str_obj_array_pattern = re.compile("[SaUO]")  # type codes of NumPy dtypes that cannot become tensors
