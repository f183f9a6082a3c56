// One scorer's matrix: its picture, the names of its rows and columns, its colour bar, and its keys.

const BAR = 216; // pixels along a colour bar

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
  #label;
  #scroll;
  #scrolledTo = "0,0"; // where it is known to be
  #canvas;
  #cells;
  #names;
  #title;
  #bar;
  #ticks;
  #beyond; // what lies beyond either end of the colours

  constructor(view, label) {
    this.#view = view;
    this.#label = label;
    const { n, m } = view.data;
    this.#canvas = make("canvas", { width: m, height: n });
    const marks = ["row", "column", "cell"].map((kind) => make("span", { className: `mark ${kind}` }));
    const role = { role: "application", "aria-roledescription": "heat map", "aria-describedby": `help-${view.number}` };
    this.#cells = make("div", { className: "cells", tabIndex: 0, ...role }, this.#canvas, ...marks);
    this.#cells.onkeydown = (event) => this.#press(event);
    this.#cells.onblur = hideTip;
    this.#names = {
      queries: make("div", { className: "names rows", "aria-hidden": "true" }),
      keys: make("div", { className: "names columns", "aria-hidden": "true" }),
    };
    const corner = make("div", { className: "corner" });
    const parts = [corner, this.#names.keys, this.#names.queries, this.#cells];
    this.#scroll = make("div", { className: "scroll" }, ...parts);
    this.#scroll.onscroll = () => this.#tellScrolled();
    this.#title = make("figcaption");
    this.#bar = make("canvas", { width: 256, height: 1 });
    this.#ticks = make("div", { className: "ticks" });
    this.#beyond = make("div", { className: "beyond" });
    const ofScale = [this.#bar, this.#ticks, this.#beyond];
    const scale = make("div", { className: "scale", "aria-hidden": "true" }, ...ofScale);
    this.element = make("figure", {}, this.#title, this.#scroll, scale);
  }

  /** A picture of values with their scaling; without values the panel is hidden. */
  show(picture) {
    const { values, mask, isDifference, scaling } = picture;
    this.element.hidden = !values;
    if (!values) return;
    const { choices, data, placeText } = this.#view;
    paint(this.#canvas, picture);
    paintBar(this.#bar, isDifference);
    this.#ticks.replaceChildren(...ticksWithRoom(scaling));
    const what = isDifference ? `${this.#label} − ${choices.minus}` : this.#label;
    const words = scaling.words ? [make("small", {}, ` ${scaling.words}`)] : [];
    this.#title.replaceChildren(make("bdi", {}, what), ...words);
    const [below, above] = scaling.beyond(values, mask).map((count) => (count ? counted(count, data.unit) : ""));
    const beyond = [below && `${below} below`, above && `${above} above`];
    const marks = [beyond[0] && `◀ ${beyond[0]}`, beyond[1] && `${beyond[1]} ▶`];
    this.#beyond.replaceChildren(...marks.map((text) => make("span", {}, text)));
    const ends = `colours from ${scaling.ends.map((value) => showNumber(value)).join(" to ")}`;
    const colours = [ends, ...beyond.filter(Boolean)].join(", ");
    const about = `${what}, ${choices.stage}, ${placeText}: ${data.n} queries by ${data.m} keys, ${colours}`;
    this.#cells.setAttribute("aria-label", about);
  }

  /** Name rows or columns, cells being of this size: those that were found, or as many as there is room for. */
  name(side, found, size) {
    const { n, m } = this.#view.data;
    const every = roundUp(Math.max(1, LABEL_ROOM / size));
    const hasRoom = (i) => i === 0 || (i % every === 0 && (i + 0.5) * size > 1.45 * LABEL_ROOM);
    const wanted = found.length ? found : range(side === "queries" ? n : m).filter(hasRoom);
    const isFound = found.length ? "found" : "";
    const names = wanted.map((index) => {
      const data = { "data-side": side, "data-index": index };
      const name = make("bdi", { className: isFound, ...data }, this.#view.token(side, index));
      name.style.setProperty("--i", index);
      return name;
    });
    this.#names[side].replaceChildren(...names);
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

  /** Scroll the cell that is pointed at into sight. */
  reveal() {
    this.#cells.querySelector(".mark.cell").scrollIntoView({ block: "nearest", inline: "nearest" });
    this.#tellScrolled();
  }

  scrollTo(place) {
    this.#scroll.scrollTo(...place);
    this.#scrolledTo = String(this.#place); // browsers round
  }

  get #place() {
    return [this.#scroll.scrollLeft, this.#scroll.scrollTop];
  }

  /** Events come late: one that tells where this was put is no news, and what is hidden is nowhere. */
  #tellScrolled() {
    if (this.element.hidden || String(this.#place) === this.#scrolledTo) return;
    this.#scrolledTo = String(this.#place);
    this.#view.scrollOthers(this, this.#place);
  }

  /** Beside the cell that the keys have moved to, which is scrolled into sight. */
  #showTip() {
    this.#view.reveal(this);
    const { query, key, data } = this.#view;
    const box = this.#cells.getBoundingClientRect();
    const x = box.left + ((key + 1) / data.m) * box.width;
    const y = box.top + ((query + 1) / data.n) * box.height;
    showTip(this.#view.tipOf(query, key), x, y);
  }
}

/** Such as `1 cell` and `1,024 cells`. */
function counted(count, name) {
  return `${count.toLocaleString("en")} ${name}${count === 1 ? "" : "s"}`;
}

/** What stands below a colour bar: its ends, and those of its other ticks that have room. */
function ticksWithRoom(scaling) {
  const taken = []; // from and to, in pixels
  const found = [];
  for (const value of scaling.ticks) {
    const text = showNumber(value);
    const share = scaling.at(value);
    const width = CHARACTER * text.length;
    const left = clamp(share * BAR - width / 2, 0, BAR - width);
    if (taken.some(([from, to]) => left < to + CHARACTER && left + width > from - CHARACTER)) continue;
    taken.push([left, left + width]);
    const tick = make("span", {}, text);
    tick.style.setProperty("--at", `${100 * share}%`);
    found.push(tick);
  }
  return found;
}
