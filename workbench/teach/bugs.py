"""The bugs that can be seeded into a training program: each changes model, optimizer, loss or data, and no source code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import engine
import engine.nn.functional as F
from engine import nn
from engine.core.tensor import Tensor

Task = Literal["classes", "numbers"]


@dataclass
class Program:
    """What a training loop is made of. `patch` changes it so that `undo` can put everything back."""

    model: Any
    optimizer: Any
    loss: Callable
    data: Any
    _undo: list[Callable[[], Any]] = field(default_factory=list)

    def train(self) -> list[float]:
        """The plain loop, once over the data; the losses."""
        self.model.train()
        losses = []
        for x, y in self.data:
            self.optimizer.zero_grad()
            loss = self.loss(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        return losses

    def patch(self, subject: Any, name: str, value: Any) -> None:
        """An attribute of this one object."""
        had, before = name in vars(subject), vars(subject).get(name)
        object.__setattr__(subject, name, value)
        self._undo.append(lambda: object.__setattr__(subject, name, before) if had else object.__delattr__(subject, name))

    def fill(self, tensor: Tensor, change: Callable[[Tensor], Any]) -> None:
        """The values of a parameter."""
        before = tensor.detach().clone()
        with engine.no_grad():
            change(tensor)

        def back() -> None:
            with engine.no_grad():
                tensor.copy_(before)

        self._undo.append(back)

    def undo(self) -> None:
        """As it was, in reverse order."""
        while self._undo:
            self._undo.pop()()


@dataclass(frozen=True)
class Bug:
    """One kind of mistake. It is fixed if the weights equal those of the program without it or, with `learns`, if the loss falls as far."""

    name: str
    title: str  # among the choices of "which one is it?"
    finding: str  # the code of the check that finds it; "" where only looking helps
    hints: tuple[str, str, str]  # where to look; what to look at; what it is
    repair: str
    plant: Callable[[Program], None]
    task: Task = "classes"
    learns: bool = False  # there is more than one good repair


def _layers(program: Program) -> list[Any]:
    if not isinstance(program.model, nn.Sequential):
        raise ValueError(f"This bug goes into an nn.Sequential, not into {type(program.model).__name__}")
    return list(program.model)


def _first(program: Program, kinds: Any, what: str) -> Any:
    found = next((one for one in program.model.modules() if isinstance(one, kinds)), None)
    if found is None:
        raise ValueError(f"This bug needs a model with {what}")
    return found


def _no_zero_grad(program: Program) -> None:
    program.patch(program.optimizer, "zero_grad", lambda set_to_none=True: None)


def _zero_after_backward(program: Program) -> None:
    optimizer, step = program.optimizer, program.optimizer.step

    def emptied(closure: Any = None) -> Any:
        optimizer.zero_grad()
        return step(closure)

    program.patch(optimizer, "step", emptied)


def _softmax_axis(program: Program) -> None:
    program.loss = lambda scores, labels: F.nll_loss(F.log_softmax(scores, 0), labels)


def _double_softmax(program: Program) -> None:
    sound = program.loss
    program.loss = lambda scores, labels: sound(scores.softmax(1), labels)


def _detached(program: Program) -> None:
    layers = _layers(program)
    middle = len(layers) // 2

    def forward(x: Any) -> Any:
        for at, layer in enumerate(layers):
            x = layer(x.detach() if at == middle else x)
        return x

    program.patch(program.model, "forward", forward)


def _evaluation(program: Program) -> None:
    _first(program, (nn.Dropout, nn.BatchNorm1d, nn.BatchNorm2d), "Dropout or BatchNorm")
    model = program.model
    was = [(one, one.training) for one in model.modules()]
    model.eval()
    program._undo.append(lambda: [setattr(one, "training", mode) for one, mode in was])
    program.patch(model, "train", lambda mode=True: model)


def _rate(program: Program) -> None:
    for group in program.optimizer.param_groups:
        before = group["lr"]
        group["lr"] = 300 * before
        program._undo.append(lambda group=group, before=before: group.update(lr=before))


def _forgotten(program: Program) -> None:
    group = program.optimizer.param_groups[0]
    before = list(group["params"])
    if len(before) < 3:
        raise ValueError("This bug needs an optimizer of at least three parameters")
    group["params"] = before[:-2]
    program._undo.append(lambda: group.update(params=before))


def _broadcast(program: Program) -> None:
    program.data = [(x, y.reshape(-1)) for x, y in program.data]


class _Shifted:
    """Batches whose labels have slipped by one row."""

    def __init__(self, data: Any) -> None:
        self._data = list(data)

    def __len__(self) -> int:
        return len(self._data)

    def __iter__(self) -> Iterator[tuple]:
        for x, y in self._data:
            yield x, y[engine.roll(engine.arange(len(y)), 1)]


def _shifted(program: Program) -> None:
    program.data = _Shifted(program.data)


def _dead(program: Program) -> None:
    _first(program, nn.ReLU, "a ReLU")
    program.fill(_first(program, nn.Linear, "a Linear").bias, lambda bias: bias.fill_(-100.0))


def _vanishing(program: Program) -> None:
    for layer in [one for one in program.model.modules() if isinstance(one, nn.Linear)]:
        for parameter in layer.parameters():
            program.fill(parameter, lambda values: values.mul_(1e-5))


def _in_place(program: Program) -> None:
    layers = _layers(program)
    _first(program, (nn.Tanh, nn.Sigmoid), "a Tanh or a Sigmoid")

    def forward(x: Any) -> Any:
        for layer in layers:
            x = layer(x)
            if isinstance(layer, (nn.Tanh, nn.Sigmoid)):
                x.mul_(0.9)
        return x

    program.patch(program.model, "forward", forward)


class Totalled:
    """A loss that keeps a running total, with the graph of every loss in it."""

    def __init__(self, sound: Callable) -> None:
        self.sound, self.total = sound, 0.0

    def __call__(self, scores: Tensor, labels: Tensor) -> Tensor:
        loss = self.sound(scores, labels)
        self.total = self.total + loss
        return loss


def _totalled(program: Program) -> None:
    program.loss = Totalled(program.loss)


def _dtype(program: Program) -> None:
    program.data = [(x, y.float()) for x, y in program.data]


BUGS = {bug.name: bug for bug in (
    Bug("no_zero_grad", "Gradients are never cleared", "missing-zero-grad",
        ("Compare .grad from one iteration to the next.", "Is weight.grad after the second backward() that of the second batch alone?",
         "optimizer.zero_grad() does nothing: each backward() adds to what was there."),
        "Set p.grad = None for every parameter yourself, or call model.zero_grad().", _no_zero_grad),
    Bug("zero_after_backward", "Gradients are cleared before the step", "zero-grad-before-step",
        ("Do the weights change at all?", "Is there a gradient when the optimizer takes its step?",
         "optimizer.step() sets the gradients to None before it uses them."),
        "Call the class's own step: type(optimizer).step(optimizer).", _zero_after_backward),
    Bug("softmax_axis", "The softmax runs over the wrong axis", "",
        ("Look at the loss, not at the model.", "Which sums of the probabilities are 1: those of the rows, or those of the columns?",
         "log_softmax(scores, 0) compares the samples of a batch with one another instead of the classes."),
        "Use F.cross_entropy(scores, labels), which takes axis 1.", _softmax_axis),
    Bug("double_softmax", "There are two softmaxes", "softmax-before-cross-entropy",
        ("Look at the loss, not at the model.", "What goes into cross_entropy: logits, or numbers between 0 and 1?",
         "The scores go through softmax, and cross_entropy applies log_softmax again: it cannot get below about 0.55 with three classes."),
        "Give the logits to F.cross_entropy.", _double_softmax),
    Bug("detach", "A detach() cuts the graph in the middle", "gradient-cut",
        ("Which parameters have a gradient?", "Where in the graph is the last tensor without grad?",
         "In the middle of the model x.detach() cuts the path: the layers before it get no gradient."),
        "Call the layers one after the other yourself: for layer in model: x = layer(x).", _detached),
    Bug("eval_mode", "The model stays in evaluation mode", "eval-mode-in-training",
        ("Run the same batch twice. Is anything random, as it should be?", "What is model.training?",
         "model.train() does nothing, so Dropout does not drop."),
        "Call the class's own method: type(model).train(model).", _evaluation),
    Bug("learning_rate", "The learning rate is much too large", "learning-rate-too-large",
        ("Look at the sequence of losses.", "How large is an update beside the weight that it changes?",
         "The learning rate is three hundred times what it was: each step jumps across the valley."),
        "Set group['lr'] in optimizer.param_groups to a three-hundredth.", _rate, learns=True),
    Bug("forgotten_layer", "The optimizer does not know all parameters", "not-in-optimizer",
        ("Which weights change, and which never do?", "Compare model.parameters() with optimizer.param_groups[0]['params'].",
         "The last layer's parameters get a gradient, but are in no optimizer."),
        "optimizer.add_param_group({'params': ...}) with those that are missing.", _forgotten),
    Bug("broadcast_loss", "Broadcasting makes the loss compare everything with everything", "broadcast-in-loss",
        ("Look at shapes.", "What is the shape of prediction minus target?",
         "The targets have the shape (N,), the predictions (N, 1): the difference is N by N."),
        "Give the targets the predictions' shape: y.reshape(-1, 1).", _broadcast, "numbers"),
    Bug("labels_shifted", "Labels belong to other samples", "targets-shuffled-alone",
        ("The program is correct. Look at its inputs.", "Take one sample: is its label the right one?",
         "The labels have slipped by one row within each batch."),
        "Roll them back: y[engine.roll(engine.arange(len(y)), -1)].", _shifted),
    Bug("dead_relu", "ReLUs are dead from the start", "dead-units",
        ("Look at activations.", "What share of the units is 0 for every sample?",
         "The first layer's bias is far below zero, so its ReLUs give 0 for everything and let no gradient through."),
        "Initialize the first layer anew: model[0].reset_parameters().", _dead, learns=True),
    Bug("vanishing_init", "The weights start so small that gradients vanish", "vanishing-gradient",
        ("Look at the norms of the gradients, layer by layer.", "How large are the weights at the start?",
         "All weights and biases were made a hundred thousand times smaller: each layer shrinks the gradient by as much."),
        "Initialize anew: layer.reset_parameters() for every Linear.", _vanishing, learns=True),
    Bug("in_place", "An in-place write destroys what backward needs", "in-place-overwrite",
        ("Read the error: which op could not run backward?", "Who wrote into the result of that op after it was saved?",
         "The result of tanh is scaled by mul_(), and tanh's rule needs that very result."),
        "Call the layers yourself, and leave the mul_ out: it was not there before.", _in_place),
    Bug("graph_kept", "A running total keeps every graph alive", "loss-without-item",
        ("Compare memory from one iteration to the next.", "What refers to the graphs of earlier turns?",
         "The loss adds itself to loss.total with its graph: total += loss instead of total += loss.item()."),
        "Use loss.sound, or set loss.total = loss.total.detach() after each turn.", _totalled),
    Bug("target_dtype", "The targets have the wrong dtype", "target-dtype",
        ("Read the error, then look at the inputs of the loss.", "What dtype do class indices have?",
         "The labels are floats; cross_entropy takes class indices as int64."),
        "y.long()", _dtype),
)}  # fmt: skip
