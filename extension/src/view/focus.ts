// The focus outlives a drawing: what had it is found again among what was drawn in its place.

/** How to find again what has the focus: the element of its kind and name, at its place among these. */
export function finderOf(root: ParentNode, focused: HTMLElement): () => HTMLElement | undefined {
  const called = nameOf(focused);
  const alike = () => [...root.querySelectorAll<HTMLElement>(focused.tagName)].filter((one) => nameOf(one) === called && !one.closest("[hidden]"));
  const at = alike().indexOf(focused);
  return () => alike().at(Math.min(at, alike().length - 1));
}

function nameOf(element: HTMLElement): string {
  return element.dataset.testid ?? (element.title || element.getAttribute("aria-label") || element.textContent!);
}
