// Elements of the page, and what the pointer and a screen reader are told. Text goes in as text, never as HTML.
const SVG = "http://www.w3.org/2000/svg";
const DIGITS = 4; // of numbers
const MISSING = "-"; // as tables write what is not there

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

/** An element of a drawing, with attributes. */
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

/** The function, called once its calls have paused for so many milliseconds. */
function afterPause(milliseconds, call) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => call(...given), milliseconds);
  };
}

/** A number for people. */
function showNumber(value, digits = DIGITS) {
  if (value === null || value === undefined) return MISSING;
  const size = Math.abs(value);
  return size >= 1e5 || (size > 0 && size < 1e-4) ? value.toExponential(2) : String(Number(value.toPrecision(digits)));
}

/** A cell of a table: a number, with all of its digits in `data-value`. */
function numberCell(value, digits) {
  const all = value === null || value === undefined ? {} : { "data-value": value };
  return make("td", { className: "number", ...all }, showNumber(value, digits));
}

/** Tell a screen reader, once the pointer or the keys rest. */
const say = afterPause(200, (text) => (document.getElementById("said").textContent = text));

/** The line that says by which command a picture is made. */
function asPicture(code) {
  return make("p", { className: "note" }, "As a picture: ", code);
}

// ---- controls

function button(text, press) {
  return make("button", { type: "button", onclick: press }, text);
}

function labelled(name, control) {
  return make("label", {}, `${name} `, control);
}

/** A list to choose from; each option is a pair of value and text, or one for both. */
function selection(options, choose) {
  const pairs = options.map((option) => (Array.isArray(option) ? option : [option, option]));
  const elements = pairs.map(([value, text]) => make("option", { value }, String(text)));
  return make("select", { onchange: (event) => choose(event.target.value) }, ...elements);
}

function tickBox(name, choose) {
  const box = make("input", { type: "checkbox", onchange: () => choose(box.checked) });
  return { box, element: make("label", {}, box, ` ${name}`) };
}

// ---- the pointer, and the box beside it

/** Where it is on the screen. Browsers tell of it anew, at the same place, when what is below it moves. */
const pointer = { place: "" };
for (const kind of ["pointermove", "pointerdown"]) {
  addEventListener(kind, ({ screenX, screenY }) => (pointer.place = `${screenX} ${screenY}`), true);
}

const tip = document.getElementById("tip");

function hideTip() {
  tip.hidden = true;
}

/** Show these elements at a place of the window, wherever they fit. */
function showTip(content, x, y) {
  tip.hidden = false;
  tip.replaceChildren(...content);
  const isRoomRight = x + 18 + tip.offsetWidth <= innerWidth;
  tip.style.left = `${Math.max(4, isRoomRight ? x + 18 : x - tip.offsetWidth - 14)}px`;
  tip.style.top = `${clamp(y + 18, 4, Math.max(4, innerHeight - tip.offsetHeight - 4))}px`;
}

/** What the box says: a heading, and a table with a row for each scorer. */
function tipTable(heading, columns, rows) {
  const head = make("tr", {}, make("td"), ...columns.map((name) => make("th", { scope: "col" }, name)));
  const body = rows.map(([label, ...cells]) =>
    make("tr", {}, make("th", { scope: "row" }, make("bdi", {}, label)), ...cells),
  );
  return [make("div", { className: "head" }, ...heading), make("table", {}, head, ...body)];
}

addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
