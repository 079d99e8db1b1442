"""`workbench run`: a program runs on the engine as `python` would run it: arguments, exit status, tracebacks, -m, spawned processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "workbench.cli", "run"]


@pytest.fixture
def ran(tmp_path):
    """Writes a program and runs it, in a folder of its own: (status, what it printed, what it printed as errors)."""

    def run(text: str, *arguments: str, name: str = "program.py", first: tuple[str, ...] | None = None, command=COMMAND):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
        done = subprocess.run(
            [*command, *(first or (name,)), *arguments], cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=900
        )
        return done.returncode, done.stdout, done.stderr

    return run


def test_a_program_finds_what_python_would_give_it(ran, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "beside.py").write_text("import torch\nword = 'beside'\n")
    text = (
        "import sys, os, beside, torch, engine\n"
        "print([sys.argv, sys.path[0], __file__, __name__, __package__, beside.word])\n"
        "assert sys.modules['__main__'].__dict__ is globals() and torch is engine and beside.torch is engine\n"
    )
    status, told, wrong = ran(text, "--lr", "1", "--", "-m", "x", name="sub/program.py")
    sub = tmp_path.resolve() / "sub"
    expected = [["sub/program.py", "--lr", "1", "--", "-m", "x"], str(sub), str(sub / "program.py"), "__main__", None, "beside"]
    assert (status, told, wrong) == (0, f"{expected}\n", "")


@pytest.mark.parametrize(
    "text",
    [
        "import sys\nsys.exit(7)",
        "import sys\nsys.exit('a sentence')",
        "raise SystemExit",
        "import atexit\natexit.register(lambda: print('last'))\nprint('first')",
        "def f():\n    1 / 0\n\nf()",
        "try:\n    {}['a']\nexcept KeyError as error:\n    raise ValueError('b') from error",
        "try:\n    {}['a']\nexcept KeyError:\n    raise ValueError('b')",
        "x = (",
        "import sys\nsys.excepthook = lambda *error: print('mine', error[0].__name__)\n1 / 0",
        "import nothing_of_that_name",
        "raise KeyboardInterrupt",
        "import os\nos._exit(5)",
    ],
)
def test_it_ends_as_under_python(text, ran):
    status, told, wrong = ran(text)
    expected = ran(text, command=[sys.executable])
    assert (told, wrong) == expected[1:]
    assert status == expected[0] or (status, expected[0]) == (130, -2)  # an interrupt: what a shell says of it


def test_a_file_that_is_not_there(ran):
    status, _, wrong = ran("", first=("nowhere.py",))
    assert status == 2
    assert "can't open file" in wrong and "nowhere.py" in wrong and "Errno 2" in wrong


def test_a_module(ran, tmp_path):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "pkg" / "other.py").write_text("import torch\n")
    text = "import sys\nfrom . import other\nprint([sys.argv, sys.path[0], __package__, __spec__.name])"
    status, told, wrong = ran(text, "a", "-b", name="pkg/__main__.py", first=("-m", "pkg"))
    folder = tmp_path.resolve()
    assert (status, told, wrong) == (0, f"{[[str(folder / 'pkg' / '__main__.py'), 'a', '-b'], str(folder), 'pkg', 'pkg.__main__']}\n", "")
    assert ran("", first=("-m", "nowhere"))[::2] == (1, "workbench: No module named nowhere\n")


def test_a_module_of_pytorchs_is_the_engines(ran):
    status, told, wrong = ran("print('ran', __name__)\n", "--nproc_per_node=1", "program.py", first=("-m", "torch.distributed.run"))
    assert (status, told) == (0, "ran __main__\n"), wrong
    status, told, wrong = ran("", first=("-m", "torch.nothing.of.this"))
    assert status == 1 and wrong == "workbench: No module named torch.nothing.of.this\n"


def test_no_line_of_ours_is_in_a_traceback(ran):
    text = (
        "import torch\nfrom torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        return x @ x\n\n\n"
        "Net()(torch.zeros(2, 3))\n"
    )
    status, told, wrong = ran(text)
    assert (status, told) == (1, "")
    lines = [line.strip() for line in wrong.splitlines()]
    assert [line.split(", ", 1)[1] for line in lines if line.startswith("File ")] == ["line 10, in <module>", "line 7, in forward"]
    assert wrong.count("Traceback") == 1
    assert "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)" in lines[-1]


def test_missing_names_end_a_program_with_what_is_known_of_them(ran):
    wrong = ran("import torch.foo")[2]
    assert wrong.count("File ") == 1 and "No module named 'torch.foo' in this engine, and neither has PyTorch" in wrong
    wrong = ran("from torch import zeross")[2]
    assert wrong.count("File ") == 1 and wrong.endswith("did you mean 'zeros'?\n")
    wrong = ran("import torch\ntorch.nn.Lienar(1, 2)")[2]
    assert wrong.count("File ") == 1 and wrong.endswith("did you mean 'Linear'?\n")


def test_spawned_processes_run_on_the_engine_too(ran):
    text = """
