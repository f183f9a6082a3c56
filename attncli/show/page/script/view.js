// The matrices of all scorers side by side, with one crosshair.

const [SHORTEST_NAME, LONGEST_NAME, UPRIGHT_NAME] = [50, 160, 20]; // pixels along the name of a row or column, and above upright ones
const AXIS = 15; // pixels above a matrix of the word Keys
const TIE = 1e-5; // numbers that differ by less, relative to the larger, are equal
const GAP = 20; // pixels between panels
const [LEAST_CELL, LARGEST_CELL, SMALLEST_FIT, LARGEST_FIT] = [0.5, 60, 0.01, 44]; // pixels of a side
const [PAPER, PAPER_HEIGHT] = [640, 560]; // pixels of A4 in both orientations, with wide margins, for a panel
const [LEAST_PANEL, LEAST_FIT] = [180, 24]; // pixels of a panel or of its cells: smaller ones take more rows of panels

class MatricesView {
  #lists = {}; // of options, by the name of the choice
  #cell = make("input", { type: "range", min: LEAST_CELL, max: LARGEST_CELL, step: 0.5 });
  #search = make("input", { type: "search", placeholder: "token" });
  #found = make("span", { className: "note", role: "status" });
  #why = make("p", { className: "note" });
  #bars; // of values, then of differences
  #scales = make("div", { className: "scales" });
  #ignored = null; // a place where the resting pointer is ignored
  #longest = 0; // pixels of a name

