"""Questions, how answers are judged, and the sheet that keeps them."""

from __future__ import annotations

import json
import math

import numpy
import pytest
from teaching import HOSTILE, program

import engine
import workbench as wb
from workbench.teach import judge, sheet
from workbench.teach.markup import blocks, formula, plain

pytestmark = pytest.mark.usefixtures("fresh_sheet")


# -- text ---------------------------------------------------------------------------------------------------------------------


def test_markdown_becomes_trees_and_never_markup():
    found = blocks(f"""# Title
        Some **bold**, *slanted* and `code` with {HOSTILE}.

        1. one
        2. two

        ```
        <b>raw</b>
        ```
        """)
    assert [block[0] for block in found] == ["h", "p", "ol", "pre"]
    assert ["b", "bold"] in found[1] and ["i", "slanted"] in found[1] and ["code", "code"] in found[1]
    assert HOSTILE in found[1][-1]  # text, as it was typed
    assert found[2][1:] == [["li", "one"], ["li", "two"]]
    assert found[3][1] == "<b>raw</b>"


def test_formulas_are_a_part_of_tex():
    tree = formula(r"\frac{\partial L}{\partial w_1} = \bar{z} x^2_i")
    assert tree[1][0] == "mfrac" and plain(tree[1]) == "(∂L)/(∂w_1)"
    assert tree[3][0] == "mover"
    assert tree[4] == ["msubsup", ["mi", "x"], ["mi", "i"], ["mn", "2"]]
    assert plain(formula(r"\href{javascript:x}")).startswith(r"\href")  # not known: stays what it is
    for text in ("{" * 5000, r"\frac", "x^", "}{", r"\sqrt{" * 500):
        assert formula(text)[0] == "mrow"


def test_words_in_a_formula_keep_their_spaces_and_a_fraction_takes_single_digits():
    assert formula(r"\text{two words, 50\%} x") == ["mrow", ["mtext", "two words, 50%"], ["mi", "x"]]
    assert formula(r"\operatorname{arg max}")[1] == ["mtext", "arg max"]
    assert formula(r"\frac12")[1] == formula(r"\frac 1 2")[1] == ["mfrac", ["mn", "1"], ["mn", "2"]]  # as TeX reads it
    assert plain(formula(r"W^\top x")) == "W^⊤x"


def test_dollars_and_stars_with_spaces_inside_are_text():
    for text in ("from $5 to $6", "2 * 3 * 4", "2 ** 3 ** 4", "it costs $5"):
        assert blocks(text) == [["p", text]]
    assert blocks("*a* **b** $c$")[0][1::2] == [["i", "a"], ["b", "b"], ["math", ["mrow", ["mi", "c"]]]]


def test_text_that_is_none_is_refused():
    with pytest.raises(TypeError, match="Markdown"):
        blocks(3)
    with pytest.raises(ValueError, match="at most"):
        blocks("x" * 200_000)


# -- judging ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "w.grad",
        "[x for x in (1,)]",
        "lambda: 1",
        "(" * 5000,
        "1" * 20_000,
        "{}['a']",
        "9**9**9",
        "'a' * 9",
        "1 + [2]",
        "2 * True",
    ],
)
def test_answers_are_literals_and_nothing_runs(text):
    with pytest.raises(judge.Unreadable):
        judge.numbers(text)


