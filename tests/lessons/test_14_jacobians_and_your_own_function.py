"""Lesson 14: Jacobians, curvature, and a Function whose backward is checked."""

import numpy
import pytest
from lesson import Lesson


def flowers():
    """Petal lengths with a column of ones, and which flowers are virginica."""
    from sklearn.datasets import load_iris  # takes long to import

    iris = load_iris()
    two = iris.target > 0
    return numpy.stack([iris.data[two, 2], numpy.ones(100)], axis=1), (iris.target[two] == 2).astype(float)


def hessian(w):
    """The Hessian of the mean logistic loss, by its formula."""
    inputs, _ = flowers()
    p = 1 / (1 + numpy.exp(-inputs @ w))
    return inputs.T * (p * (1 - p)) @ inputs / len(p)


def bottom():
    """The minimum of the logistic loss, by Newton's method in NumPy."""
    inputs, virginica = flowers()
    w = numpy.zeros(2)
    for _ in range(20):
        p = 1 / (1 + numpy.exp(-inputs @ w))
        w = w - numpy.linalg.solve(hessian(w), inputs.T @ (p - virginica) / len(p))
    return w


class TestJacobiansAndYourOwnFunction(Lesson):
    name = "14_jacobians_and_your_own_function"
    answers = {
        "jacobian-shape": "(10, 64)",
        "batch-shape": "(5, 10, 64)",
        "passes": "2",
        "rate": "2 / 6.43",
        "slow": "'about 30,000'",
        "hessian-size": "1210 ** 2",
        "swish": "'that s depends on x, too'",
        "flat": "'sign'",
        "ste": "'no: the true derivative is 0'",
    }

    def test_passes_agree_with_the_jacobian_and_with_a_difference(self, run):
        assert run.numbers("model", r"([\d.]+)% of")[0] > 88
        rows = [[float(x) for x in line.split()[-7:-1]] for line in run.text("jvp").splitlines()[:3]]
        assert rows[0] == rows[1]
        assert rows[2] == pytest.approx(rows[0], abs=5e-3)
        assert run.text("jvp").rstrip().endswith("True")
        assert run.numbers("vmap", r"of image 0: ([\d.]+)") == [0]

    def test_the_cheaper_mode_depends_on_the_shape(self, run):
        assert "reverse mode takes 10 passes" in run.text("modes") and "forward mode takes 64 passes" in run.text("modes")
        assert "From 2 numbers to 10: forward mode takes 2 passes" in run.text("modes-other")

    def test_curvature_decides_about_the_learning_rate(self, run):
        small, large = numpy.linalg.eigvalsh(hessian(numpy.zeros(2)))
        assert run.numbers("flowers", r"eigenvalues: \[([\d.]+), ([\d.]+)\]") == pytest.approx([small, large], abs=1e-5)
        assert 0.30 < 2 / large < 0.35
        stays, leaves = ([float(x) for x in line.split(":")[1].split()] for line in run.text("rate").splitlines())
        assert stays == sorted(stays, reverse=True) and leaves == sorted(leaves)

    def test_newton_is_at_the_bottom(self, run):
        inputs, virginica = flowers()
        w = bottom()
        z = inputs @ w
        loss = numpy.mean(numpy.logaddexp(0, z) - virginica * z)
        assert run.numbers("newton", r"Newton, 9 steps: +loss ([\d.]+)") == pytest.approx([loss], abs=1e-4)
        eigenvalues = numpy.linalg.eigvalsh(hessian(w))
        (small,) = run.numbers("newton", r"bottom: +\[([\d.e-]+),")
        assert small == pytest.approx(eigenvalues[0], abs=1e-6) == pytest.approx(0.000078, abs=1e-6)
        assert numpy.log(2) / (0.3 * eigenvalues[0]) == pytest.approx(29_700, rel=0.01)
        assert run.numbers("newton", r"petals of ([\d.]+) cm") == pytest.approx([-w[1] / w[0]], abs=0.01)
        assert run.numbers("scale", r"after (\d+) steps")[0] < 100

    @pytest.mark.whole
    def test_gradient_descent_is_far_from_it_after_2000_steps(self, run):
        assert run.numbers("newton", r"2000 steps: loss ([\d.]+)")[0] > 0.25

    def test_products_with_the_hessian(self, run):
        by_steps = run.numbers("hvp", r"v: \[([\d.]+), ([\d.]+)\]")
        assert by_steps == pytest.approx(hessian(numpy.zeros(2))[:, 0]) == run.numbers("hvp", r"Hessian: +\[([\d.]+), ([\d.]+)\]")
        product, table = run.numbers("power", r"curvature: ([\d.]+)[^:]*: ([\d.]+)")
        assert product == pytest.approx(table, rel=0.01)

    def test_a_wrong_backward_learns_and_is_found(self, run):
        assert run.numbers("swish-train", r"([\d.]+)% read correctly")[0] > 85
        assert "Jacobian mismatch" in run.text("gradcheck")
        assert "rule of Swish for x disagrees" in run.text("check-rule-print")
        assert run.text("repair").split() == ["gradcheck:", "True", "gradgradcheck:", "True"]

    def test_the_straight_through_estimator(self, run):
        assert "flat-op" in run.text("sign-check")
        assert "Jacobian mismatch" in run.text("ste-train")
        sign, through, tanh = run.numbers("ste-train", r"sign: ([\d.]+)%[^:]*through: ([\d.]+)%[^:]*tanh: ([\d.]+)%")
        assert sign + 5 < through < tanh

    def test_the_answers_to_the_exercises(self, run):
        steps, length = run.numbers("notes-answer-1", r"after (\d+) steps of length 0.1\n.* length ([\d.]+)")
        assert 0.1 * steps < 0.5 * length
        assert run.numbers("notes-answer-2", r"from H: (\S+)")[0] < 1e-8
        assert run.text("notes-answer-3").startswith("[0.0, 1.0, 1.0, 0.0] [0.0, 1.0, 1.0, 0.0]\n")
