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
  for (const map of document.querySelectorAll("table.map")) walk(map);
});

// One place of the map is in the order of Tab; the arrows go from it to its neighbours, and from the first row to the heads
// above it, which lead somewhere. What is there is said below.
function walk(map) {
  const said = document.getElementById("map-said");
  const rows = [...map.tBodies[0].rows].map((row) => [...row.cells]);
  const heads = [...map.tHead.rows[0].cells].map((cell) => cell.querySelector("a"));
  let at = map.querySelector("td[title]");
  if (!at) return;
  at.tabIndex = 0;
  // Where it is wider than the screen, the newest dates are wanted first.
  map.parentElement.scrollLeft = map.scrollWidth;
  const tell = (cell) => { said.hidden = false; said.textContent = cell.title; };
  map.addEventListener("pointerover", (event) => {
    const cell = event.target.closest("td[title]");
    if (cell) tell(cell);
  });
  map.addEventListener("focusin", (event) => {
    const cell = event.target.closest("td[title]");
    if (cell) tell(cell);
  });
  map.addEventListener("click", (event) => {
    const cell = event.target.closest("td[title]");
    if (cell) go(cell);
  });
  function go(cell) {
    at.tabIndex = -1;
    at = cell;
    at.tabIndex = 0;
    at.focus();
  }
  map.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step || event.target !== at) return;
    const cell = at.closest("th, td");
    let row = at === cell ? cell.parentElement.sectionRowIndex : -1, column = cell.cellIndex;
    do {
      row += step[0];
      column += step[1];
    } while (rows[row]?.[column] && !rows[row][column].title && rows[row][column].tagName === "TD");
    const next = row < 0 ? heads[column] : rows[row]?.[column];
    if (next && (row < 0 || next.title)) {
      event.preventDefault();
      go(next);
    }
  });
}
