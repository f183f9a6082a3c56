// Elements of the page, the box beside the pointer, and messages to screen readers. Text goes in as text, never as HTML.
const SVG = "http://www.w3.org/2000/svg";
const DIGITS = 4; // of numbers
const MISSING = "-"; // as in the tables

/** An element with properties (or attributes, where it has no such property) and children. */
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element && !name.startsWith("aria")) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function makeSvg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function range(count) {
  return Array.from({ length: count }, (_, index) => index);
}

function clamp(value, low, high) {
  return Math.max(low, Math.min(high, value));
}

/** A function that calls `call` after a pause of its own calls. */
function afterPause(milliseconds, call) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...given), milliseconds);
  };
}

function showNumber(value, digits = DIGITS) {
  if (value === null || value === undefined) return MISSING;
  const size = Math.abs(value);
  return size >= 1e5 || (size > 0 && size < 1e-4) ? value.toExponential(2) : String(Number(value.toPrecision(digits)));
}

/** Such as `1 cell` and `1,024 cells`. */
function counted(count, name, plural = `${name}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? name : plural}`;
}

/** A table cell with a number; `data-value` has all of its digits. */
function numberCell(value, digits) {
  const all = value === null || value === undefined ? {} : { "data-value": value };
  return make("td", { className: "number", ...all }, showNumber(value, digits));
}

function button(text, press) {
  return make("button", { type: "button", onclick: press }, text);
}

/** Tell a screen reader, once the pointer or the keys rest. */
const say = afterPause(200, (text) => (document.getElementById("said").textContent = text));

// ---- the pointer, and the box beside it

/** The place of the pointer on the screen. Browsers report it again when something moves below it. */
const pointer = { place: "" };
for (const kind of ["pointermove", "pointerdown"]) {
  addEventListener(kind, ({ screenX, screenY }) => (pointer.place = `${screenX} ${screenY}`), true);
}

const tip = document.getElementById("tip");

function hideTip() {
  tip.hidden = true;
}

/** Show the box with these elements beside a point of the window. */
function showTip(content, x, y) {
  tip.hidden = false;
  tip.replaceChildren(...content);
  const isRoomRight = x + 18 + tip.offsetWidth <= innerWidth;
  tip.style.left = `${Math.max(4, isRoomRight ? x + 18 : x - tip.offsetWidth - 14)}px`;
  tip.style.top = `${clamp(y + 18, 4, Math.max(4, innerHeight - tip.offsetHeight - 4))}px`;
}

addEventListener("keydown", (event) => event.key === "Escape" && hideTip());

// ---- tables that are sorted by the column whose heading is pressed

/** Make the headings of a table buttons. Return a function that sorts again after its rows have changed. */
function makeSortable(table) {
  const headings = [...table.tHead.rows[0].cells];
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
