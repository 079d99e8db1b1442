// The lesson tab: one page of a lesson at a time, its question, and the costs of forward and reverse mode.

import { h, put, setAttribute, setText } from "../dom";
import { icon } from "../icons";
import type { Lesson, Page, Rules } from "../protocol";
import { answered, changed, type State } from "../store";
import { formula } from "./formula";
import { markup } from "./markup";
import { ModesTable } from "./modes";
import type { Pane, PaneContext } from "./pane";
import { QuestionCard } from "./question";
import { pillOf } from "./pills";
import { fitFormulas, ruleRows, UNWRITTEN } from "./rules";

export class LessonPane implements Pane {
  readonly tab = "lesson";
  readonly title = "Lesson";
  readonly stays = true;
  private readonly count = h("span", { class: "quiet", "data-testid": "wb-page-count" });
  private readonly heading = h("h3", {});
  private readonly follow: HTMLButtonElement;
  private readonly back: HTMLButtonElement;
  private readonly on: HTMLButtonElement;
  private readonly bar: HTMLElement;
  private readonly trouble = h("p", { class: "quiet", role: "status" });
  private readonly text = h("article", { class: "text", "aria-live": "polite", "data-testid": "wb-page" });
  private readonly modes: ModesTable;
  readonly element: HTMLElement;
  private readonly cards = new Map<string, QuestionCard>();
  private of = ""; // the recording of the cards
  private free = false;
  private own = 0; // the page, while this view does not follow
  private shown = -1;

  constructor(private readonly context: PaneContext) {
    const { controller } = context;
    const button = (name: "previous" | "next", title: string, by: 1 | -1) =>
      h("button", { title, "aria-label": title, "data-testid": `wb-page-${name}`, click: () => this.turnPage(by) }, icon(name));
    this.back = button("previous", "Page before (Shift n)", -1);
    this.on = button("next", "Next page (n)", 1);
    this.follow = h("button", { class: "link", "data-testid": "wb-follow", click: () => this.leave(!this.free) });
    this.modes = new ModesTable(controller);
    this.bar = h("div", { class: "row pager" }, this.back, this.count, this.on, this.follow);
    this.element = h("div", { class: "pane lesson", "data-testid": "wb-lesson" }, this.heading, this.bar, this.trouble, this.text, this.modes.element);
  }

  offered(state: State): boolean {
    return state.tab === this.tab || !!answered(state, "lesson") || !!answered(state, "modes");
  }

  private get lesson(): Lesson | undefined {
    return answered(this.context.controller.store.state, "lesson")?.message;
  }

  /** Turns the page in all views that follow; a view that follows a teacher stops following. */
  turnPage(by: 1 | -1): void {
    const { lesson, context } = this;
    if (!lesson?.pages.length) return context.controller.say("There is no lesson here.");
    if (context.controller.store.state.tab !== this.tab) return context.controller.tab(this.tab);
    const to = this.page(lesson) + by;
    if (to < 0 || to >= lesson.pages.length) return context.controller.say(by > 0 ? "This is the last page." : "This is the first page.");
    if (lesson.role === "follows" && !this.free) this.leave(true);
    if (!this.free) return void context.controller.ask({ type: "turn_page", to, follow: true });
    this.own = to;
    this.update(context.controller.store.state, null);
  }

  private leave(free: boolean): void {
    const { lesson } = this;
    this.own = lesson ? this.page(lesson) : 0;
    this.free = free;
    void this.context.controller.ask({ type: "turn_page", to: -1, follow: !free });
    this.update(this.context.controller.store.state, null);
  }

  private page(lesson: Lesson): number {
    return Math.min(this.free ? this.own : lesson.at, lesson.pages.length - 1);
  }

  update(state: State, before: State | null): void {
    if (!changed(state, before, "recording", "answers", "selected", "pass", "depth")) return;
    const lesson = answered(state, "lesson")?.message;
    this.modes.update(state);
    this.bar.hidden = this.text.hidden = !lesson?.pages.length;
    this.trouble.hidden = !lesson?.trouble && !(lesson?.role && !lesson.pages.length);
    setText(this.trouble, lesson?.trouble || (lesson?.role === "follows" ? "This view follows the teacher's steps." : "A class follows this view."));
    if (this.of !== state.recording?.name) this.forget(state.recording?.name ?? "");
    setText(this.heading, lesson?.title || "");
    this.heading.hidden = !this.heading.textContent;
    if (lesson?.pages.length) this.show(lesson, state);
  }

  private forget(of: string): void {
    this.of = of;
    this.cards.clear();
    this.free = false;
    this.shown = -1;
  }

  private show(lesson: Lesson, state: State): void {
    const at = this.page(lesson);
    const page = lesson.pages[at]!;
    const several = lesson.pages.length > 1;
    for (const one of [this.back, this.count, this.on]) one.hidden = !several;
    setText(this.count, `page ${at + 1} of ${lesson.pages.length}`);
    setAttribute(this.back, "aria-disabled", at === 0 ? "true" : null);
    setAttribute(this.on, "aria-disabled", at === lesson.pages.length - 1 ? "true" : null);
    this.follow.hidden = !several && !lesson.role;
    this.bar.hidden = this.follow.hidden;
    setText(this.follow, this.free ? "go along again" : "go my own way");
    setAttribute(this.follow, "title", this.free ? "Pages turn here when they turn in the other views" : "Pages turn here by themselves no more");
    const other = this.shown !== at;
    this.shown = at;
    const rule = page.rule ? this.rule(page, state) : null;
    if (other) put(this.text, ...markup(page.text));
    this.text.querySelector(".rules")?.remove();
    if (rule) this.text.append(rule);
    if (page.question) this.card(page, state, other);
    fitFormulas(this.text);
    // This call's state is still being drawn, so the graph moves afterwards.
    if (other) queueMicrotask(() => this.point(page));
  }

  private card({ question }: Page, state: State, other: boolean): void {
    let card = this.cards.get(question!.name);
    if (!card) this.cards.set(question!.name, (card = new QuestionCard(this.context.controller, question!, this.context.prefix)));
    if (other) put(this.text, card.element);
    card.update(question!, state);
  }

  /** The rule of the current step: the op's forward formula and the gradients of its inputs. Null before the first step. */
  private rule(page: Page, { pass, depth }: State): HTMLElement | null {
    const step = pass?.steps.get(pass.index);
    if (!step) return null;
    const shown = page.depth || depth;
    const unwritten = (rule: Rules) => shown === "numbers" && !rule.numbers;
    const rules = [step.forward, ...step.contributions.map(({ rule }) => rule)];
    return h(
      "div",
      { class: "rules secret", "data-testid": "wb-page-rule" },
      ruleRows(step.forward, shown, formula(step.forward.shapes)),
      ...step.contributions.flatMap(({ rule, gradient }) => [ruleRows(rule, shown, formula(rule.shapes)), unwritten(rule) && pillOf(gradient)]),
      rules.some(unwritten) && h("p", { class: "quiet" }, `Shapes: ${UNWRITTEN}.`),
    );
  }

  /** Sets node, depth and overlay as the page asks for. */
  private point({ node, depth, overlay }: Page): void {
    const { controller } = this.context;
    if (node >= 0) controller.show(node);
    if (depth) controller.store.dispatch({ do: "depth", to: depth });
    if (overlay && overlay !== controller.store.state.overlay) controller.setOverlay(overlay);
  }
}
