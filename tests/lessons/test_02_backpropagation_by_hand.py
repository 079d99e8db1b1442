"""Lesson 2: what is worked out by hand is what the engine finds."""

from lesson import Lesson


class TestBackpropagationByHand(Lesson):
    name = "02_backpropagation_by_hand"
    answers = {
        "first-node": "'loss'",
        "z-bar": "-1",
        "w-bar": "-3",
        "a-bar": "9",
        "w-shape": "(2, 3)",
        "broadcast": "'the gradient of Y, summed over the samples'",
        "passes": "10",
    }

    def test_the_chain_rule_by_hand(self, run):
        # d = 0.5 * 3 - 1 - 1; the loss is d squared
        assert run.text("paper").split() == ["by", "hand", "-3.0", "-1.0", "the", "engine", "-3.0", "-1.0"]
