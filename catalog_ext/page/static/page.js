"use strict";
// The theme: as the system has it, or light or dark. Kept in this browser, set before anything is painted.
const root = document.documentElement;
const themes = ["system", "light", "dark"];
function kept() {
  try {
    return themes.includes(localStorage.theme) ? localStorage.theme : "system";
  } catch {
    return "system"; // a browser that keeps nothing
  }
}
function show(theme) {
  if (theme === "system") root.removeAttribute("data-theme");
  else root.setAttribute("data-theme", theme);
}
show(kept());

document.addEventListener("DOMContentLoaded", () => {
  let theme = kept();
  const button = document.getElementById("theme");
  const say = () => { button.textContent = `Theme: ${theme}`; };
  say();
  button.hidden = false;
  button.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    try { localStorage.theme = theme; } catch { /* it lasts for this page */ }
    show(theme);
    say();
  });
  // A choice in a filter is shown at once; text waits for Enter.
  for (const select of document.querySelectorAll("form.filters select")) {
    select.addEventListener("change", () => select.form.requestSubmit());
  }
  for (const form of document.querySelectorAll("form.filters")) {
    form.addEventListener("submit", () => {
      for (const field of form.elements) if (field.name && !field.value) field.disabled = true;
    });
  }
  for (const map of document.querySelectorAll("svg.map")) walk(map);
});

// One place of the map is in the order of Tab. The arrows move between places, and from the first row to the links in the
// heads above it. The text of the current place stands below the map.
function walk(map) {
  const said = document.getElementById("map-said");
  const [heads, ...rows] = [...map.querySelectorAll("[role=row]")].map((row) => [...row.children]);
  const place = (node) => node?.closest?.("rect");
  let at = map.querySelector("rect");
  if (!at) return;
  at.setAttribute("tabindex", "0");
  // Where the map is wider than the screen, the newest dates are wanted first.
  map.parentElement.scrollLeft = map.parentElement.scrollWidth;
  for (const event of ["pointerover", "focusin"]) {
    map.addEventListener(event, ({ target }) => {
      if (!place(target)) return;
      said.hidden = false;
      said.textContent = place(target).textContent;
    });
  }
  map.addEventListener("click", ({ target }) => { if (place(target)) go(place(target)); });
  function go(node) {
    at.setAttribute("tabindex", "-1");
    at = node;
    at.setAttribute("tabindex", "0");
    at.focus();
  }
  map.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step || event.target !== at) return;
    const cell = at.closest("rect, g"), row = cell.closest("[role=row]");
    let y = rows.findIndex((cells) => cells.includes(cell)), x = [...row.children].indexOf(cell), next;
    do {
      y += step[0];
      x += step[1];
      next = y < 0 ? heads[x]?.querySelector("a") : rows[y]?.[x];
    } while (y >= 0 && next?.matches("g[role=cell]"));
    if (next?.matches("a, rect")) {
      event.preventDefault();
      go(next);
    }
  });
}
