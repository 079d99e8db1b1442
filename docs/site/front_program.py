import engine
import workbench as wb
from engine import nn

engine.manual_seed(1)
model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
x = engine.tensor([[1.0, 0.5], [-0.5, 2.0]])
y = engine.tensor([[1.0], [-1.0]])

with wb.record("a small network"):  # in a notebook: %%watch at the top of the cell
    loss = nn.functional.mse_loss(model(x), y)
walk = wb.step(loss)
