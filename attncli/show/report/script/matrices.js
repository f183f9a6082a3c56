// The matrices of all scorers side by side, with one crosshair: what is chosen, loaded and shown.

const SCALES = ["unit", "shared", "panel"];
const AUTO = ["", "auto"]; // what heatmaps choose by themselves
const LABEL_ROOM = 11; // pixels that the name of a row or column takes, and the most along it
const LONGEST_NAME = 90;
const [LEAST_CELL, LARGEST_CELL] = [1, 40]; // pixels of a side

class MatricesView {
  #matrices;
  #lists = {}; // to choose from, by the name of the choice
  #cell = make("input", { type: "range", min: LEAST_CELL, max: LARGEST_CELL, step: 0.5 });
  #search = make("input", { type: "search", placeholder: "token" });
  #found = make("span", { className: "note", role: "status" });
  #ignored = null; // a place where the pointer rests, and points at nothing
  #scrolledTo = [0, 0]; // where panels are
  #shown; // a promise of what was chosen last
  #isToReveal = false; // once it is shown

  /** `number` counts what has choices of its own in the page. */
  constructor(data, number) {
    this.data = data;
    this.#matrices = new Matrices(data);
    this.number = number;
    this.drawing = 0; // how often something else was chosen, for what is decoded comes later
    this.digits = Math.min(DIGITS, Math.ceil((data.bits + 1) * Math.log10(2))); // no more than rounded numbers have
    this.looks = data.labels.map((label) => data.looks[label]);
    this.choices = new Choices(number, this.#kinds(), () => this.show());
    this.panels = data.labels.map((label) => new Panel(this, label));
    this.row = new RowView(this);
    this.heads = data.axes.length > 1 ? new HeadsView(this) : null;
    this.group = this.#groupOfPanels();
    this.command = make("code");
    this.caption = make("p", { className: "caption" });
    const command = data.command ? [asPicture(this.command)] : [];
    const parts = [this.#toolbar(), this.#help(), this.caption, this.group, ...command, this.row.element];
    this.element = make("div", {}, ...parts, ...(this.heads ? [this.heads.element] : []));
    addEventListener("resize", afterPause(100, () => this.fit()));
  }

  // ---- what can be chosen

  #kinds() {
    const { stages, labels, axes, start, n, m } = this.data;
    return {
      stage: oneOf(stages, stages.includes("weights") ? "weights" : stages[0]),
      ...Object.fromEntries(axes.map(({ name, size }, axis) => [name, oneOf(range(size), start[axis])])),
      minus: oneOf(labels, null),
      scale: oneOf(SCALES, null),
      colours: oneOf(COLOURS, null),
      query: oneOf(range(n), null),
      key: oneOf(range(m), null),
      held: oneOf(["yes"], null),
      hidden: severalOf(labels),
      search: anyText(),
      cell: oneOf(range(2 * LARGEST_CELL + 1).map((i) => i / 2).filter((size) => size >= LEAST_CELL), null),
    };
  }

  async choose(changes) {
    this.choices.change(changes);
    await this.show();
    this.#say();
  }

  #toolbar() {
    const { stages, labels, axes } = this.data;
    const chosen = (name, options, read = String) => {
      this.#lists[name] = selection(options, (text) => this.choose({ [name]: text === "" ? null : read(text) }));
      return labelled(name, this.#lists[name]);
    };
    const typed = (input, name, read) => {
      input.oninput = () => {
        this.choices[name] = read(input.value);
        this.fit();
        this.keepSoon();
      };
    };
    typed(this.#cell, "cell", Number);
    typed(this.#search, "search", String);
    this.#search.onkeydown = (event) => {
      if (event.key === "Enter") this.#pointNextFound();
    };
    const largest = button("largest difference", () => {
      this.#isToReveal = true;
      this.choose({ query: null, key: null });
    });
    const hasSeveral = labels.length > 1;
    return make(
      "div",
      { className: "bar", role: "toolbar", "aria-label": "What is shown" },
      chosen("stage", stages),
      ...axes.map(({ name, names }) => chosen(name, [...names.entries()], Number)),
      ...(hasSeveral ? [chosen("minus", [["", "nothing"], ...labels])] : []),
      chosen("scale", [AUTO, ...SCALES]),
      chosen("colours", [AUTO, ...COLOURS]),
      ...(hasSeveral ? [largest] : []),
      labelled("cell size", this.#cell),
      labelled("search", this.#search),
      this.#found,
    );
  }

  #showControls() {
    for (const [name, list] of Object.entries(this.#lists)) list.value = this.choices[name] ?? "";
    this.#search.value = this.choices.search;
  }

  #help() {
    const pointer = "Point at a cell; a click holds it.";
    const keys = "Or focus a matrix and use arrow keys, Page Up and Down, Home and End; Enter holds, Escape releases.";
    const marks = "The same cell is outlined in all. Hatched cells are masked.";
    const sentences = [...this.data.notes, pointer, keys, marks];
    return make("p", { className: "note", id: `help-${this.number}` }, sentences.join(" "));
  }

  get place() {
    return this.data.axes.map(({ name }) => this.choices[name]);
  }

  get placeText() {
    return this.data.axes.map(({ name, names }) => `${name} ${names[this.choices[name]]}`).join(", ");
  }

  // ---- what is shown

  /** Done once what was chosen last is shown. */
  show() {
    this.drawing++;
    return (this.#shown = this.#show());
  }

  async #show() {
    const { drawing } = this;
    const { mask, values } = await this.#matrices.at(this.place, this.data.stages);
    if (drawing !== this.drawing) return this.#shown;
    this.mask = mask;
    this.values = values; // by stage, then by label
    const returning = this.panels.filter((panel) => panel.element.hidden); // which have lost their place
    this.#pictures(values.get(this.choices.stage), mask).forEach((picture, i) => this.panels[i].show(picture));
    this.#showControls();
    this.caption.textContent = `${this.choices.stage}, ${this.placeText}`;
    this.command.textContent = this.#asCommand();
    this.fit();
    for (const panel of returning) panel.scrollTo(this.#scrolledTo);
    const { query, key } = this.choices;
    this.#moveTo(...(query === null || key === null ? this.#mostDifferent() : [query, key]), true);
    if (this.#isToReveal) this.reveal();
    await this.heads?.show();
  }

  /** What the panels show of one place: a stage of every scorer, or its difference from one; with their scalings. */
  #pictures(values, mask) {
    const from = this.data.labels.indexOf(this.choices.minus);
    const pictures = values.map((own, label) => {
      const other = label === from ? null : values[from];
      if (!own || !other) return { values: own, mask, isDifference: false };
      return { values: own.map((value, i) => value - other[i]), mask, isDifference: true };
    });
    for (const isDifference of [false, true]) {
      const alike = pictures.filter((picture) => picture.values && picture.isDifference === isDifference);
      const numbers = alike.map((picture) => shownNumbers(picture.values, mask));
      scalingsOf(numbers, { ...this.choices, isDifference }).forEach((scaling, i) => (alike[i].scaling = scaling));
    }
    return pictures;
  }

  /** The pictures of another place, for the small ones of all heads. */
  async picturesAt(place) {
    const { stage } = this.choices;
    const { mask, values } = await this.#matrices.at(place, [stage]);
    return this.#pictures(values.get(stage), mask);
  }

  /** The cells' size, and the names of rows and columns: as many as there is room for, or those that were searched. */
  fit() {
    const { n, m, labels } = this.data;
    const perPanel = (this.group.clientWidth - 24) / Math.min(labels.length, 3) - 125;
    const room = clamp(perPanel, 180, 544);
    const size = this.choices.cell ?? clamp(Math.floor((2 * room) / Math.max(n, m)) / 2, LEAST_CELL, 26);
    this.#cell.value = size;
    this.group.style.setProperty("--cell", `${size}px`);
    this.group.style.setProperty("--printed", `${Math.min(size, 200 / m)}px`);
    const found = { queries: this.#searched("queries"), keys: this.#searched("keys") };
    for (const panel of this.panels) {
      panel.name("queries", found.queries, size);
      panel.name("keys", found.keys, size);
    }
    const { search } = this.choices;
    this.#found.textContent = search ? `${found.queries.length} queries, ${found.keys.length} keys` : "";
  }

  // ---- tokens

  token(side, index) {
    const names = this.data.tokens[side];
    if (!names) return String(index);
    return names[names.length > 1 ? this.choices.batch : 0][index];
  }

  /** Such as `query 3: brown`, as children of an element. */
  named(side, index) {
    const text = `${side === "queries" ? "query" : "key"} ${index}`;
    return this.data.tokens[side] ? [`${text}: `, make("bdi", {}, this.token(side, index))] : [text];
  }

  #searched(side) {
    const wanted = this.choices.search.toLocaleLowerCase();
    if (!wanted) return [];
    const count = side === "queries" ? this.data.n : this.data.m;
    return range(count).filter((i) => this.token(side, i).toLocaleLowerCase().includes(wanted));
  }

  /** Pixels that the names of rows and columns take: of the longest, up to a limit. */
  #roomOfNames() {
    const all = ["queries", "keys"].flatMap((side) => this.data.tokens[side]?.flat() ?? []);
    const longest = all.reduce((most, name) => Math.max(most, name.length), 3);
    return Math.min(LONGEST_NAME, 12 + CHARACTER * longest);
  }

  /** The next query that was searched; where there is none, the next key. */
  #pointNextFound() {
    const [queries, keys] = [this.#searched("queries"), this.#searched("keys")];
    const next = (found, from) => found.find((i) => i > from) ?? found[0];
    if (queries.length) this.point(next(queries, this.query), this.key);
    else if (keys.length) this.point(this.query, next(keys, this.key));
    this.reveal();
  }

  // ---- the cell that is pointed at

  get isHeld() {
    return this.choices.held === "yes";
  }

  point(query, key) {
    if (query === this.query && key === this.key) return;
    Object.assign(this.choices, { query, key });
    this.#moveTo(query, key);
    this.#say();
    this.keepSoon();
  }

  /** Hold a cell against the pointer, or let it go. */
  hold(isHeld, query = this.query, key = this.key) {
    this.choices.change({ query, key, held: isHeld ? "yes" : null });
    this.#moveTo(query, key);
    this.#say();
  }

  /** Scroll the cell that is pointed at into sight. A pointer that rests elsewhere does not take it away. */
  reveal(panel = this.panels.find((each) => !each.element.hidden)) {
    this.#isToReveal = false;
    this.#ignored = pointer.place;
    panel.reveal();
  }

  keepSoon = afterPause(300, () => Choices.keep());

  #moveTo(query, key, isNewRow = query !== this.query) {
    this.query = query;
    this.key = key;
    this.group.classList.add("pointed");
    this.group.classList.toggle("held", this.isHeld);
    this.group.style.setProperty("--row", query);
    this.group.style.setProperty("--column", key);
    this.row.showHeld();
    if (isNewRow) this.row.show();
  }

  #say() {
    const { query, key } = this;
    const index = query * this.data.m + key;
    const shown = this.values.get(this.choices.stage);
    const all = this.data.labels.map((label, i) => `${label} ${showNumber(shown[i]?.[index], this.digits)}`);
    say(`${this.token("queries", query)}, ${this.token("keys", key)}: ${this.mask[index] ? all.join(", ") : "masked"}`);
  }

  /** The cell in which scorers are farthest apart; of a single scorer that of its largest value. */
  #mostDifferent() {
    const all = this.values.get(this.choices.stage).filter(Boolean);
    let [most, where] = [-Infinity, 0];
    for (let i = 0; i < this.mask.length; i++) {
      if (!this.mask[i]) continue;
      let [low, high] = all.length > 1 ? [Infinity, -Infinity] : [0, -Infinity];
      for (const values of all) {
        if (values[i] < low) low = values[i];
        if (values[i] > high) high = values[i];
      }
      if (high - low > most) [most, where] = [high - low, i];
    }
    return [Math.floor(where / this.data.m), where % this.data.m];
  }

  /** What the box beside a cell says: every stage of every scorer. */
  tipOf(query, key) {
    const index = query * this.data.m + key;
    const heading = [...this.named("queries", query), make("br"), ...this.named("keys", key)];
    if (!this.mask[index]) return [make("div", { className: "head" }, ...heading), make("em", {}, "masked")];
    const { stages, labels } = this.data;
    const cellsOf = (label) => stages.map((stage) => numberCell(this.values.get(stage)[label]?.[index], this.digits));
    return tipTable(heading, stages, labels.map((name, label) => [name, ...cellsOf(label)]));
  }

  // ---- the panels as one

  #groupOfPanels() {
    const group = make("div", { className: "panels" }, ...this.panels.map((panel) => panel.element));
    group.style.setProperty("--n", this.data.n);
    group.style.setProperty("--m", this.data.m);
    group.style.setProperty("--names", `${this.#roomOfNames()}px`);
    group.onpointermove = group.onclick = (event) => this.#pointAt(event);
    group.onpointerleave = hideTip;
    return group;
  }

