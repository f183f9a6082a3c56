// A chart: lines or bars of several scorers, with intervals, theory, log axes, and the values under the pointer.

const HEIGHT = 300;
const MOST_WIDTH = 900;
const MOST_MARKERS = 60; // of a line; beyond them the line alone
const CHARACTER = 6.6; // pixels that one takes in a tick's text, about
const LONGEST_TICK = 12; // characters

/** Shapes around 0, 0 for the markers by which matplotlib and the data call them. */
const MARKERS = {
  o: "M-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0-7.2 0Z",
  s: "M-3.2-3.2H3.2V3.2H-3.2Z",
  "^": "M0-4.2L4 3.2H-4Z",
  v: "M0 4.2L4-3.2H-4Z",
  "<": "M-4.2 0L3.2-4V4Z",
  ">": "M4.2 0L-3.2-4V4Z",
  D: "M0-4.4L4.4 0L0 4.4L-4.4 0Z",
  P: "M-1.4-4H1.4V-1.4H4V1.4H1.4V4H-1.4V1.4H-4V-1.4H-1.4Z",
  X: "M-4-2.1L-2.1-4L0-1.9L2.1-4L4-2.1L1.9 0L4 2.1L2.1 4L0 1.9L-2.1 4L-4 2.1L-1.9 0Z",
  p: "M0-4.2L4-1.3L2.5 3.4H-2.5L-4-1.3Z",
  h: "M0-4.2L3.6-2.1V2.1L0 4.2L-3.6 2.1V-2.1Z",
  "*": "M0-4.8L1.2-1.6L4.6-1.5L1.9.6L2.8 3.9L0 2L-2.8 3.9L-1.9.6L-4.6-1.5L-1.2-1.6Z",
};

/** Give an element the colour of a scorer, which its style sheet knows as --colour. */
function colourAs(look, element) {
  element.style.setProperty("--colour", `light-dark(${look.light}, ${look.dark})`);
  return element;
}

function markerOf(look, x, y) {
  return makeSvg("path", { class: "marker", d: MARKERS[look.marker] ?? MARKERS.o, transform: `translate(${x} ${y})` });
}

/** A line as a legend shows it. */
function sampleOf(look) {
  const line = makeSvg("path", { class: "line", d: "M0 6H26", "stroke-dasharray": look.dash });
  const sample = makeSvg("svg", { width: 26, height: 12, "aria-hidden": "true" }, line, markerOf(look, 13, 6));
  return colourAs(look, sample);
}

// ---- axes

function isDrawable(value, axis) {
  return Number.isFinite(value) && (!axis.log || value > 0);
}

/** Where the values of an axis lie between two ends, in pixels; `margin` is a part of their range. */
function scaleOf(values, axis, [from, to], [marginLow, marginHigh]) {
  let [low, high] = values.length ? [Math.min(...values), Math.max(...values)] : [axis.log ? 1 : 0, 1];
  if (low === high) [low, high] = axis.log ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
  const along = axis.log ? Math.log : Number;
  const back = axis.log ? Math.exp : Number;
  const length = along(high) - along(low);
  const first = along(low) - marginLow * length;
  const last = along(high) + marginHigh * length;
  const at = (value) => from + ((along(value) - first) / (last - first)) * (to - from);
  return { at, low: back(first), high: back(last) };
}

/** Round values between two ends: some six of them, or powers of ten. */
function ticksOf({ low, high }, axis) {
  return axis.log ? decades(low, high) : roundSteps(low, high);
}

function decades(low, high) {
  const first = Math.floor(Math.log10(low));
  const count = Math.ceil(Math.log10(high)) - first;
  const every = Math.ceil(count / 8);
  const digits = count < 3 ? [1, 2, 5] : [1];
  const powers = range(count + 1).filter((i) => i % every === 0);
  const ticks = powers.flatMap((i) => digits.map((digit) => Number(`${digit}e${first + i}`)));
  return ticks.filter((value) => value >= low * 0.999 && value <= high * 1.001);
}

