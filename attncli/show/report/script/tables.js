// Tables that are sorted by the column whose heading is pressed.

/** Make the headings of a table buttons. Returns what sorts it once more, after its rows have changed. */
function makeSortable(table) {
  const headings = [...table.tHead.rows[0].cells];
  const sorted = { column: null, isDown: true };

  const sort = () => {
    if (sorted.column === null) return;
    const rows = [...table.tBodies[0].rows].map((row) => [sortingKey(row.cells[sorted.column]), row]);
    const sign = sorted.isDown ? -1 : 1;
    rows.sort(([a], [b]) => (a === null || b === null ? (a === null) - (b === null) : sign * compare(a, b)));
    table.tBodies[0].append(...rows.map(([, row]) => row));
  };

  headings.forEach((heading, column) => {
    const press = () => {
      sorted.isDown = sorted.column === column ? !sorted.isDown : true;
      sorted.column = column;
      for (const each of headings) each.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", sorted.isDown ? "descending" : "ascending");
      sort();
    };
    heading.replaceChildren(make("button", { type: "button", onclick: press }, ...heading.childNodes));
  });
  return sort;
}

/** A number, a text, or null for a cell without a value, which comes last either way. */
function sortingKey(cell) {
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  return cell.textContent === MISSING ? null : cell.textContent;
}

function compare(a, b) {
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
}
