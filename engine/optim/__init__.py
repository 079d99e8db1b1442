"""Optimizers and learning-rate schedulers, under PyTorch's names."""

from . import lr_scheduler, optimizer, swa_utils
from .adam import Adam, Adamax, AdamW, NAdam, RAdam
from .adaptive import Adadelta, Adagrad, RMSprop
from .factored import Adafactor, Muon
from .lbfgs import LBFGS
from .optimizer import Optimizer
from .sgd import ASGD, SGD, Rprop
from .sparse_adam import SparseAdam
from .swapping import swap_in_optimizer_params_and_state

__all__ = [
    "ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "NAdam", "Optimizer", "RAdam", "RMSprop", "Rprop", "SGD",
    "SparseAdam",
    "lr_scheduler",
]  # fmt: skip
