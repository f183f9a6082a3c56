// The row of the current query, as bars in a strip for each scorer and as a table.

const STRIP = 56; // pixels of the height of a strip
const WIDTH = 1000; // of a strip, in units of its drawing, which are about pixels
const STRIP_NAMES = 200; // pixels left of the strips, at most

class RowView {
  #view;
  #title = make("h3");
  #hold;
  #strips = make("div", { className: "strips", "aria-hidden": "true" });
  #details;
  #body = make("tbody");
  #sort;

  constructor(view) {
    this.#view = view;
    this.#hold = button("", () => view.hold(!view.isHeld));
    const headings = ["index", "key", ...view.data.labels].map((name) => make("th", { scope: "col" }, name));
    const table = make("table", { className: "sortable" }, make("thead", {}, make("tr", {}, ...headings)), this.#body);
    this.#sort = makeSortable(table);
    const name = `The row as a table, view ${view.number + 1}`; // a page of several runs has several
    const region = { className: "wide", tabIndex: 0, role: "region", "aria-label": name };
    this.#details = make("details", {}, make("summary", {}, "This row as a table"), make("div", region, table));
    this.#details.ontoggle = () => this.#tabulate();
    const heading = make("p", {}, this.#title, " ", this.#hold);
    this.element = make("div", { className: "row" }, heading, this.#strips, this.#details);
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

  /** Return the values of a label in this row, null where masked; null without such a matrix. */
  #valuesOf(label) {
    const { data, query } = this.#view;
    const found = range(data.m).map((key) => this.#view.valueAt(label, query * data.m + key));
    return found.some((value) => value !== null) ? found : null;
  }

  /** Bars from 0, or from the lowest value if it is below 0, on one axis for all scorers. */
  #draw() {
    const { data } = this.#view;
    const rows = data.labels.map((_, label) => this.#valuesOf(label));
    const known = rows.flatMap((values) => values ?? []).filter(Number.isFinite);
    const [low, high] = [Math.min(0, ...known), Math.max(0, ...known)];
    const up = (value) => STRIP * (1 - (clamp(value, low, high) - low) / (high - low || 1));
    const width = WIDTH / data.m;
    const strips = rows.flatMap((values, label) => {
      if (!values) return [];
      const bar = (value, key) =>
        value === null || Number.isNaN(value) ? "" : `M${key * width} ${up(0)}V${up(value)}h${0.9 * width}V${up(0)}Z`;
      const bars = makeSvg("path", { d: values.map(bar).join("") });
      const [light, dark] = data.looks[label];
      bars.style.setProperty("fill", `light-dark(${light}, ${dark})`);
      const axis = makeSvg("line", { x2: WIDTH, y1: up(0), y2: up(0) });
      const size = { viewBox: `0 0 ${WIDTH} ${STRIP}`, preserveAspectRatio: "none", height: STRIP };
      const ends = make("small", {}, make("span", {}, showNumber(high, this.#view.digits)), make("span", {}, showNumber(low, this.#view.digits)));
      return [make("bdi", {}, data.labels[label]), ends, makeSvg("svg", size, axis, bars)];
    });
    const widest = range(data.m).reduce((most, key) => Math.max(most, widthOf(this.#view.token("keys", key))), 0);
    const room = clamp(this.#view.group.clientWidth - STRIP_NAMES, widest, WIDTH);
    const every = STEPS.find((step) => Math.ceil(data.m / step) * widest <= room) ?? STEPS.at(-1);
    const names = range(data.m).filter((key) => key % every === 0);
    const keys = names.map((key) => {
      const name = make("bdi", {}, this.#view.token("keys", key));
      name.style.setProperty("--keys", Math.min(every, data.m - key));
      return name;
    });
    const isBelow = every === 1 ? "keys" : "keys thinned";
    this.#strips.replaceChildren(...strips, make("div", { className: isBelow }, ...keys));
  }

  #tabulate() {
    if (!this.#details.open) return;
    const { data, query, digits } = this.#view;
    const labels = range(data.labels.length);
    const rows = range(data.m).flatMap((key) => {
      const values = labels.map((label) => this.#view.valueAt(label, query * data.m + key));
      if (values.every((value) => value === null)) return [];
      const name = make("td", {}, make("bdi", {}, this.#view.token("keys", key)));
      return [make("tr", {}, make("td", { className: "number", "data-value": key }, String(key)), name, ...values.map((value) => numberCell(value, digits)))];
    });
    this.#body.replaceChildren(...rows);
    this.#sort();
  }
}
