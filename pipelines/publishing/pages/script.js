"use strict";
// Tables that are marked so can be sorted by their heads: by number where both are numbers, else by text.
const number = (text) => parseFloat(text.replace(/[,%±]/g, ""));
const shown = (row, place) => row.cells[place] ? row.cells[place].textContent.trim() : "";
const compare = (one, other) => {
  const a = number(one), b = number(other);
  if (Number.isNaN(a) !== Number.isNaN(b)) return Number.isNaN(a) ? 1 : -1;
  return Number.isNaN(a) ? one.localeCompare(other) : a - b;
};
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = table.tHead.rows[0].cells, body = table.tBodies[0];
  for (const head of heads) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending" || (!head.hasAttribute("aria-sort") && head.classList.contains("down"));
      for (const each of heads) each.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].sort((x, y) => compare(shown(x, head.cellIndex), shown(y, head.cellIndex)));
      body.append(...(down ? rows.reverse() : rows));
    });
  }
}