def test_gradient_question_knows_what_was_forgotten():
    x, w, z, loss = program()
    z_value = 0.5 * 1 + 1.0 * 2
    truth = [2 * z_value * 1 + 1, 2 * z_value * 2 + 1]  # d/dw of z² + Σw, by hand
    question = wb.teach.quiz.gradient(w, loss)
    assert question.name == "gradient-w" and w.grad is None
    assert "transposed" not in question.answer(repr(truth[::-1]))
    assert "one path adds" in question.answer(repr([2 * z_value, 4 * z_value]))  # forgot + w.sum()
    assert "one path adds" in question.answer([1.0, 1.0])
    assert "the sign is not" in question.answer([-t for t in truth])
    assert "factor of 2 is missing" in question.answer([t / 2 for t in truth])
    assert "too large" in question.answer([2 * t for t in truth])
    assert "shape must be (2,)" in question.answer("12")
    assert "Not zero" in question.answer("[0, 0]")
    assert question.answer("[1, ") == "Expected a number or a list of numbers, such as 0.5, -3/4 or [0.5, -1.0]."
    assert question.state == "wrong" and question.given.attempts == 8
    assert question.answer(str(truth).replace("-", "−")) == "Right."
    assert question.state == "right" and w.grad is None  # nothing was accumulated
    wrong = "[9, 9]"
    assert question.answer(wrong) == "Right." and question.given.answer != wrong  # it is over


@pytest.mark.parametrize(
    ("text", "number"), [("-1/3", -1 / 3), ("2*(0.5 - 1)", -1.0), ("[1/4, −3 + 2]", [0.25, -1.0]), ("(+2, -(3))", [2, -3])]
)
def test_fractions_and_sums_of_numbers_are_worked_out(text, number):
    assert judge.numbers(text).tolist() == number


def test_a_division_by_zero_is_said():
    with pytest.raises(judge.Unreadable, match="division by zero"):
        judge.numbers("[1, 2/0]")


def test_no_hint_is_the_answer():
    """Who types 1 would be told the answer as the factor that is missing, or by which 1 is too large."""
    assert wb.teach.quiz("?", 7.0, id="seven").answer(1) == "Too small in magnitude."
    assert wb.teach.quiz("?", -3.0, id="minus-three").answer(1) == "Neither the sign nor the magnitude is right."
    assert wb.teach.quiz("?", 0.125, id="eighth").answer(1) == "Too large in magnitude."
    assert "A factor of 7" in wb.teach.quiz("?", [7.0, 14.0], id="two").answer([1, 2])


def test_a_hint_follows_from_the_answer_and_from_the_program():
    """No word of a square or a mean where there is none, and a wrong sign is a wrong sign whatever the size."""
    x = engine.tensor([1.5, -2.0], requires_grad=True)
    squared, summed, averaged = (3 * x).square().sum(), (4 * x).sum(), (6 * x).mean()
    for loss, times, words in (
        (squared, 0.5, "A factor of 2 is missing. A square brings a 2."),
        (((u := 3 * x) * u).sum(), 0.5, "A factor of 2 is missing. A square brings a 2."),
        (summed, 0.5, "A factor of 2 is missing."),
        (averaged, 2.0, "It is 2 times too large. A mean divides by the count."),
        (summed, 2.0, "It is 2 times too large."),
        (summed, 0.7, "All elements are too small, by the same factor."),
        (summed, -1.0, "The magnitude is right, the sign is not."),
        (summed, -0.5, "Neither the sign nor the magnitude is right."),
        (averaged, -2.0, "Neither the sign nor the magnitude is right."),
    ):
        truth = engine.autograd.grad(loss, x, retain_graph=True)[0].numpy()
        assert wb.teach.quiz.gradient(x, loss, id=f"{words} {times}").answer((times * truth).tolist()) == words
    w = engine.tensor(3.0, requires_grad=True)
    for loss, given, words in ((4 * w, 2.0, "Too small in magnitude."), (w.square(), 3.0, "Too small in magnitude. A square brings a 2."),
                               ((4 * w).mean(), 8.0, "Too large in magnitude. A mean divides by the count."),
                               (4 * w, 8.0, "Too large in magnitude."), (4 * w, -4.0, "The magnitude is right, the sign is not.")):  # fmt: skip
        assert wb.teach.quiz.gradient(w, loss, id=f"{words} {given}").answer(given) == words