  #pointAt(event) {
    const isClick = event.type === "click";
    if (!isClick && pointer.place === this.#ignored) return;
    this.#ignored = null;
    const cells = event.target.closest(".cells");
    const name = event.target.closest(".names bdi");
    if (cells) {
      const [query, key] = this.#cellAt(cells, event);
      const isSame = query === this.query && key === this.key;
      if (isClick) this.hold(!(this.isHeld && isSame), query, key);
      else if (!this.isHeld) this.point(query, key);
      showTip(this.tipOf(query, key), event.clientX, event.clientY);
    } else if (name) {
      const { side, index } = name.dataset;
      const place = side === "queries" ? [Number(index), this.key] : [this.query, Number(index)];
      if (isClick) this.hold(true, ...place);
      else if (!this.isHeld) this.point(...place);
      const heading = make("div", { className: "head" }, ...this.named(side, Number(index)));
      showTip([heading], event.clientX, event.clientY);
    } else hideTip();
  }

  #cellAt(cells, { clientX, clientY }) {
    const { n, m } = this.data;
    const box = cells.getBoundingClientRect();
    const query = Math.floor(((clientY - box.top) / box.height) * n);
    const key = Math.floor(((clientX - box.left) / box.width) * m);
    return [clamp(query, 0, n - 1), clamp(key, 0, m - 1)];
  }

  /** All panels scroll together. */
  scrollOthers(from, place) {
    this.#scrolledTo = place;
    for (const panel of this.panels) {
      if (panel !== from) panel.scrollTo(place);
    }
  }

  /** The command that draws this view. */
  #asCommand() {
    const { stage, minus, scale, colours } = this.choices;
    const words = [this.data.command, `--stage ${stage}`];
    for (const { name, names } of this.data.axes) words.push(`--${name} ${quoted(names[this.choices[name]])}`);
    if (minus !== null) words.push(`--minus ${quoted(minus)}`);
    if (scale !== null) words.push(`--scale ${scale}`);
    if (colours !== null) words.push(`--colours ${colours}`);
    return words.join(" ");
  }
}

/** A word of a command, as a shell reads it. */
function quoted(word) {
  return /^[\w./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
