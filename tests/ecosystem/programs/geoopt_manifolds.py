"""Points on manifolds move towards others: three steps of two Riemannian optimizers, distances and transports, in float64."""

import json

import geoopt
import torch

torch.manual_seed(0)
manifolds = {
    "sphere": (geoopt.Sphere(), (4, 5)),
    "stiefel": (geoopt.Stiefel(), (2, 5, 3)),
    "positive definite": (geoopt.SymmetricPositiveDefinite(), (2, 3, 3)),
    "lorentz": (geoopt.Lorentz().double(), (4, 5)),
    "ball": (geoopt.PoincareBall(c=0.7).double(), (4, 5)),
    "scaled": (geoopt.Scaled(geoopt.PoincareBall(), 2.0).double(), (4, 5)),
    "product": (geoopt.ProductManifold((geoopt.Sphere(), 3), (geoopt.PoincareBall(), 2)).double(), (4, 5)),
}
for name, (manifold, shape) in manifolds.items():
    start, goal, aside = (manifold.projx(0.3 * torch.randn(*shape, dtype=torch.float64)) for _ in range(3))
    direction = manifold.proju(start, 0.1 * (aside - start))
    told = {"manifold": name, "moved": manifold.expmap(start, direction).flatten()[:4].tolist()}
    told["norm"] = manifold.norm(start, direction).flatten()[:4].tolist() if name != "lorentz" else manifold.norm(direction).tolist()[:4]
    told["carried"] = manifold.transp_follow_retr(start, direction, direction).flatten()[:4].tolist()
    if name != "stiefel":
        told["distance"] = manifold.dist(start, goal).flatten()[:4].tolist()
    owner = manifold.base if name == "scaled" else manifold
    for kind, settings in ((geoopt.optim.RiemannianSGD, {"momentum": 0.9}), (geoopt.optim.RiemannianAdam, {"amsgrad": True})):
        point = geoopt.ManifoldParameter(start.clone(), manifold=owner)
        optimizer = kind([point], lr=0.05, **settings)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = (point - goal).square().sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        told[kind.__name__] = [*losses, *point.detach().flatten()[:4].tolist()]
    print(json.dumps(told))