def test_mean_and_transposition_are_recognised():
    square = engine.tensor([[1.0, 2.0], [3.0, 4.0]])
    question = wb.teach.quiz("?", lambda: square, id="square")
    assert "transposed" in question.answer([[1, 3], [2, 4]])
    row = wb.teach.quiz("?", engine.tensor([[1.0, 2.0, 3.0]]), id="row")
    assert "transposed" in row.answer([[1], [2], [3]])
    assert "in the shape" in row.answer([1, 2, 3])
    mean = wb.teach.quiz("?", numpy.full(4, 0.25), id="mean")
    assert "4 times too large" in mean.answer([1, 1, 1, 1])
    close = wb.teach.quiz("?", 0.123456, tolerance=1e-4, id="close")
    assert "more digits" in close.answer("0.1236")
    assert close.answer("0.12346") == "Right."
    assert wb.teach.quiz("?", math.nan, id="nan").answer("nan") == "Right."


def test_shapes_choices_texts_and_nodes():
    x, w, z, loss = program()
    shape = wb.teach.quiz.shape(engine.zeros(4, 2, 3), id="s")
    assert "order is not" in shape.answer("(2, 4, 3)")
    assert "Transposed" in shape.answer("3, 2, 4")
    assert "first axis is missing" in shape.answer("(2, 3)")
    assert "number of elements is right" in shape.answer("(8, 3)")
    assert "a shape" in shape.answer("[a, b]")
    assert shape.answer("4×2×3") == "Right."
    choice = wb.teach.quiz("?", "relu", "choice", choices=["tanh", "relu"], id="c", why="It is flat below zero.")
    assert choice.answer("tanh") == "Not right."
    assert choice.answer("relu") == "Right. It is flat below zero."
    text = wb.teach.quiz("?", ["chain rule", "the chain rule"], "text", id="t")
    assert text.answer(" Chain   RULE ") == "Right."
    node = wb.teach.quiz("?", "sum", "node", about=loss, id="n")
    assert node.answer("mul") == "Not right."
    assert "no node" in node.answer(HOSTILE)
    assert node.answer("z") == "Right."
    coming = wb.teach.quiz.next_node(loss)
    assert coming.answer("mul") == "Not right."
    assert coming.answer("loss").startswith("Right.")  # the root comes first
    walk = wb.step(loss)
    walk.next()
    second = wb.teach.quiz.next_node(walk)
    assert second.answer(f"#{walk.plan[1]}").startswith("Right.")


def test_a_question_has_the_newest_graph_beside_it_or_one_of_its_own_or_none():
    _, _, _, older = program()
    with wb.record() as newer:
        engine.ones(3).exp()
    assert wb.teach.quiz("?", 1, id="newest").session().recording is newer.recording
    own = wb.teach.quiz("?", 1, id="own", about=older).session().recording
    assert own is not newer.recording and own.count
    assert not wb.teach.quiz("?", 1, id="none", about=None).session().recording.count


def test_a_question_that_ipython_displays_knows_the_names_of_the_users_modules():
    user = {"wb": wb, "engine": engine, "nn": engine.nn}
    exec("first, last = nn.Linear(2, 3), nn.Linear(3, 1)\nloss = last(first(engine.ones(1, 2))).sum()", user)
    exec("question = wb.teach.quiz('Which?', 'sum', 'node', about=loss)", user)
    session = user["question"].session()  # called from here, as IPython does it from its own code
    names = set(session.recording.names.values())
    assert {"first.weight", "last.weight"} <= names


def test_predict_then_reveal():
    question = wb.teach.quiz("What is 6 × 7?", 42.0, id="q")
    with pytest.raises(ValueError, match="Answer first"):
        question.reveal()
    question.answer("41")
    assert question.reveal() == "42"
    assert "counts no more" in question.answer("42")
    assert question.state == "revealed" and "Answer: 42" in repr(question)


