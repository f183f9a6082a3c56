// Explore the matrices of a page, with one crosshair for all scorers. Text of a run goes in as text, never as HTML.

const [DIGITS, MISSING] = [4, "-"]; // of numbers in tables
const COLOURS = 256;
const [SQUARE, FLAT] = [0.8, 8]; // width to height of a matrix: cells are square between these
const [CHARACTER, LINE] = [6.6, 13]; // pixels of a character, and of a line with a name, about
const [NUMBER_WIDTH, NUMBER_HEIGHT, MOST_NUMBERS] = [34, 16, 3000]; // pixels of a cell with a number; cells with one
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]; // between names
const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -Infinity], End: [0, Infinity] };
const HELP =
  "Point at a cell; a click holds it. Or focus a matrix and use arrow keys, Home and End; Enter holds, Escape releases. " +
  "The same cell is outlined in all. Hatched cells are masked.";

/** Return a new element with properties (or attributes, if there is no property of the name) and children. */
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function range(count) {
  return Array.from({ length: count }, (_, index) => index);
}

function clamp(value, low, high) {
  return Math.max(low, Math.min(high, value));
}

/** Return the length of the longest name; Chinese characters count twice. */
function longest(names) {
  return Math.max(...names.map((name) => [...name].reduce((sum, character) => sum + (character > "\u2e80" ? 2 : 1), 0)));
}

/** Return a number as attncli.core.numbers.number does. */
function showNumber(value, digits = DIGITS) {
  if (value === null) return MISSING;
  if (!Number.isFinite(value)) return String(value).toLowerCase().replace("infinity", "inf");
  if (value === 0) return "0";
  const exponent = Number(value.toExponential(digits - 1).split("e")[1]);
  if (exponent < -3 || exponent > 5) return value.toExponential(digits - 2).replace(/e([+-])(\d)$/, "e$10$2");
  const decimals = Math.max(digits - 1 - exponent, 0);
  return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

/** Return the text of a number in a cell, as in pictures. */
function cellNumber(value, { decimals, isDiverging }, isDifference) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value < 0 ? "−∞" : isDifference ? "+∞" : "∞";
  const text = decimals === null ? value.toExponential(0).replace("e+", "e") : value.toFixed(decimals);
  const sign = Number(text) < 0 ? "−" : isDifference ? "+" : "";
  return sign + text.replace(/^-/, "").replace("-", "−");
}

// ---- numbers

function bufferOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i); // four times as fast as Uint8Array.from
  return bytes.buffer;
}

/** Return the number whose float16 has these bits; browsers have a Float16Array since 2025 only. */
function half(bits) {
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  const size = exponent === 31 ? (fraction ? NaN : Infinity) : exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24;
  return bits & 0x8000 ? -size : size;
}

/** Return all `values` of a stage, and `unmasked`, 1 where a cell is unmasked. */
function decoded({ bytes, data }) {
  const buffer = bufferOf(data);
  const words = bytes === 4 ? new Uint32Array(buffer) : new Uint16Array(buffer);
  const masked = bytes === 4 ? 0xffffffff : 0xffff;
  const values = bytes === 4 ? new Float32Array(buffer) : Float32Array.from(words, half);
  return { values, unmasked: Uint8Array.from(words, (word) => word !== masked) };
}

// ---- colours

const dark = matchMedia("screen and (prefers-color-scheme: dark)"); // paper is light
/** Sequential and diverging colours as pixels, by theme (the last colour is for NaN), and the scales by key. */
const { maps: colourMaps, scales } = JSON.parse(document.getElementById("colours").textContent);
for (const maps of Object.values(colourMaps)) maps.forEach((map, i) => (maps[i] = new Uint32Array(bufferOf(map))));
for (const scale of Object.values(scales)) scale.limits = new Float32Array(bufferOf(scale.edges));

