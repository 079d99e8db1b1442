// What the theme leaves out for the keyboard: its drawers on a narrow page open by labels of hidden check boxes, and wide code scrolls.

for (const label of document.querySelectorAll("label.nav-overlay-icon, label.toc-overlay-icon")) {
  const button = document.createElement("button");
  const box = document.getElementById(label.htmlFor);
  button.className = label.className;
  button.ariaLabel = label.classList.contains("nav-overlay-icon") ? "Navigation" : "On this page";
  button.append(...label.childNodes);
  button.addEventListener("click", () => box.click());
  const tell = () => { button.ariaExpanded = String(box.checked); };
  box.addEventListener("change", tell);
  tell();
  label.replaceWith(button);
}

function reach() {
  for (const box of document.querySelectorAll("div.highlight > pre, .formula, .table-wrapper")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}
reach();
addEventListener("resize", reach);