def test_bad_questions_are_refused():
    with pytest.raises(ValueError, match="kind of a question is one of"):
        wb.teach.quiz("?", 1, "essay")
    with pytest.raises(ValueError, match="at least two"):
        wb.teach.quiz("?", "a", "choice", choices=["a"])
    with pytest.raises(ValueError, match="tolerance"):
        wb.teach.quiz("?", 1, tolerance=-1)
    with pytest.raises(KeyError, match="No question"):
        wb.teach.quiz.answer("nope", 1)
    assert "does not exist yet" in wb.teach.quiz("?", lambda: None, id="none").answer("1")
    x, w, z, loss = program()
    loss.backward()
    assert "could not be computed" in wb.teach.quiz.gradient(w, loss).answer("[1, 1]")  # the graph was freed
    assert wb.teach.quiz.gradient(w, id="stored").answer(w.grad) == "Right."


# -- the sheet of answers -----------------------------------------------------------------------------------------------------


def test_where_the_true_value_is_not_finite_nothing_is_said_of_digits():
    inf, nan = float("inf"), float("nan")
    infinite = wb.teach.quiz("how large?", inf, id="infinite")
    assert infinite.answer("1") == "Not right: the true value is not finite."
    assert infinite.answer("nan") == "Not right."
    assert infinite.answer("inf") == "Right."
    mixed = wb.teach.quiz("which?", [nan, 2.0], id="mixed")
    assert mixed.answer("[nan, 3]") == "Not right."
    assert mixed.answer("[1, 2]") == "Not right: the true value is not finite."
    assert mixed.answer("[nan, nan]") == "Not right: the true value is finite."
    assert mixed.answer("[nan, 2]") == "Right."


def test_code_and_formulas_of_why_are_shown_as_such_and_what_was_answered_stays_text():
    asked = wb.teach.quiz("?", "`a`", "text", id="m", why="`x.grad` is $x^2$.")
    assert asked.message().feedback == ["p", ""]
    asked.answer("`b`")
    assert asked.message().feedback == ["p", "Not right."]
    asked.answer("`a`")
    assert asked.message().feedback == ["p", "Right. ", ["code", "x.grad"], " is ", ["math", formula("x^2")], "."]
    assert asked.feedback == "Right. x.grad is x^2."


def questions():
    return (
        wb.teach.quiz("a?", 1.5, id="a", points=2),
        wb.teach.quiz("b?", "yes", "choice", choices=["yes", "no"], id="b"),
        wb.teach.quiz("c?", 3.0, id="c"),
    )


def test_answers_are_kept_and_graded_anew(tmp_path):
    a, b, c = questions()
    file = tmp_path / "answers.json"
    a.answer("1.5")
    wb.teach.quiz.save(file)
    b.answer("no")
    c.answer("2")
    c.reveal()
    text = file.read_text(encoding="utf-8")
    assert "1.5" in text and '"yes"' not in text and "3.0" not in text  # what was answered, never what is right
    assert list(tmp_path.iterdir()) == [file]
    found = wb.teach.grade(file)
    assert [(mark.name, mark.points) for mark in found.marks] == [("a", 2), ("b", 0), ("c", 0)]
    assert (found.points, found.of) == (2, 4)
    assert "revealed" in repr(found) and "'no' is not right" in repr(found)
    with pytest.raises(AssertionError, match="b: 0 of 1"):
        found.require()
    assert wb.teach.grade(file, "a").points == 2
    with pytest.raises(AssertionError, match="'no'"):
        wb.teach.grade(file, "b")
    with pytest.raises(KeyError, match="no question|No question"):
        wb.teach.grade(file, "z")


def test_answers_come_back_in_another_kernel(tmp_path):
    file = tmp_path / "answers.json"
    wb.teach.quiz.save(file)
    questions()[0].answer("1.5")
    wb.teach.quiz.clear()  # as a new kernel has it
    a, b, c = questions()
    assert a.state == "open"
    wb.teach.quiz.save(file)
    assert (a.state, a.feedback) == ("right", "Right.")
    b.answer("yes")
    assert wb.teach.grade(file).points == 3