/** Return the colour of a value as a pixel. */
function colourOf(value, scale) {
  const map = colourMaps[dark.matches ? "dark" : "light"][Number(scale.isDiverging)];
  if (Number.isNaN(value)) return map[COLOURS];
  let [low, high] = [0, scale.limits.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (scale.limits[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return map[low];
}

/** Paint one pixel for each value. Masked cells stay transparent and show the hatching behind. */
function paint(canvas, { values, unmasked, scale }) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  values.forEach((value, i) => {
    if (unmasked[i]) pixels[i] = colourOf(value, scale);
  });
  context.putImageData(image, 0, 0);
}

/** Return the text colour with the best contrast on the colour of a value. */
function inkOn(value, scale) {
  const pixel = colourOf(value, scale);
  const light = 0.3 * (pixel & 255) + 0.6 * ((pixel >> 8) & 255) + 0.1 * ((pixel >> 16) & 255);
  return light < 128 ? "#fff" : "#000";
}

/** Return a colour bar with the values of its colours, and an arrow at an end with cells beyond it. */
function colourBar(scale, title) {
  const canvas = make("canvas", { width: COLOURS, height: 1 });
  const values = Float32Array.of(-Infinity, ...scale.limits);
  paint(canvas, { values, unmasked: values.map(() => 1), scale });
  const ticks = scale.ticks.map(([share, text]) => {
    const tick = make("span", {}, text);
    tick.style.left = `${100 * share}%`;
    return tick;
  });
  const label = [scale.isBelow ? "◀ beyond" : "", title ? `${title}: ${scale.label}` : scale.label, scale.isAbove ? "beyond ▶" : ""];
  const texts = label.map((text) => make("span", {}, text));
  return make("div", { className: "scale", ariaHidden: "true" }, canvas, make("div", { className: "ticks" }, ...ticks), make("div", { className: "label" }, ...texts));
}

// ---- the box beside the pointer

const tip = document.getElementById("tip");

function hideTip() {
  tip.hidden = true;
}

/** Show the box with these lines beside a point of the window. */
function showTip(lines, x, y) {
  tip.hidden = false;
  tip.replaceChildren(...lines.map((line) => make("div", {}, make("bdi", {}, line))));
  const isRoomRight = x + 18 + tip.offsetWidth <= innerWidth;
  tip.style.left = `${Math.max(4, isRoomRight ? x + 18 : x - tip.offsetWidth - 14)}px`;
  tip.style.top = `${clamp(y + 18, 4, Math.max(4, innerHeight - tip.offsetHeight - 4))}px`;
}

// ---- tables

/** Make the headings of a table buttons that sort it. Return a function that sorts again after its rows have changed. */
function makeSortable(table) {
  let [sorted, isDown] = [null, true];
  const keyOf = ({ dataset, textContent }) =>
    dataset.value !== undefined ? Number(dataset.value) : textContent === MISSING ? null : textContent;
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
  const sort = () => {
    if (sorted === null) return;
    const rows = [...table.tBodies[0].rows].map((row) => [keyOf(row.cells[sorted]), row]);
    const sign = isDown ? -1 : 1;
    // cells without a value come last
    rows.sort(([a], [b]) => (a === null || b === null ? (a === null) - (b === null) : sign * compare(a, b)));
    table.tBodies[0].append(...rows.map(([, row]) => row));
  };
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const press = () => {
      [sorted, isDown] = [column, sorted === column ? !isDown : true];
      for (const each of headings) each.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", isDown ? "descending" : "ascending");
      sort();
    };
    heading.replaceChildren(make("button", { type: "button", onclick: press }, ...heading.childNodes));
  });
  return sort;
}

/** Say where a table is wider than its box. */
const widths = new ResizeObserver((entries) => {
  for (const { target } of entries) target.classList.toggle("scrolls", target.scrollWidth > target.clientWidth);
});

// ---- matrices

