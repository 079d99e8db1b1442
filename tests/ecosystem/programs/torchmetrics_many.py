"""torchmetrics: classification, regression, pictures, text, retrieval, clustering, and a collection that is trained beside."""

import json
import time
import warnings

import torch
import torchmetrics as tm
from torchmetrics import classification as c
from torchmetrics import clustering, image, nominal, regression, retrieval, text

warnings.filterwarnings("ignore")
torch.manual_seed(0)
started = time.perf_counter()
p, t = torch.randn(50, 4).softmax(-1), torch.randint(0, 4, (50,))
collection = tm.MetricCollection([
    c.MulticlassAccuracy(4), c.MulticlassF1Score(4), c.MulticlassPrecision(4), c.MulticlassRecall(4, average="weighted"), c.MulticlassAUROC(4),
    c.MulticlassAveragePrecision(4), c.MulticlassConfusionMatrix(4), c.MulticlassCohenKappa(4), c.MulticlassMatthewsCorrCoef(4),
    c.MulticlassCalibrationError(4), c.MulticlassHingeLoss(4), c.MulticlassJaccardIndex(4), c.MulticlassSpecificity(4),
])  # fmt: skip
for i in range(0, 50, 10):
    collection.update(p[i : i + 10], t[i : i + 10])
print(json.dumps({k: v.tolist() for k, v in collection.compute().items()}))
b, bt = torch.rand(60), torch.randint(0, 2, (60,))
for m in (
    c.BinaryAUROC(),
    c.BinaryROC(),
    c.BinaryPrecisionRecallCurve(thresholds=5),
    c.BinaryF1Score(),
    c.BinaryCalibrationError(),
    c.BinaryStatScores(),
):
    value = m(b, bt)
    print(json.dumps({type(m).__name__: [v.sum().item() for v in value] if isinstance(value, tuple) else value.tolist()}))
for m in (c.MultilabelRankingLoss(4), c.MultilabelF1Score(4), c.MultilabelAUROC(4), c.MultilabelCoverageError(4)):
    print(json.dumps({type(m).__name__: m(torch.rand(20, 4), torch.randint(0, 2, (20, 4))).item()}))
x, y = torch.randn(40), torch.randn(40)
for m in (
    regression.MeanSquaredError(), regression.R2Score(), regression.PearsonCorrCoef(), regression.SpearmanCorrCoef(), regression.KendallRankCorrCoef(),
    regression.ExplainedVariance(), regression.ConcordanceCorrCoef(), regression.MeanAbsolutePercentageError(), regression.LogCoshError(),
    regression.TweedieDevianceScore(0.0), regression.CosineSimilarity(), regression.MinkowskiDistance(3), regression.RelativeSquaredError(),
):  # fmt: skip
    a, d = (x[None], y[None]) if isinstance(m, regression.CosineSimilarity) else (x, y)
    m.update(a, d)
    print(json.dumps({type(m).__name__: m.compute().item()}))
u, v = torch.rand(2, 3, 48, 48), torch.rand(2, 3, 48, 48)
for m in (
    image.StructuralSimilarityIndexMeasure(data_range=1.0), image.PeakSignalNoiseRatio(data_range=1.0), image.UniversalImageQualityIndex(), image.TotalVariation(),
    image.SpectralAngleMapper(), image.ErrorRelativeGlobalDimensionlessSynthesis(), image.RelativeAverageSpectralError(), image.VisualInformationFidelity(), image.SpatialCorrelationCoefficient(),
):  # fmt: skip
    print(json.dumps({type(m).__name__: (m(u) if isinstance(m, image.TotalVariation) else m(u, v)).item()}))
for m in (text.WordErrorRate(), text.CharErrorRate(), text.BLEUScore(), text.CHRFScore(), text.EditDistance(), text.MatchErrorRate()):
    said, meant = ["the cat sat here", "a dog"], ["the cat sat there", "the dog"]
    print(json.dumps({type(m).__name__: m(said, [[s] for s in meant] if type(m).__name__ in ("BLEUScore", "CHRFScore") else meant).item()}))
perplexity = text.Perplexity()
print(json.dumps({"perplexity": perplexity(torch.randn(2, 5, 7), torch.randint(0, 7, (2, 5))).item()}))
q = torch.arange(30) // 10
for m in (retrieval.RetrievalMAP(), retrieval.RetrievalMRR(), retrieval.RetrievalNormalizedDCG(), retrieval.RetrievalPrecision(top_k=3)):
    print(json.dumps({type(m).__name__: m(torch.rand(30), torch.randint(0, 2, (30,)), indexes=q).item()}))
for m in (clustering.MutualInfoScore(), clustering.AdjustedRandScore(), clustering.NormalizedMutualInfoScore(), nominal.CramersV(4)):
    print(json.dumps({type(m).__name__: m(torch.randint(0, 4, (30,)), torch.randint(0, 4, (30,))).item()}))
mean = tm.MeanMetric()
for i in range(5):
    mean(torch.tensor(float(i)), weight=i + 1.0)
boot = tm.wrappers.BootStrapper(regression.MeanSquaredError(), num_bootstraps=4)
boot.update(x, y)
tracker = tm.wrappers.MetricTracker(c.MulticlassAccuracy(4))
for _ in range(2):
    tracker.increment()
    tracker.update(p, t)
print(
    json.dumps(
        {
            "mean": mean.compute().item(),
            "state": sorted(collection.state_dict()),
            "best": tracker.best_metric(),
            "boot": boot.compute()["mean"].isfinite().item(),
            "seconds": time.perf_counter() - started,
        }
    )
)
