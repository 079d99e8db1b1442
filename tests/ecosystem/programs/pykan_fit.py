"""A KAN of pykan is trained and told as a formula. (`refine` asks lstsq for what PyTorch's gelsy gets wrong: it leaves `jpvt` as it is.)"""

# rtol: 1e-3, because splines are fitted by least squares again and again

import json
import time

import torch
from kan import KAN, create_dataset

torch.set_default_dtype(torch.float64)  # LBFGS multiplies rounding
torch.manual_seed(0)
data = create_dataset(lambda x: torch.exp(torch.sin(torch.pi * x[:, [0]]) + x[:, [1]] ** 2), n_var=2, train_num=100, test_num=50, seed=1)
model = KAN(width=[2, 3, 1], grid=3, k=3, seed=2, auto_save=False)
started = time.perf_counter()
for optimizer, steps in (("Adam", 4), ("LBFGS", 3)):
    found = model.fit(data, opt=optimizer, steps=steps, lamb=0.001, log=1)
    print(json.dumps({optimizer: [float(v) for v in found["train_loss"]], "test": [float(v) for v in found["test_loss"]]}))
model(data["train_input"])
model.fix_symbolic(0, 0, 0, "sin", verbose=False)
print(json.dumps({"out": model(data["test_input"])[:3].flatten().tolist(), "seconds": time.perf_counter() - started}))
