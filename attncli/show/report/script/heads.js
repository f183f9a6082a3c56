// Small pictures of all heads (and layers), each a button that shows its head.

const MOST_THUMBNAILS = 96; // and cells in them; beyond that they are drawn when they are asked for
const MOST_THUMBNAIL_CELLS = 250_000;

class HeadsView {
  #view;
  #grid = make("div", { className: "heads", role: "group", "aria-label": "All heads" });
  #thumbnails = []; // row by row: what is chosen by each, and what it shows
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
    const { data, choices } = this.#view;
    const drawing = (this.drawing = {});
    const places = new Map(); // by what they are called: each place is shown once for each scorer
    for (const { choice } of this.#thumbnails) {
      const place = data.axes.map(({ name }) => choice[name] ?? choices[name]);
      if (!places.has(String(place))) places.set(String(place), this.#load(place));
    }
    const loaded = new Map(await Promise.all([...places].map(async ([name, load]) => [name, await load])));
    if (drawing !== this.drawing) return;
    for (const thumbnail of this.#thumbnails) {
      const place = data.axes.map(({ name }) => thumbnail.choice[name] ?? choices[name]);
      const { views, mask, scalings } = loaded.get(String(place));
      Object.assign(thumbnail, { shown: views[thumbnail.label], mask, scaling: scalings[thumbnail.label] });
      const isShown = String(place) === String(this.#view.place);
      thumbnail.element.setAttribute("aria-pressed", String(isShown));
      thumbnail.element.tabIndex = isShown && thumbnail.label === 0 ? 0 : -1; // one stop for Tab; arrows do the rest
    }
    this.paint();
  }

  async #load(place) {
    const { views, mask } = await this.#view.viewsAt(place);
    return { views, mask, scalings: this.#view.scalingsOf(views, mask) };
  }

  paint() {
    if (!this.element.open) return;
    for (const { canvas, shown, mask, scaling } of this.#thumbnails) {
      if (shown?.values) paint(canvas, shown.values, mask, shown.isDifference, scaling);
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
