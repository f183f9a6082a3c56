// Start the page: decode and show all views of matrices, and make tables sortable.

const elements = [...document.querySelectorAll(".view")];
Choices.begin(elements.length);

elements.forEach(async (element, number) => {
  const stage = element.querySelector(".stage");
  try {
    const data = JSON.parse(element.querySelector(".data").textContent);
    const view = new MatricesView(data, number, await Matrices.of(data));
    stage.append(view.element);
    stage.hidden = false;
    view.show();
    const items = element.parentElement.querySelectorAll(".findings li");
    for (const finding of data.findings) {
      const item = items[finding.index];
      if (item.querySelector("a")) continue;
      const link = make("a", {}, item.textContent);
      view.link(link, finding.place, finding.label);
      item.replaceChildren(link);
    }
    for (const cell of document.querySelectorAll(".hint[data-head]")) view.linkCell(cell);
    stage.dataset.ready = "yes";
  } catch ({ message }) {
    stage.replaceChildren(make("p", { className: "note" }, `This browser cannot show it: ${message}`));
  }
});

for (const table of document.querySelectorAll("main details table.sortable")) makeSortable(table);
theme.begin();

// Links within the page must not replace the address, since it stores the reader's choices.
for (const link of document.querySelectorAll("nav a")) {
  link.onclick = (event) => {
    event.preventDefault();
    document.querySelector(link.getAttribute("href")).scrollIntoView();
  };
}