/** The matrix of one scorer: its title, the names of its rows and columns, and its cells. */
class Panel {
  #title = make("figcaption");
  #canvas;
  #numbers = make("div", { className: "numbers", ariaHidden: "true" });
  #names = {
    queries: make("div", { className: "names rows", ariaHidden: "true" }),
    keys: make("div", { className: "names columns", ariaHidden: "true" }),
  };

  constructor({ n, m, rows }, helpId) {
    this.#canvas = make("canvas", { width: m, height: n });
    const marks = ["row", "column", "cell"].map((kind) => make("span", { className: `mark ${kind}` }));
    const about = { tabIndex: 0, role: "application", "aria-roledescription": "heat map", "aria-describedby": helpId };
    this.cells = make("div", { className: "cells", ...about }, this.#canvas, this.#numbers, ...marks);
    const corner = make("div", { className: "corner", ariaHidden: "true" }, rows.title);
    const matrix = make("div", { className: "matrix" }, corner, this.#names.keys, this.#names.queries, this.cells);
    this.element = make("figure", {}, this.#title, matrix);
  }

  /** Show a picture: `values` (n m), `unmasked`, `scale`, `isDifference`, `title` and `formula`. */
  show(picture, about) {
    this.picture = picture;
    this.#title.replaceChildren(make("bdi", {}, picture.title), " ", make("small", {}, picture.formula));
    this.cells.ariaLabel = `${picture.title}, ${about}`;
    this.paint();
  }

  paint() {
    paint(this.#canvas, this.picture);
    for (const [i, cell] of [...this.#numbers.children].entries()) cell.style.color = inkOn(this.picture.values[i], this.picture.scale);
  }

  /** Write the names of queries or keys beside the matrix: one in `every`, the first included. */
  name(side, names, every) {
    const elements = names.flatMap((name, i) => {
      if (i % every) return [];
      const element = make("bdi", { title: name }, name);
      element.style[side === "queries" ? "top" : "left"] = `${(100 * (i + 0.5)) / names.length}%`;
      return [element];
    });
    this.#names[side].replaceChildren(...elements, ...(side === "keys" ? [make("span", {}, "Keys")] : []));
  }

  /** Write the numbers into the cells if they have room. */
  write() {
    const { values, unmasked, scale, isDifference } = this.picture;
    const { n, m } = { n: this.#canvas.height, m: this.#canvas.width };
    const hasRoom = this.cells.clientWidth / m >= NUMBER_WIDTH && this.cells.clientHeight / n >= NUMBER_HEIGHT;
    const count = hasRoom && values.length <= MOST_NUMBERS ? values.length : 0;
    const texts = range(count).map((i) => make("span", {}, unmasked[i] ? cellNumber(values[i], scale, isDifference) : ""));
    this.#numbers.replaceChildren(...texts);
    this.paint();
  }
}

/** The matrices of all scorers side by side, with the row of the current query as a table. */
class View {
  #lists = {}; // of options, by the name of the choice
  #held = false;
  #bars = make("div", { className: "scales" });
  #heading = make("h3");
  #body = make("tbody");

  constructor(element, number) {
    this.element = element;
    this.data = JSON.parse(element.querySelector(".data").textContent);
    const { labels, stages, axes, start, notes, n, m, isPair } = this.data;
    [this.query, this.key] = start.slice(axes.length);
    this.choices = { stage: (stages.find(({ name }) => name === "weights") ?? stages[0]).name, scorer: "", minus: "" };
    axes.forEach(({ name }, axis) => (this.choices[name] = start[axis]));
    this.panels = range(labels.length + isPair).map(() => new Panel(this.data, `help-${number}`));
    this.group = make("div", { className: "panels" }, ...this.panels.map((panel) => panel.element));
    for (const [name, value] of Object.entries({ n, m, ratio: clamp(m / n, SQUARE, FLAT) })) this.group.style.setProperty(`--${name}`, value);
    this.panels.forEach((panel) => {
      panel.cells.onkeydown = (event) => this.#press(event, panel);
      panel.cells.onblur = hideTip;
    });
    this.group.onpointermove = this.group.onclick = (event) => this.#pointAt(event);
    this.group.onpointerleave = hideTip;
    const headings = ["key", ...labels].map((name) => make("th", { scope: "col" }, name));
    const table = make("table", {}, make("thead", {}, make("tr", {}, ...headings)), this.#body);
    this.sort = makeSortable(table);
    const region = { className: "wide", tabIndex: 0, role: "region", ariaLabel: `The row as a table, view ${number + 1}` };
    const help = make("p", { className: "note", id: `help-${number}` }, [...notes, HELP].join(" "));
    element.append(this.#toolbar(), this.group, this.#bars, this.#heading, make("div", region, table), help);
    this.show();
    let width = 0;
    new ResizeObserver(() => {
      if (width !== this.group.clientWidth) this.fit();
      width = this.group.clientWidth;
    }).observe(this.group);
    this.#link(element.parentElement.querySelectorAll(".findings li"));
    element.dataset.ready = "yes";
  }

  #toolbar() {
    const { stages, labels, axes, isPair } = this.data;
    const chosen = (name, options, read = String) => {
      if (options.length < 2) return "";
      const elements = options.map(([value, text]) => make("option", { value }, text));
      const onchange = ({ target }) => this.choose({ [name]: read(target.value) });
      this.#lists[name] = make("select", { onchange }, ...elements);
      return make("label", {}, `${name} `, this.#lists[name]);
    };
    const scorers = (first) => (isPair || labels.length < 2 ? [] : [["", first], ...labels.entries()]);
    return make(
      "div",
      { className: "bar", role: "toolbar", ariaLabel: "What is shown" },
      chosen("stage", stages.map(({ name }) => [name, name])),
      ...axes.map(({ name, names }) => chosen(name, [...names.entries()], Number)),
      chosen("scorer", scorers("all")),
      chosen("minus", scorers("nothing")),
    );
  }

  choose(changes) {
    Object.assign(this.choices, changes);
    this.show();
  }

  get stage() {
    return this.data.stages.find(({ name }) => name === this.choices.stage);
  }

  get visible() {
    return this.panels.filter(({ element }) => !element.hidden);
  }

  show() {
    const { choices, data } = this;
    for (const [name, list] of Object.entries(this.#lists)) list.value = choices[name];
    this.numbers = data.labels.map((_, label) => this.matrix(label));
    const places = data.axes.flatMap(({ name, names }) => (names.length > 1 ? [`${name} ${names[choices[name]]}`] : []));
    const place = [choices.stage, ...places].join(", ");
    const titles = new Map(); // of panels by their scale
    this.panels.forEach((panel, index) => {
      const isLast = index === data.labels.length; // of two runs
      const picture = this.pictureOf(isLast ? 1 : index, isLast ? "0" : choices.minus);
      panel.element.hidden = !picture || !["", String(index)].includes(choices.scorer);
      if (!picture) return;
      const [[, low], [, high]] = [picture.scale.ticks[0], picture.scale.ticks.at(-1)];
      panel.show(picture, `${place}: ${data.n} by ${data.m} cells, colours from ${low} to ${high}`);
      if (!panel.element.hidden) titles.set(picture.scale, [...(titles.get(picture.scale) ?? []), picture.title]);
    });
    const bars = [...titles].map(([scale, texts]) => colourBar(scale, titles.size > 1 && texts.length === 1 ? texts[0] : ""));
    this.#bars.replaceChildren(...bars);
    this.#moveTo(this.query, this.key);
    this.#tabulate();
    this.fit();
  }

  /** Return `values` (n m) of a label at the chosen place and `unmasked`, 1 where unmasked; null without such a matrix. */
  matrix(label) {
    const { axes, n, m } = this.data;
    const order = this.stage.labels.indexOf(label);
    if (order < 0) return null;
    const matrix = axes.reduce((index, { name: axis, names }) => index * names.length + this.choices[axis], order);
    const [start, end] = [matrix * n * m, (matrix + 1) * n * m];
    const { values, unmasked } = (this.stage.decoded ??= decoded(this.stage));
    return { values: values.subarray(start, end), unmasked: unmasked.subarray(start, end) };
  }

  /** Return the picture of a label: its values, or their difference from the label `minus`, masked where both are. */
  pictureOf(label, minus) {
    const [{ labels, formulas }, stage] = [this.data, this.stage];
    const [own, other] = [this.numbers[label], minus === "" || Number(minus) === label ? null : this.numbers[minus]];
    if (!own) return null;
    const scale = scales[stage.scales[stage.labels.indexOf(label)]];
    const picture = { ...own, title: labels[label], formula: formulas[label], scale, isDifference: false };
    if (!other) return picture;
    return {
      ...picture,
      values: own.values.map((value, i) => (own.unmasked[i] ? value : 0) - (other.unmasked[i] ? other.values[i] : 0)),
      unmasked: own.unmasked.map((each, i) => each | other.unmasked[i]),
      scale: scales[stage.difference],
      isDifference: true,
      title: `${labels[label]} − ${labels[minus]}`,
    };
  }

  /** Fit the names and the numbers in cells to the size of the panels. */
  fit() {
    hideTip();
    const { n, m } = this.data;
    const names = { queries: range(n).map((i) => this.token("queries", i)), keys: range(m).map((i) => this.token("keys", i)) };
    this.group.style.setProperty("--longest", longest([...names.queries, ...names.keys]));
    const { clientWidth, clientHeight } = this.visible[0].cells;
    const step = (size, least) => STEPS.find((every) => every * size >= least) ?? STEPS.at(-1);
    const width = CHARACTER * (1 + longest(names.keys));
    const areFlat = !this.data.tokens.keys || width * m <= clientWidth;
    this.group.classList.toggle("flat", areFlat);
    for (const panel of this.visible) {
      panel.name("queries", names.queries, step(clientHeight / n, LINE));
      panel.name("keys", names.keys, step(clientWidth / m, areFlat ? width : LINE));
      panel.write();
    }
  }

  // ---- tokens and numbers

  token(side, index) {
    const { tokens, axes } = this.data;
    if (!tokens[side]) return String(index);
    const { names, list } = tokens[side];
    const { batch = 0, layer = 0 } = this.choices;
    const layers = axes.find(({ name }) => name === "layer")?.names.length ?? 1;
    return names[list[batch * layers + layer]][index];
  }

  /** Return `query 3: brown`, without the index if the token begins with it. */
  phrase(side, index) {
    const kind = side === "queries" ? this.data.rows.name : "key";
    const token = this.token(side, index);
    if (!this.data.tokens[side]) return `${kind} ${index}`;
    return this.data.unit === "block" || `${token} `.startsWith(`${index} `) ? `${kind} ${token}` : `${kind} ${index}: ${token}`;
  }

  /** Return the number of a matrix or picture in a cell; null where masked. */
  valueAt(matrix, query, key) {
    const index = query * this.data.m + key;
    return matrix?.unmasked[index] ? matrix.values[index] : null;
  }

  get digits() {
    return this.data.bytes === 4 ? DIGITS : 3; // no more than rounded numbers have
  }

  /** Return lines for a cell: its query, its key, and the numbers of all visible panels. */
  linesAt(query, key) {
    const numbers = this.visible.map(({ picture }) => [picture.title, this.valueAt(picture, query, key)]);
    const isMasked = numbers.every(([, value]) => value === null);
    const texts = isMasked ? ["masked"] : numbers.map(([title, value]) => `${title} ${showNumber(value, this.digits)}`);
    return [this.phrase("queries", query), this.phrase("keys", key), ...texts];
  }

  // ---- the current cell

  #moveTo(query, key) {
    const isNewRow = query !== this.query;
    [this.query, this.key] = [query, key];
    this.group.style.setProperty("--row", query);
    this.group.style.setProperty("--column", key);
    if (isNewRow) this.#tabulate();
    else this.#body.querySelectorAll("tr").forEach((row) => row.classList.toggle("current", Number(row.cells[0].dataset.value) === key));
  }

  /** Pin the current cell, so that neither the pointer nor other choices change it, or release it. */
  #hold(isHeld) {
    this.#held = isHeld;
    this.group.classList.toggle("held", isHeld);
  }

  /** Show the row of the current query as a table with bars from 0, on one axis for all scorers. */
  #tabulate() {
    const { m } = this.data;
    const { query, key, digits } = this;
    this.#heading.textContent = `${this.choices.stage} of ${this.phrase("queries", query)}`;
    const rows = range(m).map((index) => this.numbers.map((matrix) => this.valueAt(matrix, query, index)));
    const finite = rows.flat().filter(Number.isFinite);
    const [low, high] = [Math.min(0, ...finite), Math.max(0, ...finite)];
    const share = (value) => `${(100 * (clamp(value, low, high) - low)) / (high - low || 1)}%`;
    const elements = rows.flatMap((values, index) => {
      if (values.every((value) => value === null)) return [];
      const cells = values.map((value) => {
        const cell = make("td", { className: "number bars" }, showNumber(value, digits));
        if (value === null) return cell;
        cell.dataset.value = value; // with all digits
        if (Number.isNaN(value)) return cell;
        cell.style.setProperty("--from", share(Math.min(0, value)));
        cell.style.setProperty("--to", share(Math.max(0, value)));
        return cell;
      });
      const name = make("td", { "data-value": index }, make("bdi", {}, this.phrase("keys", index).slice(4)));
      return [make("tr", { className: index === key ? "current" : "" }, name, ...cells)];
    });
    this.#body.replaceChildren(...elements);
    this.sort();
  }

  /** Point at the cell below the pointer; a click holds it, or releases the one that is held. */
  #pointAt(event) {
    const cells = event.target.closest(".cells");
    if (!cells) return hideTip();
    const { n, m } = this.data;
    const box = cells.getBoundingClientRect();
    const query = clamp(Math.floor(((event.clientY - box.top) / box.height) * n), 0, n - 1);
    const key = clamp(Math.floor(((event.clientX - box.left) / box.width) * m), 0, m - 1);
    const isSame = query === this.query && key === this.key;
    if (event.type === "click") this.#hold(!(this.#held && isSame));
    if ((!this.#held || event.type === "click") && !isSame) this.#moveTo(query, key);
    showTip(this.linesAt(query, key), event.clientX, event.clientY);
  }

  #press(event, { cells }) {
    if (event.key === "Escape") {
      this.#hold(false);
      return hideTip();
    }
    const [down, across] = MOVES[event.key] ?? (["Enter", " "].includes(event.key) ? [0, 0] : []);
    if (down === undefined) return;
    event.preventDefault();
    if (!(event.key in MOVES)) this.#hold(true);
    const { n, m } = this.data;
    this.#moveTo(clamp(this.query + down, 0, n - 1), clamp(this.key + across, 0, m - 1));
    const { query, key } = this;
    const [lines, box] = [this.linesAt(query, key), cells.getBoundingClientRect()];
    document.getElementById("said").textContent = lines.join(", ");
    showTip(lines, box.left + ((key + 1) / m) * box.width, box.top + ((query + 1) / n) * box.height);
  }

  /** Make the findings of the run that name a label, a layer or a head links to its matrix. */
  #link(items) {
    for (const { index, place, label } of this.data.findings) {
      const item = items[index];
      if (item.querySelector("a")) continue;
      const onclick = (event) => {
        event.preventDefault();
        this.#hold(false);
        this.choose({ ...place, scorer: "" });
        (this.visible.includes(this.panels[label]) ? this.panels[label] : this.visible[0]).cells.focus();
      };
      item.replaceChildren(make("a", { href: `#${this.element.id}`, onclick }, item.textContent));
    }
  }
}

const views = [...document.querySelectorAll(".view")].map((element, number) => new View(element, number));
dark.addEventListener("change", () => views.forEach((view) => view.show()));
for (const table of document.querySelectorAll("table.sortable")) makeSortable(table);
for (const wide of document.querySelectorAll(".wide")) widths.observe(wide);
