// Replays in a page of text: each element with `data-replay`, an address, shows its picture until it comes into sight, then the live view.

import view from "../view/index";
import { readReplay } from "./file";
import { ReplayKernel } from "./kernel";

const AHEAD = "400px"; // how far below the window an element already counts as in sight

/** Shows each replay when it comes into sight. If one cannot be shown, its picture stays, with the reason below it. */
export function embed(elements: Iterable<HTMLElement>): void {
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        observer.unobserve(target);
        void show(target as HTMLElement);
      }
    },
    { rootMargin: AHEAD },
  );
  for (const element of elements) observer.observe(element);
}

async function show(element: HTMLElement): Promise<void> {
  try {
    const response = await fetch(element.dataset.replay!);
    if (!response.ok) throw new Error(`the server answered ${response.status} ${response.statusText}.`);
    const file = await readReplay(new Uint8Array(await response.arrayBuffer()));
    const live = document.createElement("div");
    element.replaceChildren(live);
    view.render({ model: new ReplayKernel(file), el: live, hints: false });
    element.dataset.state = "live";
  } catch (error) {
    const note = document.createElement("p");
    note.textContent = `The live view cannot be shown: ${error instanceof Error ? error.message : String(error)}`;
    element.append(note);
    element.dataset.state = "picture";
  }
}
