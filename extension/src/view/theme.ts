// Detects light or dark mode: JupyterLab's or VS Code's attribute, else the system preference.

export function isDark(): boolean {
  const lab = document.body.getAttribute("data-jp-theme-light");
  if (lab !== null) return lab === "false";
  const code = document.body.getAttribute("data-vscode-theme-kind");
  if (code !== null) return code.includes("dark") || code === "vscode-high-contrast";
  return typeof matchMedia === "function" && matchMedia("(prefers-color-scheme: dark)").matches;
}

/** Calls back now and on every change; returns a function that stops. */
export function followTheme(changed: (dark: boolean) => void): () => void {
  const tell = () => changed(isDark());
  tell();
  const observer = new MutationObserver(tell);
  observer.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind"] });
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
