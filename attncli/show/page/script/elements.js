// Elements of the page, the box beside the pointer, and messages to screen readers. Text goes in as text, never as HTML.
const SVG = "http://www.w3.org/2000/svg";
const DIGITS = 4; // of numbers
const MISSING = "-"; // as in the tables

/** Return a new element with properties (or attributes, if there is no property of the name) and children. */
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

/** Return a function that runs `call` once it has not been called for a while. */
function afterPause(milliseconds, call) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...given), milliseconds);
  };
}

/** Return a number as attncli.numbers.number does. */
function showNumber(value, digits = DIGITS) {
  if (value === null || value === undefined) return MISSING;
  if (!Number.isFinite(value)) return String(value).toLowerCase().replace("infinity", "inf");
  if (value === 0) return "0";
  const exponent = Number(value.toExponential(digits - 1).split("e")[1]);
  if (exponent < -3 || exponent > 5) return value.toExponential(digits - 2).replace(/e([+-])(\d)$/, "e$10$2");
  const decimals = Math.max(digits - 1 - exponent, 0);
  return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

/** Return, for example, `1 cell` or `1,024 cells`. */
function counted(count, name, plural = `${name}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? name : plural}`;
}

/** Return a table cell with a number; `data-value` has all digits. */
function numberCell(value, digits) {
  const all = value === null || value === undefined ? {} : { "data-value": value };
  return make("td", { className: "number", ...all }, showNumber(value, digits));
}

function button(text, press) {
  return make("button", { type: "button", onclick: press }, text);
}

/** Announce a message to screen readers after the pointer or the keys have stopped. */
const say = afterPause(200, (text) => (document.getElementById("said").textContent = text));

// ---- the pointer, and the box beside it

/** The last position of the pointer. Browsers report it again if the page moves below the pointer. */
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
