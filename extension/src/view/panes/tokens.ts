// Shows ids as the tokens they encode.

import { h } from "../dom";
import type { Tokens } from "../protocol";
import { plural } from "../words";

const INVISIBLE: Record<string, string> = { " ": "␣", "\n": "↵", "\t": "⇥" };

/** The token with visible symbols for white space. */
export function visible(text: string): string {
  return text.replace(/^[ \n\t]+|[ \n\t]+$|[\n\t]/g, (white) => [...white].map((one) => INVISIBLE[one]).join(""));
}

export function drawTokens({ ids, texts, rows, cols, unknown }: Tokens): HTMLElement {
  const shown = texts.reduce((sum, row) => sum + row.length, 0);
  const words = [`${rows > 1 ? `${rows} rows of ` : ""}${plural(cols, "token")}`];
  if (shown < rows * cols) words.push(`the first ${shown} are shown`);
  if (unknown) words.push(`${plural(unknown, "id is", "ids are")} not in the vocabulary`);
  return h(
    "figure",
    { class: "tokens", "data-testid": "wb-tokens" },
    ...texts.map((row, at) =>
      h(
        "div",
        { class: "tokenrow" },
        rows > 1 ? h("span", { class: "quiet index" }, String(at)) : null,
        ...row.map((text, place) =>
          h("span", { class: text ? "token" : "token unknown", title: `id ${ids[at]![place]} at [${rows > 1 ? `${at}, ` : ""}${place}]` }, text ? visible(text) : String(ids[at]![place])),
        ),
      ),
    ),
    h("figcaption", {}, `${words.join("; ")}.`),
  );
}
