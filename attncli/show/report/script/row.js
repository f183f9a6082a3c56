// The row of the query that is pointed at: as bars (or lines, of many keys) and as a table.

const MOST_BARS = 40;

class RowView {
  #view;
  #title = make("h3");
  #hold;
  #chart;
  #details;
  #body = make("tbody");
  #sort;

  constructor(view) {
    this.#view = view;
    this.#hold = button("", () => view.hold(!view.isHeld));
    const toggle = (label) => view.choose({ hidden: toggled(view.choices.hidden, label) });
    this.#chart = new Chart({ toggle, point: (key) => view.isHeld || view.point(view.query, key) });
    const headings = ["index", "key", ...view.data.labels].map((name) => make("th", { scope: "col" }, name));
    const table = make("table", { className: "sortable" }, make("thead", {}, make("tr", {}, ...headings)), this.#body);
    this.#sort = makeSortable(table);
    const name = `The row as a table, view ${view.number + 1}`; // a page of several runs has several
    const region = { className: "wide", tabIndex: 0, role: "region", "aria-label": name };
    this.#details = make("details", {}, make("summary", {}, "This row as a table"), make("div", region, table));
    this.#details.ontoggle = () => this.#tabulate();
    const heading = make("p", {}, this.#title, " ", this.#hold);
    this.element = make("div", {}, heading, this.#chart.element, this.#details);
  }

  show() {
    const { choices, query } = this.#view;
    this.#title.replaceChildren(`${choices.stage} of `, ...this.#view.named("queries", query));
    this.#draw();
    this.#tabulate();
  }

  showHeld() {
    this.#hold.textContent = this.#view.isHeld ? "release" : "hold";
  }

  /** The values of one scorer at the keys of this row; null where a key is masked. */
  #valuesOf(label) {
    const { data, mask, values, choices, query } = this.#view;
    const ofStage = values.get(choices.stage)[label];
    if (!ofStage) return null;
    return range(data.m).map((key) => (mask[query * data.m + key] ? ofStage[query * data.m + key] : null));
  }

  #draw() {
    const { data, choices, looks } = this.#view;
    const keys = range(data.m);
    const hasBars = data.m <= MOST_BARS;
    const text = (key) => this.#view.token("keys", key);
    const all = data.labels.map((name, i) => ({ name, look: looks[i], x: keys, y: this.#valuesOf(i) }));
    this.#chart.draw({
      x: { name: "key", ticks: hasBars ? keys : null, text: data.tokens.keys ? text : null },
      y: { name: choices.stage, digits: this.#view.digits, hasZero: hasBars || choices.stage === "weights" },
      series: all.filter((line) => line.y),
      off: choices.hidden,
      hasBars,
    });
  }

  #tabulate() {
    if (!this.#details.open || !this.#view.values) return;
    const { data, mask, query } = this.#view;
    const columns = data.labels.map((_, label) => this.#valuesOf(label));
    const valid = range(data.m).filter((key) => mask[query * data.m + key]);
    const rows = valid.map((key) => {
      const token = make("td", {}, make("bdi", {}, this.#view.token("keys", key)));
      return make("tr", {}, numberCell(key), token, ...columns.map((values) => numberCell(values?.[key], this.#view.digits)));
    });
    this.#body.replaceChildren(...rows);
    this.#sort();
  }
}
