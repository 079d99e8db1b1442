// Creates elements from data: text always becomes text nodes and attributes, never markup.

type Value = string | number | boolean | null | undefined | ((event: never) => void);
export type Child = Node | string | number | null | undefined | false;

const SVG = "http://www.w3.org/2000/svg";

function fill<E extends Element>(element: E, attributes: Record<string, Value>, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value as EventListener);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...present(children));
  return element;
}

function present(children: Child[]): (Node | string)[] {
  const kept: (Node | string)[] = [];
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    kept.push(typeof child === "number" ? String(child) : child);
  }
  return kept;
}

/** Creates an HTML element; function-valued attributes become event listeners. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, Value> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

/** Creates an SVG element. */
export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Record<string, Value> = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  return fill(document.createElementNS(SVG, tag) as SVGElementTagNameMap[K], attributes, children);
}

/** Sets an attribute, or removes it if the value is null or false; does nothing if it is unchanged. */
export function setAttribute(element: Element, name: string, value: string | number | boolean | null): void {
  const text = value === null || value === false ? null : value === true ? "" : String(value);
  if (element.getAttribute(name) === text) return;
  if (text === null) element.removeAttribute(name);
  else element.setAttribute(name, text);
}

/** Replaces an element's children. */
export function put(element: Element, ...children: Child[]): void {
  element.replaceChildren(...present(children));
}

/** Replaces an element's children except `kept`, so that a slider in use can be dragged on. */
export function putAround(element: Element, kept: Element | null, children: Child[]): void {
  const wanted = present(children);
  const at = kept && kept.parentNode === element ? wanted.indexOf(kept) : -1;
  if (at < 0) return element.replaceChildren(...wanted);
  for (const child of [...element.childNodes]) if (child !== kept) child.remove();
  kept!.before(...wanted.slice(0, at));
  kept!.after(...wanted.slice(at + 1));
}

/** Sets an element's text; does nothing if it is unchanged. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}
