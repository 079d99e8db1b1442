// The page of a stand-alone replay: the same view as in a notebook, with a file instead of a kernel.

import view from "../view/index";
import { readReplay } from "./file";
import { ReplayKernel } from "./kernel";

async function open(el: HTMLElement, data: string): Promise<void> {
  const file = await readReplay(data);
  el.replaceChildren();
  el.style.height = "100%"; // the view fills it
  el.style.flex = "1";
  view.render({ model: new ReplayKernel(file), el });
  el.querySelector("div")?.shadowRoot?.querySelector<HTMLElement>('[role="tree"]')?.focus(); // the view is all of the page
}

const el = document.getElementById("view")!;
open(el, document.getElementById("data")!.textContent!).catch((error: unknown) => {
  const why = error instanceof Error ? error.message : String(error);
  el.replaceChildren(`This replay cannot be shown: ${why} A browser of 2023 or later is needed, and a file that is complete.`);
});
