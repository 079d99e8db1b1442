"""Lesson 3: five bugs that keep a model from learning."""

import re

from lesson import Lesson


class TestFindTheBug(Lesson):
    name = "03_find_the_bug"
    answers = {
        "bug-1": "'Gradients are never set back'",
        "bug-2": "'A detach() cuts the graph in the middle'",
        "bug-3": "'There are two softmaxes'",
        "bug-4": "'Labels belong to other samples'",
        "bug-5": "'ReLUs are dead from the start'",
    }

    def test_the_sound_program_learns(self, run):
        losses = [float(x) for x in re.search(r"\[([\d., ]+)\]\n", run.text("sound"))[1].split(",")]
        assert losses[-1] < 0.5 * losses[0]

    def test_no_program_is_handed_out_solved(self, run):
        for n in range(1, 6):
            assert "Which bug is it?" in run.text(f"bug-{n}-question")
            assert run.text(f"bug-{n}-solved").startswith("Not named yet")
        assert run.text("grade").split()[-3:] == ["0", "of", "5"]
