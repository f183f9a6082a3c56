// Tables as files.

function saveAs(name, blob) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name.replaceAll(/[\\/:*?"<>|]+/g, "_") });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // the browser reads it later
}

/** Save a table in its present order as CSV, with all digits of its numbers. */
function saveTable(table) {
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = [...table.rows].map((row) => [...row.cells].map((cell) => quoted(cell.dataset.value ?? cell.textContent)));
  const name = table.closest("[aria-label]").getAttribute("aria-label");
  saveAs(`${name}.csv`, new Blob([`${lines.join("\n")}\n`], { type: "text/csv" }));
}