import multiprocessing, pickle, cloudpickle
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)

def total(x):
    import engine
    assert torch is engine
    return x.sum().item()

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(total, [torch.ones(3)]))
    net = pickle.loads(pickle.dumps(Net()))
    print(type(net) is Net, torch.equal(net.layer.weight, cloudpickle.loads(cloudpickle.dumps(net)).layer.weight))
    print(pickle.loads(pickle.dumps(torch.nn.functional.relu)) is torch.nn.functional.relu)
"""
    assert ran(text) == (0, "[3.0]\nTrue True\nTrue\n", "")


def test_python_finds_the_command_by_the_package_s_name(ran):
    found = ran("import sys, torch\nprint(sys.argv, torch.__name__)\n", "-x", command=[sys.executable, "-m", "workbench", "run"])
    assert found == (0, "['program.py', '-x'] torch\n", "")


def test_a_program_that_brings_its_own_torch_to_an_end_is_refused_clearly(tmp_path):
    code = "import sys, types; sys.modules['torch'] = types.ModuleType('torch'); import engine; engine.install_as_torch()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).resolve().parent.parent)
    assert done.returncode == 1
    assert "torch itself has been imported in this process already" in done.stderr


FLIGHT = """\
import torch
from torch.utils.data import DataLoader, TensorDataset

class Trainer:
    def __init__(self):
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1))
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def fit(self, loader):
        for i, (x, y) in enumerate(loader):
            loss = (self.net(x) - y).square().mean()
            if i == 17:
                loss = (loss - 1000).log()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

if __name__ == "__main__":
    Trainer().fit(DataLoader(TensorDataset(torch.randn(80, 4), torch.randn(80, 1)), batch_size=4, shuffle=True))
    print("done")
"""


def test_a_training_is_recorded_though_its_program_says_nothing_of_it(ran, tmp_path):
    status, told, wrong = ran(FLIGHT, name="train.py", first=("--flight=night.flight", "train.py"))
    assert (status, told) == (0, "done\n"), wrong
    assert wrong.startswith("wb.flight: The loss is nan in step 17. Recording ends. Writing night.flight (")
    opening = (
        "import workbench as wb\n"
        "again = wb.open('night.flight').repeat(program='train.py')\n"
        "print(again.same, wb.check(again).findings[0].sentence)\n"
    )
    status, told, wrong = ran(opening, name="open.py", command=[sys.executable])
    assert (status, wrong) == (0, "")
    assert told.startswith("True log made the first NaN at line 14 of train.py: ")


def test_a_program_without_a_training_is_not_recorded(ran):
    status, told, wrong = ran("print('hello')", first=("--flight", "program.py"))
    assert (status, told) == (0, "hello\n")
    assert wrong == "wb.flight: no loop was seen that trains a model with an optimizer, so nothing was recorded.\n"
    assert ran("", first=("--flight",))[0] == 2


LOOP = """\
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(net.parameters())

def update(i):
    loss = (net(torch.randn(16, 4)) - 1).square().mean()
    if i == 9:
        loss = (loss - 1000).log()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

i = 0
while i < 12:
    update(i)
    i += 1
print(torch.__version__ == __import__("engine").__version__)
"""


@pytest.mark.parametrize("on", [(), pytest.param(("--torch",), marks=pytest.mark.torch)])
def test_a_loop_without_a_loader_is_recorded(ran, on):
    status, told, wrong = ran(LOOP, name="train.py", first=("--flight=night.flight", *on, "train.py"))
    assert (status, told) == (0, f"{not on}\n"), wrong
    assert wrong.startswith("wb.flight: The loss is nan in step 9. Recording ends. Writing night.flight (")
    opening = "import workbench as wb\nagain = wb.open('night.flight').repeat(program='train.py')\nprint(again.same, wb.check(again).findings[0].sentence)"
    status, told, wrong = ran(("import torch\n" if on else "") + opening, name="open.py", command=[sys.executable])
    assert (status, wrong) == (0, "")
    assert told.startswith("True log made the first NaN at line 9 of train.py: ")