function roundSteps(low, high) {
  const step = roundUp((high - low) / 6);
  const first = Math.ceil(low / step);
  return range(Math.floor(high / step) - first + 1).map((i) => Number(((first + i) * step).toPrecision(12)));
}

class Chart {
  #spec;
  #width; // in units of the drawing
  #area;
  #hair;
  #index = -1; // of the x that was read last

  /** `toggle` hides or shows a series by its name; `point` is told the x that is read. */
  constructor({ toggle, point = () => {} }) {
    this.toggle = toggle;
    this.point = point;
    this.legend = make("div", { className: "legend", role: "group", "aria-label": "Scorers shown" });
    this.svg = makeSvg("svg", { tabindex: 0, role: "application", "aria-roledescription": "chart" });
    this.element = make("div", { className: "chart" }, this.legend, this.svg);
    this.svg.onpointermove = this.svg.onpointerdown = (event) => this.#readNearest(event);
    this.svg.onpointerleave = this.svg.onblur = () => this.#leave();
    this.svg.onkeydown = (event) => this.#press(event);
    new ResizeObserver(() => {
      if (this.#spec && this.#width !== this.#room) this.draw(this.#spec);
    }).observe(this.element);
  }

  get #room() {
    return clamp(this.element.clientWidth || MOST_WIDTH, 260, MOST_WIDTH);
  }

