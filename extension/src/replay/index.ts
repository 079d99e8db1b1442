// Shows replays: the one of a stand-alone page, those of slides, or each of a page that embeds several. The same view as in a notebook, with data for a kernel.

import view from "../view/index";
import { present } from "./deck";
import { embed } from "./embed";
import { readReplay } from "./file";
import { ReplayKernel } from "./kernel";

/** Shows the replay whose data are in the page. */
async function open(el: HTMLElement, data: string): Promise<void> {
  const file = await readReplay(Uint8Array.from(atob(data.trim()), (char) => char.charCodeAt(0)));
  el.replaceChildren();
  el.style.height = "100%"; // the view fills it
  el.style.flex = "1";
  view.render({ model: new ReplayKernel(file), el });
  el.querySelector("div")?.shadowRoot?.querySelector<HTMLElement>('[role="tree"]')?.focus(); // the view is all of the page
}

const data = document.getElementById("data");
const deck = document.getElementById("deck");
if (deck) {
  present(deck);
} else if (data) {
  const el = document.getElementById("view")!;
  open(el, data.textContent!).catch((error: unknown) => {
    const why = error instanceof Error ? error.message : String(error);
    el.replaceChildren(`This replay cannot be shown: ${why} A browser of 2023 or later is needed, and a file that is complete.`);
  });
} else {
  embed(document.querySelectorAll<HTMLElement>("[data-replay]"));
}
