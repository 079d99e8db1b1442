// A question: predict, check, reveal. Typed text is kept when the pane is redrawn.

import type { Controller } from "../controller";
import { h, put, setText } from "../dom";
import type { Formula, Question } from "../protocol";
import type { State } from "../store";
import { nameOf } from "../words";
import { markup } from "./markup";
import { demand } from "./section";

const HINTS: Record<Question["asks"], string> = {
  value: "a number, or a list such as [0.5, -1]",
  shape: "a shape such as (7, 5)",
  text: "your answer",
  choice: "",
  node: "its name, or click it in the graph",
};

interface Kept {
  answer: string;
  attempts: number;
  revealed: boolean;
}

export class QuestionCard {
  private readonly prompt = h("div", { class: "prompt" });
  private readonly input: HTMLInputElement;
  private readonly choices: HTMLInputElement[];
  private readonly check = h("button", { type: "submit", class: "wide", "data-testid": "wb-question-check" }, "Check");
  private readonly reveal = h("button", { type: "button", class: "link", "data-testid": "wb-question-reveal", click: () => this.send("reveal") }, "Show the answer");
  private readonly feedback = h("div", { class: "feedback", role: "status", "data-testid": "wb-question-feedback" });
  private readonly expected = h("output", { class: "expected secret", "data-testid": "wb-question-expected" });
  readonly element: HTMLElement;
  private told = -1;
  private selected: number | null = null; // a node selected before the question appeared is not an answer
  private problem = "";
  private said = ""; // the feedback as it is shown
  private recalled = false; // the notebook was asked once for an earlier answer

  constructor(
    private readonly controller: Controller,
    private question: Question,
    prefix: string,
  ) {
    const { name, asks, choices, answer } = question;
    const words = `${prefix}ask-${name}`;
    this.prompt.id = words;
    put(this.prompt, ...markup(question.prompt));
    this.input = h("input", {
      type: "text",
      placeholder: HINTS[asks],
      "aria-labelledby": words,
      "data-testid": "wb-question-input",
      spellcheck: "false",
      autocomplete: "off",
    });
    this.input.value = answer;
    this.choices = choices.map((choice) => h("input", { type: "radio", name: words, value: choice, checked: choice === answer, "data-testid": "wb-question-choice" }));
    const field =
      asks === "choice"
        ? h("div", { class: "choices", role: "radiogroup", "aria-labelledby": words }, ...this.choices.map((one, at) => h("label", {}, one, h("span", {}, choices[at]!))))
        : this.input;
    this.element = h(
      "form",
      { class: "question", "data-testid": "wb-question", "data-question": name },
      this.prompt,
      h("div", { class: "field" }, field, this.check),
      this.feedback,
      this.expected,
      this.reveal,
    );
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send("answer");
    });
    // JupyterLab suppresses the default action of Enter in a form.
    this.element.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.target instanceof HTMLInputElement)) return;
      event.preventDefault();
      this.send("answer");
    });
    queueMicrotask(() => this.recall());
  }

  private get text(): string {
    return this.question.asks === "choice" ? (this.choices.find(({ checked }) => checked)?.value ?? "") : this.input.value;
  }

  private send(what: "answer" | "reveal"): void {
    void demand(this.controller, { type: "answer_question", name: this.question.name, do: what, text: this.text, attempts: 0, revealed: false }).then((problem) => {
      this.problem = problem;
      this.show();
    });
  }

  /** Restores the answer of an earlier session if the host has kept one in the notebook. */
  private recall(): void {
    const { name, attempts } = this.question;
    if (attempts || this.recalled) return;
    const give = (kept: Partial<Kept> | undefined) => {
      if (typeof kept?.answer !== "string" || typeof kept.attempts !== "number") return;
      const { answer, attempts, revealed } = kept;
      void this.controller.ask({ type: "answer_question", name, do: "keep", text: answer, attempts, revealed: revealed === true }, true);
    };
    // The event reaches the page only once the card is attached; a view may be built before that.
    if (!this.element.isConnected) return;
    this.recalled = true;
    this.tell("workbench-kept", { key: name, give });
  }

  private tell(event: string, detail: unknown): void {
    this.element.dispatchEvent(new CustomEvent(event, { detail, bubbles: true, composed: true }));
  }

  update(question: Question, state: State): void {
    const { name, answer, attempts, state: how } = question;
    this.question = question;
    if (attempts !== this.told && attempts) {
      if (this.text !== answer && this.told <= 0) this.restore(answer);
      this.problem = "";
    }
    const value: Kept = { answer, attempts, revealed: how === "revealed" };
    if (attempts) this.tell("workbench-keep", { key: name, value });
    this.told = attempts;
    this.recall();
    if (question.asks === "node" && state.selected !== this.selected && how !== "right") {
      if (state.selected >= 0 && this.selected !== null && state.recording) this.input.value = this.typed(state);
      this.selected = state.selected;
    }
    this.show();
  }

  private typed({ recording, selected }: State): string {
    const name = nameOf(recording!, selected);
    const same = recording!.nodes.name.filter((_, node) => nameOf(recording!, node) === name);
    return same.length === 1 ? name : `#${selected}`;
  }

  private restore(answer: string): void {
    this.input.value = answer;
    for (const one of this.choices) one.checked = one.value === answer;
  }

  private show(): void {
    const { state, feedback, expected, attempts } = this.question;
    const over = state === "right" || state === "revealed";
    this.element.dataset.state = state;
    const said: Formula = this.problem ? ["p", this.problem] : feedback;
    if (JSON.stringify(said) !== this.said) put(this.feedback, ...markup([said])); // only a change is announced
    this.said = JSON.stringify(said);
    this.feedback.hidden = !this.feedback.textContent;
    setText(this.expected, over && expected ? `Answer: ${expected}` : "");
    this.expected.hidden = !this.expected.textContent;
    this.input.readOnly = over;
    for (const one of this.choices) one.disabled = over;
    this.check.hidden = over;
    this.reveal.hidden = over || !attempts;
  }
}