  /** `number` is the index of the view on the page. */
  constructor(data, number, matrices) {
    this.data = data;
    this.number = number;
    this.matrices = matrices;
    this.digits = data.bytes === 4 ? DIGITS : 3; // no more than rounded numbers have
    this.choices = new Choices(number, this.#kinds(), () => this.show());
    /** The matrices beside each other: of each label, minus the chosen label, and of two runs also their difference. */
    this.shown = [...data.labels.keys()].map((label) => ({ label }));
    if (data.difference) this.shown.push({ label: 1, minus: data.labels[0] });
    this.panels = this.shown.map(() => new Panel(this));
    this.row = new RowView(this);
    this.heads = data.axes.length > 1 ? new HeadsView(this) : null;
    this.group = this.#groupOfPanels();
    this.command = make("code");
    this.caption = make("p", { className: "caption" });
    this.#bars = range(Math.max(2, this.shown.length)).map(() => new ColourBar());
    this.#scales.append(...this.#bars.map((bar) => bar.element));
    const command = make("p", { className: "note" }, ...(data.command ? ["As a file: ", this.command] : []));
    const parts = [this.#toolbar(), this.#why, this.caption, this.group, this.#scales, this.row.element];
    this.element = make("div", {}, ...parts, ...(this.heads ? [this.heads.element] : []), command, this.#help());
    this.element.onpointermove = this.element.onclick = (event) => this.#pointAt(event);
    this.element.onpointerleave = hideTip;
    addEventListener("resize", () => this.fit());
    theme.views.push(this);
  }

  // ---- choices

  #kinds() {
    const { stages, labels, axes, start, n, m } = this.data;
    const names = stages.map(({ name }) => name);
    const places = axes.map(({ name, names: all }, axis) => [name, { options: range(all.length), initial: start[axis] }]);
    return {
      stage: { options: names, initial: names.includes("weights") ? "weights" : names[0] },
      ...Object.fromEntries(places),
      minus: { options: labels, initial: "" },
      colours: { options: Object.keys(stages[0].scales), initial: "" },
      query: { options: range(n), initial: null },
      key: { options: range(m), initial: null },
      held: { options: ["yes"], initial: null },
      search: { initial: "" },
      cell: { options: range(2 * LARGEST_CELL + 1).map((half) => half / 2).slice(1), initial: null },
    };
  }

  choose(changes) {
    this.choices.change(changes);
    this.show();
    this.#say();
  }

  /** Make a link show a place, and the matrix of a label if there is one. */
  link(element, place, label) {
    element.setAttribute("href", this.choices.addressOf(place));
    element.onclick = (event) => {
      event.preventDefault();
      this.choose({ ...place, query: null, key: null });
      (this.panels[label] ?? this.panels.find(({ element }) => !element.hidden)).cells.focus();
    };
  }

  /** Make the cell of a head in a picture a link to its matrix, if the view has it. */
  linkCell(cell) {
    const { labels, axes } = this.data;
    const label = labels.indexOf(cell.dataset.label);
    const place = Object.fromEntries(axes.slice(1).map(({ name, names }) => [name, names.indexOf(cell.dataset[name])]));
    const isHere = label >= 0 && !Object.values(place).includes(-1) && "layer" in place === "layer" in cell.dataset;
    if (!isHere || cell.closest("a")) return;
    const link = makeSvg("a");
    this.link(link, place, label);
    cell.replaceWith(link);
    link.append(cell);
  }

  #toolbar() {
    const { stages, labels, axes } = this.data;
    const labelled = (name, control) => make("label", {}, `${name} `, control);
    const chosen = (name, options, read = String) => {
      if (options.length < 2) return "";
      const elements = options.map(([value, text]) => make("option", { value }, text));
      const onchange = ({ target }) => this.choose({ [name]: read(target.value) });
      this.#lists[name] = make("select", { onchange }, ...elements);
      return labelled(name, this.#lists[name]);
    };
    const typed = (input, name, read) => {
      input.oninput = () => {
        this.choices[name] = read(input.value);
        this.fit();
        this.keepSoon();
      };
      return input;
    };
    this.#search.onkeydown = (event) => {
      if (event.key === "Enter") this.#pointNextFound();
    };
    const largest = button("largest difference", () => {
      this.choose({ query: null, key: null });
      this.reveal();
    });
    const hasSeveral = labels.length > 1;
    const isChosen = hasSeveral && !this.data.difference;
    const pairs = (names) => names.map((name) => [name, name]);
    return make(
      "div",
      { className: "bar", role: "toolbar", "aria-label": "What is shown" },
      chosen("stage", pairs(stages.map(({ name }) => name))),
      ...axes.map(({ name, names }) => chosen(name, [...names.entries()], Number)),
      ...(isChosen ? [chosen("minus", [["", "nothing"], ...pairs(labels)])] : []),
      chosen("colours", [["", "auto"], ...pairs(["linear", "root", "log"])]),
      ...(hasSeveral ? [largest] : []),
      labelled("cell size", typed(this.#cell, "cell", Number)),
      button("fit", () => this.choose({ cell: null })),
      labelled("search", typed(this.#search, "search", String)),
      this.#found,
    );
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

  // ---- content

  show() {
    const { choices, data } = this;
    for (const [name, list] of Object.entries(this.#lists)) list.value = choices[name] ?? "";
    this.#search.value = choices.search;
    this.found = data.labels.map((_, label) => this.matrices.at(choices.stage, this.place, label));
    const pictures = this.shown.map((each) => this.pictureOf(each, this.place));
    const drawn = pictures.filter(({ values }) => values);
    const scales = [...new Set(drawn.toSorted((a, b) => a.isDifference - b.isDifference).map(({ scale }) => scale))];
    const words = this.#bars.map((bar, i) => {
      const own = drawn.filter(({ scale }) => scale === scales[i]);
      return bar.show(own, scales.length > 1 && own.length === 1);
    });
    const size = `${counted(data.n, "query", "queries")} by ${counted(data.m, "key")}`;
    pictures.forEach((picture, i) => {
      const about = `${choices.stage}, ${this.placeText}: ${size}, ${words[scales.indexOf(picture.scale)]}`;
      this.panels[i].show(picture, about);
    });
    this.caption.textContent = `${choices.stage}, ${this.placeText}`;
    this.command.textContent = this.#asCommand();
    this.fit();
    const isChosen = choices.query !== null && choices.key !== null;
    const place = isChosen ? [choices.query, choices.key] : this.#mostDifferent();
    this.#why.textContent = isChosen ? "" : this.#reason(...place);
    this.#moveTo(...place, true);
    this.heads?.show();
  }

  /** Return the picture of a label at a place: its values, or their difference from the label `minus`, masked where both are. */
  pictureOf({ label, minus = this.choices.minus }, place) {
    const { stage, colours } = this.choices;
    const { labels, stages } = this.data;
    const formula = this.data.formulas[label];
    const { labels: there, scales } = stages.find(({ name }) => name === stage);
    const own = this.matrices.at(stage, place, label);
    const base = labels.indexOf(minus);
    const other = base < 0 || base === label ? null : this.matrices.at(stage, place, base);
    const { values, differences } = scales[colours];
    const scale = values[there.indexOf(label)] ?? values[0];
    if (!own || !other) return { ...own, scale, isDifference: false, title: labels[label], formula };
    return {
      values: own.values.map((value, i) => value - other.values[i]),
      shown: own.shown.map((each, i) => each | other.shown[i]),
      scale: differences[there.indexOf(base)],
      isDifference: true,
      title: `${labels[label]} − ${minus}`,
      formula,
    };
  }

  /** Fit the panels to the window or the paper, in one row if they have room there. Cells move from below the pointer. */
  fit() {
    hideTip();
    const { n, m } = this.data;
    const { isPrinting } = theme;
    const [across, down] = isPrinting ? [PAPER, PAPER_HEIGHT] : [this.group.clientWidth, innerHeight];
    const count = this.panels.filter(({ element }) => !element.hidden).length || 1;
    const names = Math.min(this.#longest, LONGEST_NAME, 0.4 * across);
    const sizeOf = (columns) => ((across - (columns - 1) * GAP) / columns - Math.max(names, SHORTEST_NAME) - 4) / m;
    const least = Math.min(LEAST_FIT, LEAST_PANEL / m);
    const most = range(count).map((i) => count - i).find((columns) => sizeOf(columns) >= least) ?? 1;
    const columns = Math.ceil(count / Math.ceil(count / most)); // rows of equal length
    const fitting = clamp(Math.min(sizeOf(columns), (0.75 * down) / n), SMALLEST_FIT, LARGEST_FIT);
    const size = (!isPrinting && this.choices.cell) || (fitting > 2 ? Math.floor(2 * fitting) / 2 : fitting);
    if (!isPrinting) this.#cell.value = size;
    const { style } = this.group;
    style.setProperty("--names", `${Math.max(names, SHORTEST_NAME)}px`);
    style.setProperty("--above", `${AXIS + names}px`); // room for all names, which are then measured
    style.setProperty("--cell", `${size}px`);
    style.gridTemplateColumns = `repeat(${columns}, minmax(0, max-content))`;
    this.group.classList.toggle("small", size < 1);
    const found = { queries: this.#searched("queries"), keys: this.#searched("keys") };
    const [wide, tall] = this.#cellSides();
    let areUpright = true;
    for (const panel of this.panels) {
      panel.name("queries", found.queries, tall);
      areUpright = panel.name("keys", found.keys, wide);
      panel.write(Math.min(wide, tall));
    }
    if (areUpright) style.setProperty("--above", `${AXIS + UPRIGHT_NAME}px`);
    const counts = [counted(found.queries.length, "query", "queries"), counted(found.keys.length, "key")];
    this.#found.textContent = this.choices.search ? counts.join(", ") : "";
  }

  // ---- tokens

  token(side, index) {
    if (!this.data.tokens[side]) return String(index);
    const { names, list } = this.data.tokens[side];
    const { batch, layer = 0 } = this.choices;
    const layers = list.length / this.data.axes[0].names.length;
    return names[list[batch * layers + layer]][index];
  }

  /** Return `query 3: brown` as children of an element, without the index if the token begins with it. */
  named(side, index) {
    const kind = side === "queries" ? "query" : "key";
    const token = this.token(side, index);
    if (!this.data.tokens[side]) return [`${kind} ${index}`];
    const hasIndex = this.data.unit === "block" || `${token} `.startsWith(`${index} `);
    return [hasIndex ? `${kind} ` : `${kind} ${index}: `, make("bdi", {}, token)];
  }

  #searched(side) {
    const wanted = this.choices.search.toLocaleLowerCase();
    if (!wanted) return [];
    const count = side === "queries" ? this.data.n : this.data.m;
    return range(count).filter((i) => this.token(side, i).toLocaleLowerCase().includes(wanted));
  }

  /** Move to the next matching query, or to the next matching key if no query matches. */
  #pointNextFound() {
    const [queries, keys] = [this.#searched("queries"), this.#searched("keys")];
    const next = (found, from) => found.find((i) => i > from) ?? found[0];
    if (queries.length) this.point(next(queries, this.query), this.key);
    else if (keys.length) this.point(this.query, next(keys, this.key));
    this.reveal();
  }

  // ---- the current cell

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

  /** Pin a cell, so the pointer no longer changes it, or release it. */
  hold(isHeld, query = this.query, key = this.key) {
    this.choices.change({ query, key, held: isHeld ? "yes" : null });
    this.#moveTo(query, key);
    this.#say();
  }

  /** Scroll the current cell into view; a resting pointer does not change it. */
  reveal(panel = this.panels.find(({ element }) => !element.hidden)) {
    this.#ignored = pointer.place;
    panel.reveal();
  }

  keepSoon = afterPause(300, () => Choices.keep());

  #moveTo(query, key, isNewRow = query !== this.query) {
    this.query = query;
    this.key = key;
    this.group.classList.toggle("held", this.isHeld);
    this.group.style.setProperty("--row", query);
    this.group.style.setProperty("--column", key);
    this.row.showHeld();
    if (isNewRow) this.row.show();
  }

  /** Return the number of a label in a cell of the current stage; null where masked. */
  valueAt(label, index, found = this.found[label]) {
    return found?.shown[index] ? found.values[index] : null;
  }

  /** Return the numbers of all labels in a cell as text. */
  #numbersOf(query, key) {
    const { labels, m } = this.data;
    return labels.map((name, label) => `${name} ${showNumber(this.valueAt(label, query * m + key), this.digits)}`).join(", ");
  }

  #say() {
    const { query, key } = this;
    const isMasked = this.found.every((_, label) => this.valueAt(label, query * this.data.m + key) === null);
    const numbers = isMasked ? "masked" : this.#numbersOf(query, key);
    say(`${this.token("queries", query)}, ${this.token("keys", key)}: ${numbers}`);
  }

  /** Return the cell where scorers differ most, or the largest value of a single scorer. */
  #mostDifferent() {
    const { n, m } = this.data;
    const all = this.found.filter(Boolean);
    let [most, where] = [-Infinity, 0];
    for (let i = 0; i < n * m; i++) {
      const values = all.filter(({ shown }) => shown[i]).map(({ values: each }) => each[i]);
      const spread = Math.max(...values) - (all.length > 1 ? Math.min(...values) : 0);
      if (spread > most) [most, where] = [spread, i];
    }
    return [Math.floor(where / m), where % m];
  }

  /** Return a sentence about the cell shown at first. */
  #reason(query, key) {
    const { axes, labels, m } = this.data;
    const { stage } = this.choices;
    const values = labels.map((_, label) => this.valueAt(label, query * m + key)).filter((value) => value !== null);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    if (values.length > 1 && (high === low || high - low < TIE * Math.max(high, -low))) return `The ${stage} of all scorers are equal here.`;
    const several = axes.filter(({ names }) => names.length > 1);
    const place = several.map(({ name, names }) => `${name} ${names[this.choices[name]]}, `).join("");
    const cell = [...this.named("queries", query), ", ", ...this.named("keys", key)];
    const where = cell.map((part) => part.textContent ?? part).join("");
    const most = labels.length > 1 ? "differ most" : "are largest";
    return `${place ? `In ${place}the` : "The"} ${stage} ${most} at ${where}: ${this.#numbersOf(query, key)}.`;
  }

  /** Return the content of the box beside a cell: every stage of every scorer. */
  tipOf(query, key) {
    const { stages, labels, m } = this.data;
    const heading = make("div", { className: "head" }, ...this.named("queries", query), make("br"), ...this.named("keys", key));
    const numbers = labels.map((_, label) =>
      stages.map(({ name }) => this.valueAt(label, query * m + key, this.matrices.at(name, this.place, label))),
    );
    const names = [...labels];
    if (this.data.difference && !numbers.flat().includes(null)) {
      names.push(`${labels[1]} − ${labels[0]}`);
      numbers.push(numbers[1].map((value, i) => Math.fround(value - numbers[0][i])));
    }
    if (numbers.flat().every((value) => value === null)) return [heading, make("em", {}, "masked")];
    const head = make("tr", {}, make("td"), ...stages.map(({ name }) => make("th", { scope: "col" }, name)));
    const rows = numbers.map((values, label) => {
      const name = make("th", { scope: "row" }, make("bdi", {}, names[label]));
      return make("tr", {}, name, ...values.map((value) => numberCell(value, this.digits)));
    });
    return [heading, make("table", {}, head, ...rows)];
  }

  // ---- the panels as one

  #groupOfPanels() {
    const { n, m, tokens } = this.data;
    const group = make("div", { className: "panels" }, ...this.panels.map(({ element }) => element));
    const names = ["queries", "keys"].flatMap((side) => tokens[side]?.names.flat() ?? ["000"]);
    this.#longest = 7 + names.reduce((most, name) => Math.max(most, widthOf(name)), 0);
    for (const [name, value] of [["--n", n], ["--m", m]]) group.style.setProperty(name, value);
    return group;
  }

  /** Point at the cell, the bar or the name of a row or column below the pointer; a click on a cell or a name holds it. */
  #pointAt(event) {
    const target = event.target.closest(".cells, .names bdi, .strips svg");
    const isClick = event.type === "click";
    if (!target) return hideTip();
    if (!isClick && pointer.place === this.#ignored) return;
    this.#ignored = null;
    const cell = this.#cellAt(target, event);
    const isSame = target.matches(".cells") && String(cell) === String([this.query, this.key]);
    if (isClick && !target.matches("svg")) this.hold(!(this.isHeld && isSame), ...cell);
    else if (!this.isHeld) this.point(...cell);
    const { side, index } = target.dataset;
    const heading = () => [make("div", { className: "head" }, ...this.named(side, Number(index)))];
    showTip(side ? heading() : this.tipOf(...cell), event.clientX, event.clientY);
  }

  /** Return the width and height of the cells, which page.css decides. */
  #cellSides() {
    const { offsetWidth, offsetHeight } = this.panels.find(({ element }) => !element.hidden)?.cells ?? {};
    return [offsetWidth / this.data.m, offsetHeight / this.data.n];
  }

  #cellAt(target, { clientX, clientY }) {
    const { side, index } = target.dataset;
    if (side) return side === "queries" ? [Number(index), this.key] : [this.query, Number(index)];
    const { n, m } = this.data;
    const box = target.getBoundingClientRect();
    const query = Math.floor(((clientY - box.top) / box.height) * n);
    const key = Math.floor(((clientX - box.left) / box.width) * m);
    return [target.matches("svg") ? this.query : clamp(query, 0, n - 1), clamp(key, 0, m - 1)];
  }

  scrollOthers(from, place) {
    for (const panel of this.panels) {
      if (panel !== from) panel.scrollTo(place);
    }
  }

  /** Return the command that draws this view. */
  #asCommand() {
    const { stage, minus, colours } = this.choices;
    const quoted = (word) => (/^[\w./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
    const words = [this.data.command, `--stage ${stage}`];
    for (const { name, names } of this.data.axes) words.push(`--${name} ${quoted(names[this.choices[name]])}`);
    if (minus) words.push(`--minus ${quoted(minus)}`);
    if (colours) words.push(`--colours ${colours}`);
    return words.join(" ");
  }
}
