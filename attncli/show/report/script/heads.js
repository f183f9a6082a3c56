// Small pictures of all heads (and layers), each a button that shows its head.

const MOST_THUMBNAILS = 96; // limit of thumbnails drawn at first, and of cells in each
const MOST_THUMBNAIL_CELLS = 250_000;

class HeadsView {
  #view;
  #grid = make("div", { className: "heads", role: "group", "aria-label": "All heads" });
  #thumbnails = []; // row by row
  #perRow;

  constructor(view) {
    this.#view = view;
    const { labels, n, m } = view.data;
    const count = view.matrices.places * labels.length;
    const isOpen = count <= MOST_THUMBNAILS && count * n * m <= MOST_THUMBNAIL_CELLS;
    const summary = make("summary", {}, make("h3", {}, "All heads"));
    this.element = make("details", { className: "overview", open: isOpen, ontoggle: () => this.show() }, summary, this.#grid);
    this.#build();
    this.#grid.onkeydown = (event) => this.#press(event);
  }

  /** A row for each scorer and layer, a column for each head. */
  #build() {
    const { axes, labels, n, m } = this.#view.data;
    const columns = axes.at(-1);
    const layers = axes.length > 2 ? axes[1] : null;
    this.#perRow = columns.names.length;
    this.#grid.style.gridTemplateColumns = `max-content repeat(${this.#perRow}, max-content)`;
    this.#grid.append(make("span"), ...columns.names.map((name) => make("span", {}, `${columns.name} ${name}`)));
    for (const [label, name] of labels.entries()) {
      for (const [layer, layerName] of (layers?.names ?? [null]).entries()) {
        const row = layers ? `${name}, ${layerName}` : name;
        this.#grid.append(make("bdi", {}, row));
        for (const [index, column] of columns.names.entries()) {
          const canvas = make("canvas", { width: m, height: n });
          const choice = { ...(layers && { [layers.name]: layer }), [columns.name]: index };
          const about = { type: "button", "aria-label": `${row}, ${columns.name} ${column}` };
          const element = make("button", { ...about, onclick: () => this.#view.choose(choice) }, canvas);
          this.#grid.append(element);
          this.#thumbnails.push({ label, choice, canvas, element });
        }
      }
    }
  }

  show() {
    if (!this.element.open) return;
    const { data, choices, place } = this.#view;
    for (const { label, choice, canvas, element } of this.#thumbnails) {
      const own = data.axes.map(({ name }) => choice[name] ?? choices[name]);
      paint(canvas, this.#view.pictureOf(label, own));
      const isShown = String(own) === String(place);
      element.setAttribute("aria-pressed", String(isShown));
      element.tabIndex = isShown && label === 0 ? 0 : -1; // one stop for Tab; arrows do the rest
    }
  }

  #press(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.#perRow, ArrowDown: this.#perRow }[event.key];
    const now = this.#thumbnails.findIndex(({ element }) => element === document.activeElement);
    if (!step || now < 0) return;
    event.preventDefault();
    this.#thumbnails[now + step]?.element.focus();
  }
}
