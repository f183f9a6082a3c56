// The matrix of one scorer: its picture, the names of its rows and columns, its numbers, and its keys.

const LABEL_ROOM = 11; // pixels across the name of a row or column
const [CHARACTER, WIDE] = [6.6, 11]; // pixels across a character, and across a Chinese one, about
const NUMBER_ROOM = 34; // pixels of the side of a cell with a number
const MOST_NUMBERS = 3000; // in cells
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]; // between labelled indices

const MOVES = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  PageUp: [-10, 0],
  PageDown: [10, 0],
  Home: [0, -Infinity],
  End: [0, Infinity],
};

class Panel {
  #view;
  #picture;
  #scrolledTo = "0,0"; // last position set by this script
  #title = make("figcaption");
  #numbers = make("div", { className: "numbers", "aria-hidden": "true" });
  #names = {
    queries: make("div", { className: "names rows", "aria-hidden": "true" }),
    keys: make("div", { className: "names columns", "aria-hidden": "true" }),
  };

  constructor(view) {
    this.#view = view;
    const { n, m } = view.data;
    this.canvas = make("canvas", { width: m, height: n });
    const marks = ["row", "column", "cell"].map((kind) => make("span", { className: `mark ${kind}` }));
    const role = { role: "application", "aria-roledescription": "heat map", "aria-describedby": `help-${view.number}` };
    this.cells = make("div", { className: "cells", tabIndex: 0, ...role }, this.canvas, this.#numbers, ...marks);
    this.cells.onkeydown = (event) => this.#press(event);
    this.cells.onblur = hideTip;
    const parts = [make("div", { className: "corner", "aria-hidden": "true" }, "Queries"), this.#names.keys, this.#names.queries, this.cells];
    this.scroll = make("div", { className: "scroll" }, ...parts);
    this.scroll.onscroll = () => this.#tellScrolled();
    this.element = make("figure", {}, this.#title, this.scroll);
  }

  /** A picture has `values` (n m), `shown`, `scale`, `isDifference`, `title` and `formula`. The panel is hidden without values. */
  show(picture, about) {
    this.element.hidden = !picture.values;
    if (!picture.values) return;
    this.#picture = picture;
    paint(this.canvas, picture);
    const { title, formula } = picture;
    this.#title.replaceChildren(make("bdi", {}, title), " ", make("small", { title: formula }, formula));
    this.cells.setAttribute("aria-label", `${picture.title}, ${about}`);
  }

  /**
   * Label rows or columns where there is room, or the matches of a search; `size` is the size of a cell.
   * Keys are upright where their names fit beside each other. Return whether all names are.
   */
  name(side, found, size) {
    const { n, m, tokens } = this.#view.data;
    const needed = tokens[side] || side === "queries" ? LABEL_ROOM : widthOf(String(m));
    const every = STEPS.find((step) => step * size >= needed) ?? STEPS.at(-1);
    const wanted = found.length ? found : range(side === "queries" ? n : m).filter((i) => i % every === 0);
    const names = wanted.map((index) => {
      const data = { "data-side": side, "data-index": index };
      const name = make("bdi", { className: found.length ? "found" : "", ...data }, this.#view.token(side, index));
      name.style.setProperty("--i", index);
      return name;
    });
    const areUpright = names.every((name) => widthOf(name.textContent) <= (found.length ? 1 : every) * size);
    for (const name of names) name.classList.toggle("upright", areUpright);
    this.#names[side].replaceChildren(...names, ...(side === "keys" ? [make("span", {}, "Keys")] : []));
    const room = (name) => (side === "queries" ? name.offsetHeight : areUpright ? 0 : name.offsetWidth);
    const sizes = names.map(room);
    const longFirst = [...names.keys()].sort((i, j) => sizes[j] - sizes[i]);
    const placed = []; // names of several lines, which take the room of those beside them
    for (const i of longFirst) {
      const isOver = (j) => 2 * Math.abs(wanted[i] - wanted[j]) * size < sizes[i] + sizes[j];
      if (placed.some(isOver)) names[i].remove();
      else if (sizes[i] > 2 * LABEL_ROOM) placed.push(i);
    }
    return areUpright;
  }

  /** Write the numbers into cells of a size, if they are large enough. */
  write(size) {
    const { values, shown } = this.#picture ?? {};
    const hasRoom = values && size >= NUMBER_ROOM && values.length <= MOST_NUMBERS;
    const texts = hasRoom ? [...values].map((value, i) => (shown[i] ? cellNumber(value, this.#picture) : "")) : [];
    const cells = texts.map((text, i) => {
      const cell = make("span", {}, text);
      cell.style.color = inkOn(values[i], this.#picture);
      return cell;
    });
    this.#numbers.replaceChildren(...cells);
  }

  #press(event) {
    const view = this.#view;
    if (event.key === "Escape") {
      view.hold(false);
      view.reveal(this);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      view.hold(true);
      this.#showTip();
    } else if (event.key in MOVES) {
      event.preventDefault();
      const [down, across] = MOVES[event.key];
      const { n, m } = view.data;
      view.point(clamp(view.query + down, 0, n - 1), clamp(view.key + across, 0, m - 1));
      this.#showTip();
    }
  }

  /** Scroll the current cell into view. */
  reveal() {
    this.cells.querySelector(".mark.cell").scrollIntoView({ block: "nearest", inline: "nearest" });
    this.#tellScrolled();
  }

  scrollTo(place) {
    this.scroll.scrollTo(...place);
    this.#scrolledTo = String(this.#place); // browsers round
  }

  get #place() {
    return [this.scroll.scrollLeft, this.scroll.scrollTop];
  }

  /** Scroll the other panels, too, unless the script scrolled this panel. */
  #tellScrolled() {
    if (this.element.hidden || String(this.#place) === this.#scrolledTo) return;
    this.#scrolledTo = String(this.#place);
    this.#view.scrollOthers(this, this.#place);
  }

  /** Show the box beside the cell reached by the keyboard. */
  #showTip() {
    this.#view.reveal(this);
    const { query, key, data } = this.#view;
    const box = this.cells.getBoundingClientRect();
    const x = box.left + ((key + 1) / data.m) * box.width;
    const y = box.top + ((query + 1) / data.n) * box.height;
    showTip(this.#view.tipOf(query, key), x, y);
  }
}

/** Return the width of a name with a gap beside it, in pixels, about. */
function widthOf(text) {
  return 5 + [...text].reduce((sum, character) => sum + (character > "\u2e80" ? WIDE : CHARACTER), 0);
}

/** Return the text of a number in a cell, as in pictures. */
function cellNumber(value, { scale: { decimals }, isDifference }) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "nan" : value < 0 ? "−∞" : isDifference ? "+∞" : "∞";
  const text = decimals === null ? value.toExponential(0).replace("e+", "e") : value.toFixed(decimals);
  const sign = Number(text) < 0 ? "−" : isDifference ? "+" : "";
  return sign + text.replace(/^-/, "").replace("-", "−");
}

/** A colour bar with the values of its colours, and an arrow at an end with cells beyond it. */
class ColourBar {
  #canvas = make("canvas", { width: COLOURS, height: 1 });
  #ticks = make("div", { className: "ticks" });
  #label = make("div", { className: "label" });
  element = make("div", { className: "scale", "aria-hidden": "true" }, this.#canvas, this.#ticks, this.#label);

  /** Show the scale of several pictures, or, with its title, of one. Return it in words. */
  show(pictures, isOfOne) {
    this.element.hidden = !pictures.length;
    if (!pictures.length) return "";
    const { scale, title } = pictures[0];
    const edges = edgesOf(scale);
    const values = Float32Array.from(range(COLOURS), (i) => (i ? edges[i - 1] : -Infinity));
    paint(this.#canvas, { values, shown: values.map(() => 1), scale });
    const ticks = scale.ticks.map(([share, text]) => {
      const tick = make("span", {}, text);
      tick.style.setProperty("--at", `${100 * share}%`);
      return tick;
    });
    this.#ticks.replaceChildren(...ticks);
    const label = isOfOne ? `${title}: ${scale.label}` : scale.label;
    const parts = [scale.isBelow ? "◀ beyond" : "", label, scale.isAbove ? "beyond ▶" : ""];
    this.#label.replaceChildren(...parts.map((text) => make("span", {}, text)));
    return `colours from ${scale.ticks[0][1]} to ${scale.ticks.at(-1)[1]}`;
  }
}
