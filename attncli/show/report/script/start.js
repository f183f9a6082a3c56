// The page comes to life: every view of a run has its data, and a stage for what is interactive.

const elements = [...document.querySelectorAll(".view")];
Choices.begin(elements.length);

elements.forEach((element, number) => {
  const stage = element.querySelector(".stage");
  const data = JSON.parse(element.querySelector(".data").textContent);
  const view = data.charts ? new CurvesView(data, number) : new MatricesView(data, number);
  stage.append(view.element);
  stage.hidden = false;
  stage.inert = true; // there is nothing to point at before it is drawn
  const fail = ({ message }) =>
    stage.replaceChildren(make("p", { className: "note" }, `This browser cannot show it: ${message}`));
  Promise.resolve(view.show())
    .then(() => (stage.dataset.ready = "yes"), fail)
    .finally(() => (stage.inert = false));
});

for (const table of document.querySelectorAll("main > section > details table.sortable")) makeSortable(table);
theme.begin();

// The address has what is chosen, so that links within the page must not replace it.
for (const link of document.querySelectorAll("nav a")) {
  link.onclick = (event) => {
    event.preventDefault();
    document.querySelector(link.getAttribute("href")).scrollIntoView();
  };
}
