// Small pictures of all heads (and layers), each a button that shows its head.

const FEW_HEADS = 48; // as pictures of 48 pixels; more are smaller
const MOST_CELLS = 4_000_000; // drawn at first

class HeadsView {
  #view;
  #grid = make("div", { className: "heads", role: "group", "aria-label": "All heads" });
  #thumbnails = []; // row by row
  #perRow;
  #painted; // choices of the thumbnails

  constructor(view) {
    this.#view = view;
    const { n, m } = view.data;
    const count = view.matrices.places * view.shown.length;
    const isOpen = count * n * m <= MOST_CELLS;
    this.#grid.classList.toggle("many", count > FEW_HEADS);
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
    this.#grid.append(make("span", {}, columns.name), ...columns.names.map((name) => make("span", {}, name)));
    for (const shown of this.#view.shown) {
      const name = shown.minus ? `${labels[shown.label]} − ${shown.minus}` : labels[shown.label];
      for (const [layer, layerName] of (layers?.names ?? [null]).entries()) {
        const row = layers ? `${name}, ${layerName}` : name;
        this.#grid.append(make("bdi", {}, row));
        for (const [index, column] of columns.names.entries()) {
          const canvas = make("canvas", { width: m, height: n });
          const choice = { ...(layers && { [layers.name]: layer }), [columns.name]: index };
          const about = { type: "button", "aria-label": `${row}, ${columns.name} ${column}` };
          const element = make("button", { ...about, onclick: () => this.#view.choose(choice) }, canvas);
          this.#grid.append(element);
          this.#thumbnails.push({ shown, choice, canvas, element });
        }
      }
    }
  }

  show() {
    if (!this.element.open) return;
    const { data, choices, place } = this.#view;
    const painted = String([choices.stage, choices.batch, choices.minus, choices.colours]);
    for (const { shown, choice, canvas, element } of this.#thumbnails) {
      const own = data.axes.map(({ name }) => choice[name] ?? choices[name]);
      if (painted !== this.#painted) paint(canvas, this.#view.pictureOf(shown, own));
      const isShown = String(own) === String(place);
      element.setAttribute("aria-pressed", String(isShown));
      element.tabIndex = isShown && shown === this.#view.shown[0] ? 0 : -1; // one stop for Tab; arrows do the rest
    }
    this.#painted = painted;
  }

  #press(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.#perRow, ArrowDown: this.#perRow }[event.key];
    const now = this.#thumbnails.findIndex(({ element }) => element === document.activeElement);
    if (!step || now < 0) return;
    event.preventDefault();
    this.#thumbnails[now + step]?.element.focus();
  }
}
