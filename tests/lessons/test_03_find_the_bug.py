"""Lesson 3: five bugs that keep a model from learning."""

import re

from lesson import Lesson


def losses(text):
    return [float(x) for x in re.search(r"\[([\d., ]+)\]\n", text)[1].split(",")]


class TestFindTheBug(Lesson):
    name = "03_find_the_bug"
    answers = {
        "bug-1": "'Gradients are never cleared'",
        "no-gradient": "2",
        "bug-2": "'A detach() cuts the graph in the middle'",
        "bug-3": "'There are two softmaxes'",
        "bug-4": "'Labels belong to other samples'",
        "zero-units": "32",
        "bug-5": "'ReLUs are dead from the start'",
    }

    def test_the_healthy_program_learns(self, run):
        found = losses(run.text("sound"))
        assert 0.7 < found[0] < 0.9 and found[-1] < 0.05

    def test_the_symptoms_are_as_told(self, run):
        by_bug = [losses(run.text(f"bug-{n}-train")) for n in range(1, 6)]
        assert by_bug[0][-1] < 0.05  # further than the 0.1 of the program without a bug
        assert 0.15 < by_bug[1][-1] < 0.8 * by_bug[1][0]
        assert by_bug[2][-1] > 0.55  # the least that two softmaxes of three classes allow
        assert by_bug[3][-1] > 0.8 and by_bug[4][-1] > 0.8

    def test_no_program_is_handed_out_solved(self, run):
        for n in range(1, 6):
            assert "Which bug is it?" in run.text(f"bug-{n}-question")
            assert run.text(f"bug-{n}-solved").startswith("Not named yet")
        assert run.text("grade").split()[-3:] == ["0", "of", "7"]

    def test_the_instructors_repairs_repair(self, run):
        assert run.text("notes-answers-code").split()[1::2] == ["repaired"] * 5
