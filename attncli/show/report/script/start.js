// The page comes to life: every run's section has its data and a place for what is interactive.

const sections = [...document.querySelectorAll("section.run")];
Choices.begin(sections.length);

const views = sections.map((section, number) => {
  const data = JSON.parse(section.querySelector(".data").textContent);
  const place = section.querySelector(".stage");
  return data.study === "attention" ? new MatricesView(data, place, number) : new CurvesView(data, place, number);
});

for (const table of document.querySelectorAll("main details > .wide > table.sortable")) makeSortable(table);
theme.begin(() => views.forEach((view) => view.paint?.()));

// The address has what is chosen, so that links within the page must not replace it.
for (const link of document.querySelectorAll("nav a")) {
  link.onclick = (event) => {
    event.preventDefault();
    document.querySelector(link.getAttribute("href")).scrollIntoView();
  };
}
