"""`torchvision.datasets`: datasets in torchvision's folder layout, read from local files; `download=True` fetches missing ones."""

from .cifar import CIFAR10, CIFAR100
from .fakedata import FakeData
from .folder import DatasetFolder, ImageFolder
from .food101 import Food101
from .mnist import EMNIST, KMNIST, MNIST, FashionMNIST
from .stl10 import STL10
from .svhn import SVHN
from .vision import StandardTransform, VisionDataset

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "DatasetFolder",
    "EMNIST",
    "FakeData",
    "FashionMNIST",
    "Food101",
    "ImageFolder",
    "KMNIST",
    "MNIST",
    "STL10",
    "SVHN",
    "VisionDataset",
]