def test_an_edited_answer_brings_nothing_when_the_notebook_is_run_again(tmp_path):
    file = tmp_path / "answers.json"
    wb.teach.quiz.save(file)
    questions()[0].answer("9")
    file.write_text(file.read_text().replace('"answer": "9"', '"answer": "1.5"'))
    wb.teach.quiz.clear()
    wb.teach.quiz.save(file)  # an assignment's first cell, as an autograder runs it
    a, _, _ = questions()
    assert wb.teach.grade(file).points == 0 and "edited" in repr(wb.teach.grade(file))
    wb.teach.quiz.save(file)  # judges what there is
    assert a.state == "wrong" and "edited" in a.feedback
    a.answer("1.5")
    assert wb.teach.grade(file, "a").points == 2


def test_edited_answers_bring_nothing(tmp_path):
    a, _, _ = questions()
    file = tmp_path / "answers.json"
    wb.teach.quiz.save(file)
    a.answer("9")
    data = json.loads(file.read_text())
    data["answers"]["a"]["answer"] = "1.5"
    file.write_text(json.dumps(data))
    found = wb.teach.grade(file)
    assert found.points == 0 and "edited" in repr(found)
    data["answers"]["a"] = {"answer": "1.5", "attempts": 1, "revealed": False}
    file.write_text(json.dumps(data))
    assert wb.teach.grade(file).points == 0
    with pytest.raises(AssertionError):
        wb.teach.grade(file, "a")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"format": "other"}', '{"format": "gradient-workbench answers", "version": 99, "answers": {}}', "[" * 100_000]
    + ['{"format": "gradient-workbench answers", "version": 1, "answers": {"a": 1}}']
    + ['{"format": "gradient-workbench answers", "version": 1, "answers": {"a": {"answer": 1, "attempts": true, "revealed": 0}}}'],
)
def test_files_that_are_none_are_refused(tmp_path, text):
    questions()
    file = tmp_path / "answers.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"answers\.json"):
        wb.teach.grade(file)


def test_a_missing_file_is_an_error(tmp_path):
    questions()
    with pytest.raises(FileNotFoundError):
        wb.teach.grade(tmp_path / "nothing.json")


def test_a_second_question_of_the_same_id_keeps_the_answer():
    questions()[0].answer("1.5")
    again = wb.teach.quiz("a, in other words?", 1.5, id="a")
    assert again.given.answer == "1.5" and sheet.current.questions["a"] is again


def test_what_can_never_be_right_is_refused_when_it_is_asked(tmp_path, monkeypatch):
    x, w = engine.tensor([1.0]), engine.tensor([2.0], requires_grad=True)
    with pytest.raises(ValueError, match="'c' is none of the choices 'a', 'b'"):
        wb.teach.quiz("?", "c", "choice", choices=["a", "b"])
    with pytest.raises(ValueError, match="5 is none of the choices"):
        wb.teach.quiz("?", 5, "choice", choices=["a", "b"])
    assert wb.teach.quiz("?", 1, "choice", choices=["a", "b"], id="second").answer("b") == "Right."
    with pytest.raises(TypeError, match="must be a tensor or numbers, got str"):
        wb.teach.quiz("?", "three")
    with pytest.raises(ValueError, match="x has no gradient to ask for"):
        wb.teach.quiz.gradient(x, (w * x).sum())
    with pytest.raises(ValueError, match="no backward pass"):
        wb.teach.quiz.next_node(x)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"no file answers.json here; wb.teach.quiz.save"):
        wb.teach.grade("answers.json")
    assert "page 1 of 1" in repr(wb.teach.lesson((w * x).sum(), wb.teach.say("a single page")))
    with pytest.raises(TypeError, match="Expected a Tensor, got list"):
        wb.show([x])  # type: ignore[arg-type]