  /**
   * Draw `series` (name, look, x, y, low, high, theory) but for those in `off`, upon the axes `x` and `y` (name, log).
   * `hasBars`: bars in place of lines. `x.text` names a value, `x.ticks` says which are named; `y.hasZero`: from 0 on.
   */
  draw(spec) {
    const { x, y, series, off, hasBars } = spec;
    this.#spec = spec;
    this.#width = this.#room;
    hideTip(); // which says what was drawn before
    this.visible = series.filter((line) => !off.includes(line.name));
    this.xs = [...new Set(this.visible.flatMap((line) => line.x))].filter((at) => isDrawable(at, x));
    this.xs.sort((a, b) => a - b);
    const area = { left: 70, right: this.#width - 10, top: 8, bottom: HEIGHT - (x.text ? 74 : 40) };
    this.#area = area;
    const ys = this.visible.flatMap((line) => [line.y, line.low ?? [], line.high ?? [], line.theory ?? []].flat());
    const drawable = ys.filter((value) => isDrawable(value, y));
    if (y.hasZero) drawable.push(0);
    const below = y.hasZero && Math.min(...drawable) === 0 ? 0 : 0.04; // bars stand on the axis
    this.across = hasBars
      ? scaleOf([-0.5, x.ticks.length - 0.5], x, [area.left, area.right], [0, 0])
      : scaleOf(this.xs, x, [area.left, area.right], [0.02, 0.02]);
    this.up = scaleOf(drawable, y, [area.bottom, area.top], [below, 0.04]);

    this.svg.setAttribute("viewBox", `0 0 ${this.#width} ${HEIGHT}`);
    this.svg.setAttribute("aria-label", `${y.name} against ${x.name}; left and right arrow keys read the values`);
    const place = { class: "hair", y1: area.top, y2: area.bottom, visibility: "hidden" };
    this.#hair = makeSvg("line", place);
    const lines = this.visible.map((line, order) => this.#seriesOf(line, order));
    this.svg.replaceChildren(...this.#yAxis(), ...this.#xAxis(), ...lines, this.#hair);
    this.#drawLegend();
  }

  #yAxis() {
    const { left, right, bottom } = this.#area;
    const marks = ticksOf(this.up, this.#spec.y).flatMap((value) => {
      const at = this.up.at(value);
      const text = makeSvg("text", { x: left - 6, y: at + 4, "text-anchor": "end" }, showNumber(value));
      return [makeSvg("line", { class: "grid", x1: left, x2: right, y1: at, y2: at }), text];
    });
    const middle = { transform: `translate(14 ${bottom / 2}) rotate(-90)`, "text-anchor": "middle" };
    return [...marks, makeSvg("text", middle, this.#spec.y.name)];
  }

  #xAxis() {
    const { x } = this.#spec;
    const { left, right, bottom } = this.#area;
    const values = x.ticks ?? (this.xs.length <= 14 ? this.xs : ticksOf(this.across, x));
    const marks = [];
    let free = -Infinity; // where the last text ends
    for (const value of values) {
      const text = x.text ? x.text(value) : showNumber(value);
      const at = this.across.at(value);
      const half = x.text ? 6 : (text.length * CHARACTER) / 2 + 3;
      if (at - half < free) continue;
      free = at + half;
      const turned = { "text-anchor": "end", transform: `translate(${at} ${bottom + 10}) rotate(-50)` };
      const level = { "text-anchor": "middle", x: at, y: bottom + 16 };
      const short = text.length > LONGEST_TICK ? `${text.slice(0, LONGEST_TICK - 1)}…` : text;
      marks.push(makeSvg("text", x.text ? turned : level, short));
    }
    const middle = { x: (left + right) / 2, y: HEIGHT - 4, "text-anchor": "middle" };
    return [...marks, makeSvg("text", middle, x.name)];
  }

  #seriesOf(line, order) {
    const { x, y, hasBars } = this.#spec;
    const group = colourAs(line.look, makeSvg("g"));
    const drawn = range(line.x.length).filter((i) => isDrawable(line.x[i], x) && isDrawable(line.y[i], y));
    if (hasBars) {
      group.append(...drawn.map((i) => this.#bar(line, i, order)));
      return group;
    }
    group.append(...this.#intervals(line), ...this.#theory(line));
    group.append(makeSvg("path", { class: "line", d: this.#path(line, line.y), "stroke-dasharray": line.look.dash }));
    if (line.x.length <= MOST_MARKERS) {
      group.append(...drawn.map((i) => markerOf(line.look, this.across.at(line.x[i]), this.up.at(line.y[i]))));
    }
    return group;
  }

  /** The points of a line as a path, with a gap where there is no value. */
  #path(line, values) {
    const { x, y } = this.#spec;
    let pen = "M";
    let path = "";
    line.x.forEach((at, i) => {
      if (!isDrawable(at, x) || !isDrawable(values[i], y)) {
        pen = "M";
        return;
      }
      path += `${pen}${this.across.at(at).toFixed(1)} ${this.up.at(values[i]).toFixed(1)}`;
      pen = "L";
    });
    return path;
  }

  /** A ribbon from the low to the high ends, or a whisker where there is but one. */
  #intervals(line) {
    const { x, y } = this.#spec;
    const ends = range(line.x.length)
      .filter((i) => isDrawable(line.x[i], x) && isDrawable(line.high?.[i], y) && Number.isFinite(line.low?.[i]))
      .map((i) => {
        // an end below what a log axis shows is at its edge
        const low = isDrawable(line.low[i], y) ? this.up.at(line.low[i]) : this.#area.bottom;
        return [this.across.at(line.x[i]), low, this.up.at(line.high[i])];
      });
    if (ends.length === 1) {
      const [[at, low, high]] = ends;
      return [makeSvg("path", { class: "whisker", d: `M${at} ${low}V${high}` })];
    }
    if (!ends.length) return [];
    const upper = ends.map(([at, , high]) => `${at} ${high}`).join("L");
    const lower = ends.reverse().map(([at, low]) => `${at} ${low}`).join("L");
    return [makeSvg("path", { class: "ribbon", d: `M${upper}L${lower}Z` })];
  }

  #theory(line) {
    if (!line.theory?.some((value) => isDrawable(value, this.#spec.y))) return [];
    return [makeSvg("path", { class: "theory", d: this.#path(line, line.theory) })];
  }

  /** A bar with the scorer's marker at its end, so that colour is not all that tells them apart. */
  #bar(line, i, order) {
    const width = ((this.across.at(1) - this.across.at(0)) * 0.8) / this.visible.length;
    const left = this.across.at(line.x[i]) + (order - this.visible.length / 2) * width;
    const base = this.up.at(Math.max(0, this.up.low));
    const end = this.up.at(line.y[i]);
    const bar = makeSvg("rect", { x: left, width, y: Math.min(base, end), height: Math.abs(base - end) });
    return width < 7 ? bar : makeSvg("g", {}, bar, markerOf(line.look, left + width / 2, end));
  }

  #drawLegend() {
    const { series, off } = this.#spec;
    const names = series.map((line) => line.name);
    if (this.names?.join("\n") !== names.join("\n")) {
      this.names = names;
      const content = (line) => [sampleOf(line.look), " ", make("bdi", {}, line.name)];
      const press = (name) => ({ type: "button", onclick: () => this.toggle(name) });
      this.legend.replaceChildren(...series.map((line) => make("button", press(line.name), ...content(line))));
    }
    names.forEach((name, i) => this.legend.children[i].setAttribute("aria-pressed", String(!off.includes(name))));
  }

  #readNearest(event) {
    const box = this.svg.getBoundingClientRect();
    const place = ((event.clientX - box.left) / box.width) * this.#width;
    const distances = this.xs.map((at) => Math.abs(this.across.at(at) - place));
    this.#read(distances.indexOf(Math.min(...distances)), event.clientX, event.clientY);
  }

  #press(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
    if (!step) return;
    event.preventDefault();
    this.#read(this.#index + step);
  }

  /** Say the values at one x beside the pointer, or beside the line that marks it. */
  #read(index, clientX, clientY) {
    if (!this.xs.length) return;
    const { x, y } = this.#spec;
    this.#index = clamp(index, 0, this.xs.length - 1);
    const at = this.xs[this.#index];
    for (const side of ["x1", "x2"]) this.#hair.setAttribute(side, this.across.at(at));
    this.#hair.setAttribute("visibility", "visible");

    const found = this.visible.map((line) => ({ line, i: line.x.indexOf(at) }));
    const read = found.filter(({ line, i }) => i >= 0 && line.y[i] !== null);
    const intervalOf = ({ line, i }) => {
      const [low, high] = [line.low?.[i], line.high?.[i]].map((value) => showNumber(value));
      return Number.isFinite(line.high?.[i]) ? `${low} to ${high}` : "";
    };
    const columns = [
      { name: y.name, cell: ({ line, i }) => numberCell(line.y[i], y.digits) },
      { name: "interval", cell: (row) => make("td", {}, intervalOf(row)), isUsed: intervalOf },
      {
        name: "theory",
        cell: ({ line, i }) => numberCell(line.theory?.[i]),
        isUsed: ({ line, i }) => Number.isFinite(line.theory?.[i]),
      },
    ].filter(({ isUsed }) => !isUsed || read.some(isUsed));
    const heading = x.text ? [`${x.name} ${at}: `, make("bdi", {}, x.text(at))] : [`${x.name} ${showNumber(at)}`];
    const rows = read.map((row) => [row.line.name, ...columns.map(({ cell }) => cell(row))]);
    const box = this.svg.getBoundingClientRect();
    const beside = box.left + (this.across.at(at) / this.#width) * box.width;
    showTip(tipTable(heading, columns.map(({ name }) => name), rows), clientX ?? beside, clientY ?? box.top + 20);
    const spoken = read.map((row) => `${row.line.name} ${showNumber(row.line.y[row.i], y.digits)} ${intervalOf(row)}`);
    say(`${x.name} ${x.text ? x.text(at) : showNumber(at)}: ${spoken.join(", ")}`);
    this.point(at);
  }

  #leave() {
    hideTip();
    this.#hair?.setAttribute("visibility", "hidden");
  }
}
