// The whole view on the kernel in the page, for a test: how to find what is seen, and a user's gestures.

import { afterEach, beforeEach, vi } from "vitest";
import view from "../../src/view/index";
import { FakeKernel } from "./kernel";
import { mlp, type Builder } from "./recordings";

const closing: (() => void)[] = [];

export const wait = () => vi.advanceTimersByTimeAsync(50);

/** For a file of tests: time goes on when the test says so, nothing is painted, and no view outlives its test. */
export function eachOnAFreshPage(): void {
  beforeEach(() => {
    vi.useFakeTimers();
    vi.spyOn(HTMLCanvasElement.prototype, "getContext").mockReturnValue(null);
  });
  afterEach(() => {
    closing.splice(0).forEach((close) => close());
    document.body.replaceChildren();
    vi.useRealTimers();
    vi.restoreAllMocks();
  });
}

/** The view after it has opened. */
export async function openView(builder: Builder = mlp(), { steps = true, change = (_: FakeKernel): void => undefined } = {}) {
  const kernel = new FakeKernel(builder, "r1", steps);
  change(kernel);
  const el = document.createElement("div");
  document.body.append(el);
  let stop = () => undefined as void;
  const ends = new Map<string, () => void>(); // how the line can end, by the event that tells it
  const model = {
    get: (key: string) => (key === "height" ? 500 : undefined),
    send: (message: unknown) => kernel.send(message),
    on: (event: string, callback: (message: unknown, buffers: DataView[]) => void) => {
      if (event === "msg:custom") stop = kernel.listen((message, buffers) => callback(message, buffers as DataView[]));
      else ends.set(event, () => callback(undefined, []));
    },
    off: (event: string) => {
      if (event === "msg:custom") stop();
      else ends.delete(event);
    },
  };
  const core = view.open(model);
  const leave = view.render({ model, el, core });
  /** The same once more on the page, as a second output shows it; `later` leaves it to the caller to put it there. */
  const again = (later = false) => {
    const other = document.createElement("div");
    if (!later) document.body.append(other);
    const away = view.render({ model, el: other, core });
    closing.push(away);
    return { root: other.querySelector(".gradient-workbench")!.shadowRoot!, away, other };
  };
  const close = () => {
    leave();
    core.close();
  };
  closing.push(close);
  await wait();
  const root = el.querySelector(".gradient-workbench")!.shadowRoot!;
  const all = (id: string) => [...root.querySelectorAll<HTMLElement>(`[data-testid="${id}"]`)];
  const seen = (id: string) => all(id).filter((element) => !element.closest("[hidden]"));
  /** The one of this name; where several panes have one, the one that is seen. */
  const one = <E extends HTMLElement = HTMLElement>(id: string) => {
    const found = all(id).length === 1 ? all(id) : seen(id);
    if (found.length !== 1) throw new Error(`${found.length} elements are called ${id}`);
    return found[0] as E;
  };
  const node = (id: number) => root.querySelector<SVGElement>(`[data-testid="wb-node"][data-node="${id}"]`)!;
  const click = async (element: Element) => {
    element.dispatchEvent(new MouseEvent("click", { bubbles: true, composed: true, cancelable: true }));
    await wait();
  };
  /** Whether the view has taken the key. */
  const press = async (key: string, more: KeyboardEventInit = {}, on: Element = one("wb-graph")) => {
    const event = new KeyboardEvent("keydown", { key, bubbles: true, composed: true, cancelable: true, ...more });
    on.dispatchEvent(event);
    await wait();
    return event.defaultPrevented;
  };
  const choose = async (id: string, value: string) => {
    one<HTMLSelectElement>(id).value = value;
    one(id).dispatchEvent(new Event("change", { bubbles: true }));
    await wait();
  };
  const unfold = async (details: HTMLElement) => {
    (details as HTMLDetailsElement).open = true;
    details.dispatchEvent(new Event("toggle"));
    await wait();
  };
  return { kernel, core, el, root, again, close, ends, all, seen, one, node, click, press, choose, unfold };
}
