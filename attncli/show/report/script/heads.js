// Small pictures of all heads (and layers), each a button that shows its head.

const MOST_THUMBNAILS = 96; // and cells in them; beyond that they are drawn when they are asked for
const MOST_THUMBNAIL_CELLS = 250_000;

class HeadsView {
  #view;
  #grid = make("div", { className: "heads", role: "group", "aria-label": "All heads" });
  #thumbnails = []; // row by row, with what is chosen by each
  #perRow;

  constructor(view) {
    this.#view = view;
    const { n, m, mask, labels } = view.data;
    const count = mask.length * labels.length;
    const isOpen = count <= MOST_THUMBNAILS && count * n * m <= MOST_THUMBNAIL_CELLS;
    const summary = make("summary", {}, make("h3", {}, "All heads"));
    const opening = { className: "overview", open: isOpen, ontoggle: () => this.show() };
    this.element = make("details", opening, summary, this.#grid);
    this.#build();
    this.#grid.onkeydown = (event) => this.#press(event);
  }

  /** A row for each scorer and layer, a column for each head. */
  #build() {
    const { axes, labels, n, m } = this.#view.data;
    const columns = axes.at(-1);
    const middle = axes.slice(1, -1).at(0); // layers, where there are any
    this.#perRow = columns.size;
    this.#grid.style.gridTemplateColumns = `max-content repeat(${columns.size}, max-content)`;
    this.#grid.append(make("span"), ...columns.names.map((name) => make("span", {}, `${columns.name} ${name}`)));
    for (const [label, name] of labels.entries()) {
      for (const layer of middle ? range(middle.size) : [null]) {
        const of = layer === null ? {} : { [middle.name]: layer };
        const row = layer === null ? name : `${name}, ${middle.names[layer]}`;
        this.#grid.append(make("bdi", {}, row));
        for (const head of range(columns.size)) {
          const canvas = make("canvas", { width: m, height: n });
          const choice = { ...of, [columns.name]: head };
          const about = { type: "button", "aria-label": `${row}, ${columns.name} ${columns.names[head]}` };
          const element = make("button", { ...about, onclick: () => this.#view.choose(choice) }, canvas);
          this.#grid.append(element);
          this.#thumbnails.push({ label, choice, canvas, element });
        }
      }
    }
  }

  async show() {
    if (!this.element.open || !this.#view.values) return;
    const { drawing, data, choices } = this.#view;
    const places = this.#thumbnails.map(({ choice }) => data.axes.map(({ name }) => choice[name] ?? choices[name]));
    const distinct = new Map(places.map((place) => [String(place), place])); // one for all scorers
    const load = async ([name, place]) => [name, await this.#view.picturesAt(place)];
    const pictures = new Map(await Promise.all([...distinct].map(load)));
    if (drawing !== this.#view.drawing) return;
    this.#thumbnails.forEach(({ label, canvas, element }, i) => {
      paint(canvas, pictures.get(String(places[i]))[label]);
      const isShown = String(places[i]) === String(this.#view.place);
      element.setAttribute("aria-pressed", String(isShown));
      element.tabIndex = isShown && label === 0 ? 0 : -1; // one stop for Tab; arrows do the rest
    });
  }

  #press(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.#perRow, ArrowDown: this.#perRow }[event.key];
    const now = this.#thumbnails.findIndex(({ element }) => element === document.activeElement);
    if (!step || now < 0) return;
    event.preventDefault();
    this.#thumbnails[now + step]?.element.focus();
  }
}
