// Files for the reader: the matrices as they are on the screen, pictures, and tables.

const [DOTS, MOST_DOTS] = [2, 8000]; // of a saved view: for each pixel, and along a side
const [HATCHING, MARGIN] = [7, 8]; // pixels from line to line, and around a saved view

function saveAs(name, blob) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name.replaceAll(/[\\/:*?"<>|]+/g, "_") });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // the browser reads it later
}

/** Save a table in its present order as CSV, with all digits of its numbers. */
function saveTable(table) {
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = [...table.rows].map((row) => [...row.cells].map((cell) => quoted(cell.dataset.value ?? cell.textContent)));
  const name = table.closest("[aria-label]").getAttribute("aria-label");
  saveAs(`${name}.csv`, new Blob([`${lines.join("\n")}\n`], { type: "text/csv" }));
}

/** Save a picture of the run in the present theme as SVG. */
function savePicture(picture) {
  const svg = [...picture.querySelectorAll("svg")].find((each) => each.checkVisibility());
  const text = new XMLSerializer().serializeToString(svg);
  saveAs(`${picture.getAttribute("aria-label")}.svg`, new Blob([text], { type: "image/svg+xml" }));
}

/** Save the panels and colour bars in view as PNG: each canvas and each text is drawn at its place on the screen. */
function saveView(name, ...parts) {
  const boxes = parts.flatMap((part) => [...part.children]).map((child) => child.getBoundingClientRect());
  const seen = boxes.filter(({ width: across }) => across);
  const [left, top] = ["left", "top"].map((side) => Math.min(...seen.map((box) => box[side])) - MARGIN);
  const [right, bottom] = ["right", "bottom"].map((side) => Math.max(...seen.map((box) => box[side])) + MARGIN);
  const [width, height] = [right - left, bottom - top];
  const dots = Math.min(DOTS, MOST_DOTS / Math.max(width, height));
  const canvas = make("canvas", { width: dots * width, height: dots * height });
  const context = canvas.getContext("2d");
  context.setTransform(dots, 0, 0, dots, -dots * left, -dots * top);
  const paper = getComputedStyle(document.body).backgroundColor;
  const fill = (box) => {
    context.fillStyle = paper;
    context.fillRect(box.left, box.top, box.width, box.height);
  };
  /** Draw all visible elements of a kind, and nothing beyond the part of a panel that is in view. */
  const each = (selector, draw) => {
    for (const element of parts.flatMap((part) => [...part.querySelectorAll(selector)])) {
      const view = element.closest(".scroll, figcaption")?.getBoundingClientRect();
      const box = element.getBoundingClientRect();
      context.save();
      context.beginPath();
      if (view) context.rect(view.left, view.top, view.width, view.height);
      if (view) context.clip();
      if (box.width) draw(box, element, getComputedStyle(element));
      context.restore();
    }
  };
  const write = (box, { textContent }, { fontWeight, fontSize, fontFamily, color, writingMode }) => {
    context.translate((box.left + box.right) / 2, (box.top + box.bottom) / 2);
    if (writingMode.startsWith("vertical")) context.rotate(-Math.PI / 2);
    Object.assign(context, { font: `${fontWeight} ${fontSize} ${fontFamily}`, fillStyle: color });
    Object.assign(context, { textAlign: "center", textBaseline: "middle" });
    context.fillText(textContent, 0, 0, Math.max(box.width, box.height));
  };
  fill({ left, top, width, height });
  each(".cells", (box, _, { color }) => {
    Object.assign(context, { strokeStyle: color, globalAlpha: 0.4, lineWidth: 0.7 });
    context.rect(box.left, box.top, box.width, box.height);
    context.clip();
    context.beginPath();
    for (let x = box.left - box.height; x < box.right; x += HATCHING) {
      context.moveTo(x, box.top);
      context.lineTo(x + box.height, box.bottom);
    }
    context.stroke();
  });
  each("canvas", (box, element) => {
    context.imageSmoothingEnabled = box.width < element.width;
    context.drawImage(element, box.left, box.top, box.width, box.height);
  });
  each(".numbers span", write);
  each(".names", fill);
  each(".names bdi", write);
  each(".corner", fill);
  each("figcaption bdi, figcaption small, .ticks span, .beyond span", write);
  canvas.toBlob((blob) => saveAs(`${name}.png`, blob));
}
