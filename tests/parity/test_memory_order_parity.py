"""In which order results lie in memory: the strides of PyTorch's, for operands that are permuted or have their channels last."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import torch

import engine

pytestmark = pytest.mark.torch
IMAGE, WEIGHT = numpy.random.standard_normal((2, 5, 6, 3)).astype("float32"), numpy.random.standard_normal((4, 3, 3, 3)).astype("float32")
BOX = numpy.random.uniform(0.5, 1.5, (2, 3, 4)).astype("float32")
OPERANDS = {  # all of the shape (4, 2, 3), lying differently
    "permuted": lambda E, x: E.tensor(x).permute(2, 0, 1),
    "rows": lambda E, x: E.tensor(x).permute(2, 0, 1).contiguous(),
    "turned": lambda E, x: E.tensor(x).permute(2, 0, 1).transpose(0, 2).contiguous().transpose(0, 2),
    "row": lambda E, x: E.tensor(x)[0, :, 0],
    "one": lambda E, x: E.tensor(x).permute(2, 0, 1)[:1].contiguous(),
    "number": lambda E, x: 2.0,
}
OF_TWO = """x+y;x-y;x*y;x/y;x**y;E.maximum(x,y);E.atan2(x,y);x<y;x==y;E.fmod(x,y);E.where(E.as_tensor(x)>1,x,y);E.logical_and(E.as_tensor(x),E.as_tensor(y))
E.lerp(x,E.as_tensor(y).expand(4,2,3),0.5);E.addcmul(x,x,E.as_tensor(y));F.dropout(x+y,0.5);(x+y).relu();x.double()*y"""
OF_ONE = """F.relu(x);F.gelu(x);x.exp();-x;x.sigmoid();F.softmax(x,1);x.clone();x.double();F.dropout(x);E.rand_like(x);E.zeros_like(x);F.logsigmoid(x)
x.masked_fill(x>1,0.);x.clamp(0,1);F.leaky_relu(x);x.gather(1,(x*0).long());F.layer_norm(x,(3,));F.rms_norm(x,(3,));F.linear(x,x[0]);x.cumsum(0)
x@x.mT;E.cat([x,x]);E.stack([x,x])"""
OF_IMAGES = """F.conv2d(x,w);F.conv2d(x,w,padding=1,stride=2);F.conv_transpose2d(x,w.transpose(0,1));F.max_pool2d(x,2);F.avg_pool2d(x,2)
F.adaptive_avg_pool2d(x,2);F.adaptive_max_pool2d(x,2);F.interpolate(x,scale_factor=2);F.interpolate(x,scale_factor=2,mode='bilinear')
F.batch_norm(x,None,None,training=True);F.group_norm(x,3);F.pad(x,(1,1));F.relu(x);F.dropout2d(x);x.flatten(1);F.softmax(x,1);x.mean((2,3))
F.max_pool2d(x,2,return_indices=True)[1];F.relu(F.conv2d(x,w))+F.conv2d(x,w);E.cat([x,x]);E.cat([x,x[:,:1]],1)
E.cat([x,x.contiguous()],1);E.cat([x,x[:,:1].contiguous()],1);F.conv2d(x[:,:2],w[:,:2]);F.avg_pool2d(x[:,:1],2)"""


def cases(text: str) -> list[str]:
    return text.replace("\n", ";").split(";")


def strides(E: Any, text: str, **given: Any) -> tuple:
    return tuple(eval(text, {"E": E, "F": E.nn.functional, **given}).stride())


@pytest.mark.parametrize("second", OPERANDS)
@pytest.mark.parametrize("first", ["permuted", "rows", "turned"])
@pytest.mark.parametrize("text", cases(OF_TWO))
def test_of_two(text, first, second):
    if second == "number" and any(word in text for word in ("maximum", "atan2", "lerp", "addcmul")):
        second = "rows"  # they take no number
    told = [strides(E, text, x=OPERANDS[first](E, BOX), y=OPERANDS[second](E, BOX)) for E in (torch, engine)]
    assert told[0] == told[1]


@pytest.mark.parametrize("lying", ["permuted", "turned"])
@pytest.mark.parametrize("text", cases(OF_ONE))
def test_of_one(text, lying):
    told = [strides(E, text, x=OPERANDS[lying](E, BOX)) for E in (torch, engine)]
    assert told[0] == told[1]


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("text", cases(OF_IMAGES))
def test_of_images(text, last):
    told = []
    for E in (torch, engine):
        x = E.tensor(IMAGE).permute(0, 3, 1, 2)
        told.append(strides(E, text, x=x if last else x.contiguous(), w=E.tensor(WEIGHT)))
    assert told[0] == told[1]


def test_seeded_dropout_behind_a_sum_of_differently_laid_tensors():
    """Patches of an image that are turned, plus their positions: the first lines of a vision transformer."""

    def dropped(E: Any) -> Any:
        E.manual_seed(1)
        patches = E.nn.Conv2d(3, 8, 2, stride=2)(E.tensor(BOX)[:, None].expand(2, 3, 3, 4)[:, :, :2]).flatten(2).transpose(1, 2)
        return E.nn.functional.dropout(patches + E.ones(1, 2, 8), 0.5).detach().numpy()

    assert numpy.allclose(dropped(torch), dropped(engine), atol=1e-5)
