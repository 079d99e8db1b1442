// Restores the focus after a redraw, by finding the element that replaced the focused one.

/** Returns a function that finds the focused element again, by tag, name and position among those with the same tag and name. */
export function finderOf(root: ParentNode, focused: HTMLElement): () => HTMLElement | undefined {
  const called = nameOf(focused);
  const alike = () => [...root.querySelectorAll<HTMLElement>(focused.tagName)].filter((one) => nameOf(one) === called && !one.closest("[hidden]"));
  const at = alike().indexOf(focused);
  return () => alike().at(Math.min(at, alike().length - 1));
}

function nameOf(element: HTMLElement): string {
  return element.dataset.testid ?? (element.title || element.getAttribute("aria-label") || element.textContent!);
}
