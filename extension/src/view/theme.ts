// Detects light or dark mode: the attribute that JupyterLab, VS Code or a page of documentation sets, else the system preference.

export function isDark(): boolean {
  const lab = document.body.getAttribute("data-jp-theme-light");
  if (lab !== null) return lab === "false";
  const code = document.body.getAttribute("data-vscode-theme-kind");
  if (code !== null) return code.includes("dark") || code === "vscode-high-contrast";
  const page = document.body.getAttribute("data-theme");
  if (page === "light" || page === "dark") return page === "dark";
  return typeof matchMedia === "function" && matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Calls back now and on every change; returns a function that stops. */
export function followTheme(changed: (dark: boolean) => void): () => void {
  const tell = () => changed(isDark());
  tell();
  const observer = new MutationObserver(tell);
  observer.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind", "data-theme"] });
  const query = typeof matchMedia === "function" ? matchMedia("(prefers-color-scheme: dark)") : null;
  query?.addEventListener("change", tell);
  return () => {
    observer.disconnect();
    query?.removeEventListener("change", tell);
  };
}

export function prefersStill(): boolean {
  return typeof matchMedia === "function" && matchMedia("(prefers-reduced-motion: reduce)").matches;
}
