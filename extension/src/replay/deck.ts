// Slides: one section of the page at a time, and in it the live view, with keys for a presenter.

import view from "../view/index";
import { LEFT } from "../view/notebook";
import { readReplay } from "./file";
import { ReplayKernel } from "./kernel";

/** Shows the slides in `deck`, one at a time. The number in the address is the slide's. */
export function present(deck: HTMLElement): void {
  const slides = [...deck.querySelectorAll<HTMLElement>(".slide")];
  const element = (id: string) => document.getElementById(`deck-${id}`)!;
  let at = -1;

  function show(to: number): void {
    const next = Math.max(0, Math.min(to, slides.length - 1));
    if (next === at) return;
    if (document.fullscreenElement?.closest(".slide")) void document.exitFullscreen(); // a view in presenter mode
    at = next;
    slides.forEach((slide, number) => (slide.hidden = number !== at));
    element("at").textContent = `${at + 1} / ${slides.length}`;
    history.replaceState(null, "", `#${at + 1}`);
    const stage = slides[at]!.querySelector<HTMLElement>("[data-slide]");
    if (stage && !stage.dataset.state) void open(stage);
    deck.focus({ preventScroll: true });
  }

  function help(open: boolean): void {
    element("help").hidden = !open;
    element("keys").setAttribute("aria-expanded", String(open));
  }

  const turns: Readonly<Record<string, () => void>> = {
    PageDown: () => show(at + 1),
    PageUp: () => show(at - 1),
    ArrowRight: () => show(at + 1),
    ArrowLeft: () => show(at - 1),
    Home: () => show(0),
    End: () => show(slides.length - 1),
    f: () => void fill(),
    h: () => document.body.classList.toggle("plain-text"),
    "?": () => help(Boolean(element("help").hidden)),
    Escape: () => help(false),
  };

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const path = event.composedPath();
    const stage = slides[at]!.querySelector<HTMLElement>("[data-slide]");
    const inside = stage !== null && path.includes(stage);
    const turned = inside && !event.key.startsWith("Page") ? undefined : turns[event.key];
    if (turned) {
      event.preventDefault();
      turned();
    } else if (stage && !inside && !(path[0] instanceof HTMLButtonElement)) {
      forward(event, stage);
    }
  });
  document.addEventListener(LEFT, () => deck.focus({ preventScroll: true }));
  element("next").addEventListener("click", () => show(at + 1));
  element("back").addEventListener("click", () => show(at - 1));
  element("keys").addEventListener("click", () => help(Boolean(element("help").hidden)));
  addEventListener("hashchange", () => show(fromAddress()));
  show(fromAddress());
}

function fromAddress(): number {
  return (Number.parseInt(location.hash.slice(1), 10) || 1) - 1;
}

/** Gives the view a key that the slides have no use for. */
function forward(event: KeyboardEvent, stage: HTMLElement): void {
  const root = stage.firstElementChild?.shadowRoot?.querySelector(".root");
  const { key, code, shiftKey } = event;
  if (root && !root.dispatchEvent(new KeyboardEvent("keydown", { key, code, shiftKey, bubbles: true, cancelable: true }))) event.preventDefault();
}

async function open(stage: HTMLElement): Promise<void> {
  stage.dataset.state = "loading";
  try {
    const packed = document.getElementById(stage.dataset.slide!)!.textContent!.trim();
    const file = await readReplay(Uint8Array.from(atob(packed), (char) => char.charCodeAt(0)));
    stage.replaceChildren();
    stage.style.height = "100%"; // the view fills it
    view.render({ model: new ReplayKernel(file), el: stage, hints: false });
    stage.dataset.state = "live";
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    stage.replaceChildren(`This view cannot be shown: ${why} A browser of 2023 or later is needed, and a file that is complete.`);
    stage.dataset.state = "failed";
  }
}

async function fill(): Promise<void> {
  try {
    await (document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen());
  } catch (error) {
    if (!(error instanceof TypeError || error instanceof DOMException)) throw error; // the browser does not allow it here
  }
}
