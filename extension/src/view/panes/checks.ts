// The checks tab: problems found in the recorded code, with location, explanation and fix.

import { h, put, type Child } from "../dom";
import type { Finding, Operand } from "../protocol";
import { answered, changed, type State } from "../store";
import { plural } from "../words";
import { copyButton } from "./copy";
import type { Pane, PaneContext } from "./pane";
import { siteLine } from "./rules";

type Kind = "nan" | "inf";
const KINDS: readonly (readonly [Kind, string])[] = [
  ["nan", "NaN"],
  ["inf", "Inf"],
];
const SIGNS: Record<Finding["severity"], string> = { error: "✕", warning: "!", note: "i" };

/** Whether a finding is about NaN, infinities or neither. */
function kindOf({ code }: Finding): Kind | null {
  return KINDS.find(([kind]) => code.startsWith(`${kind}-`))?.[0] ?? null;
}

export class ChecksPane implements Pane {
  readonly tab = "checks";
  readonly title = "Checks";
  readonly stays = true;
  readonly element = h("div", { class: "pane checks", "data-testid": "wb-checks" });
  private readonly hidden = new Set<Kind>();
  private looking = false; // a check of all values is in progress

  constructor(private readonly context: PaneContext) {}

  offered(state: State): boolean {
    return state.tab === this.tab || (answered(state, "findings")?.message.findings.length ?? 0) > 0;
  }

  caption(state: State): string {
    const count = answered(state, "findings")?.message.findings.length ?? 0;
    return count ? `${this.title} ${count}` : this.title;
  }

  update(state: State, before: State | null): void {
    if (!changed(state, before, "recording", "answers", "selected")) return;
    const message = answered(state, "findings")?.message;
    if (!message) return put(this.element, h("p", { class: "quiet" }, "The checks run when the code has ended."));
    const { findings, thorough, unsure } = message;
    const shown = findings.filter((finding) => !this.hidden.has(kindOf(finding)!));
    put(
      this.element,
      h("div", { class: "row" }, h("h3", {}, headline(findings)), this.switches(findings, state)),
      ...(findings.length ? [] : [nothing(thorough)]),
      ...shown.map((finding) => this.card(finding, state)),
      shown.length < findings.length ? h("p", { class: "quiet" }, `${plural(findings.length - shown.length, "finding")} not shown.`) : null,
      unsure ? h("p", { class: "quiet", "data-testid": "wb-unsure" }, unsure) : null,
      thorough ? null : this.more(),
    );
  }

  /** Switches that hide findings about NaN or infinities; null if there are none. */
  private switches(findings: readonly Finding[], state: State): Child {
    const there = KINDS.filter(([kind]) => findings.some((finding) => kindOf(finding) === kind));
    if (!there.length) return null;
    const flip = (kind: Kind) => {
      if (!this.hidden.delete(kind)) this.hidden.add(kind);
      this.update(state, null);
      this.element.querySelector<HTMLElement>(`[data-testid="wb-checks-${kind}"]`)?.focus();
    };
    return h(
      "div",
      { class: "segments", role: "group", "aria-label": "Show findings about" },
      ...there.map(([kind, name]) =>
        h("button", { "aria-pressed": String(!this.hidden.has(kind)), "data-testid": `wb-checks-${kind}`, click: () => flip(kind) }, name),
      ),
    );
  }

  private more(): HTMLElement {
    const ask = async () => {
      if (this.looking) return;
      this.looking = true;
      await this.context.controller.ask({ type: "ask_findings" });
      this.looking = false;
    };
    return h(
      "div",
      { class: "row more" },
      h("span", { class: "quiet" }, "Not every value has been looked at yet."),
      h("button", { class: "link", "data-testid": "wb-checks-thorough", click: () => void ask() }, "Look at everything"),
    );
  }

  private card(finding: Finding, state: State): HTMLElement {
    const { code, severity, sentence, node, site, why, fix, operands } = finding;
    const known = node >= 0 && node < state.recording!.tree.size;
    const say = known
      ? h("button", { class: "say", title: "Show it in the graph", click: () => this.context.controller.show(node) }, sentence)
      : h("p", { class: "say" }, sentence);
    return h(
      "article",
      { class: `finding${known && node === state.selected ? " selected" : ""}`, "data-severity": severity, "data-testid": "wb-finding", "data-code": code },
      h("header", {}, h("b", { class: "sign", "aria-hidden": "true" }, SIGNS[severity]), h("span", { class: "severity" }, severity), h("code", { class: "quiet" }, code)),
      say,
      siteLine(site ?? undefined),
      operands.length ? h("ul", { class: "operands" }, ...operands.map((operand) => this.operand(operand, state))) : null,
      h("p", { class: "why" }, why),
      h("div", { class: "fix" }, h("span", { class: "quiet" }, "Fix"), h("code", {}, fix), copyButton(fix, this.context.controller)),
    );
  }

  /** One operand: its shape, with mismatched axes marked, and a description of its values. */
  private operand({ name, node, dtype, shape, marked, words, value }: Operand, state: State): HTMLElement {
    const bad = new Set(marked);
    const axes = shape.map((size, axis) =>
      bad.has(axis)
        ? h("b", { class: "dim bad", title: `axis ${axis}: it does not fit` }, size, h("span", { class: "spoken" }, " (does not fit)"))
        : h("span", { class: "dim", title: `axis ${axis}` }, size),
    );
    const known = node >= 0 && node < state.recording!.tree.size;
    return h(
      "li",
      {},
      known ? h("button", { class: "link", click: () => this.context.controller.show(node) }, name) : h("b", {}, name),
      h("span", { class: "quiet" }, dtype),
      h("span", { class: "dims" }, ...(axes.length ? axes : ["scalar"])),
      value ? h("b", { class: "value" }, value) : null,
      words ? h("div", { class: "quiet" }, words) : null,
    );
  }
}

function headline(findings: readonly Finding[]): string {
  const counts = (["error", "warning", "note"] as const).map((severity) => [severity, findings.filter((one) => one.severity === severity).length] as const);
  return (
    counts
      .filter(([, count]) => count)
      .map(([severity, count]) => plural(count, severity))
      .join(", ") || "Nothing found"
  );
}

function nothing(thorough: boolean): HTMLElement {
  const depth = thorough ? "Every value was looked at. " : "";
  return h("p", { class: "quiet" }, `${depth}No NaN or infinity, no parameter without a gradient, no known mistake in the training loop or the loss.`);
}
