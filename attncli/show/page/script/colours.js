// Numbers, and their colours in the browser's theme; print is light.

function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i); // four times as fast as Uint8Array.from
  return bytes;
}

/** All matrices of a view, decoded once, by stage, place and label. */
class Matrices {
  #data;
  #bytes;
  #starts = new Map(); // of the matrices of a stage
  #found = new Map();

  static async of(data) {
    const stream = new Blob([bytesOf(data.data)]).stream().pipeThrough(new DecompressionStream("deflate"));
    const matrices = new Matrices();
    matrices.#data = data;
    matrices.#bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    matrices.places = data.axes.reduce((count, { names }) => count * names.length, 1);
    let start = 0;
    for (const { name, labels } of data.stages) {
      matrices.#starts.set(name, start);
      start += labels.length * matrices.places;
    }
    return matrices;
  }

  /** Return `values` (n m) of a label, 0 where masked, and `shown`, 1 where unmasked; null without such a matrix. */
  at(stage, place, label) {
    const { axes, stages } = this.#data;
    const order = stages.find(({ name }) => name === stage).labels.indexOf(label);
    if (order < 0) return null;
    const index = place.reduce((sum, each, axis) => sum * axes[axis].names.length + each, 0);
    const matrix = this.#starts.get(stage) + order * this.places + index;
    if (!this.#found.has(matrix)) this.#found.set(matrix, this.#decoded(matrix));
    return this.#found.get(matrix);
  }

  #decoded(matrix) {
    const { n, m, bytes: width } = this.#data;
    const [size, all] = [n * m, this.#bytes.length / width];
    const words = new Uint32Array(size);
    for (let plane = 0; plane < width; plane++) {
      const first = plane * all + matrix * size;
      const shift = 8 * (4 - width + plane);
      for (let i = 0; i < size; i++) words[i] |= this.#bytes[first + i] << shift;
    }
    const masked = width === 4 ? 0xffffffff : 0xffff0000;
    const shown = Uint8Array.from(words, (word) => word !== masked);
    return { values: new Float32Array(words.map((word, i) => word * shown[i]).buffer), shown };
  }
}

// ---- themes

const theme = {
  prefersDark: matchMedia("(prefers-color-scheme: dark)"),
  print: matchMedia("print"),
  isPrinting: false,
  views: [], // fitted to the paper, and to the window again

  isDark() {
    return !this.isPrinting && this.prefersDark.matches;
  },

  /** Repaint and fit everything when the theme changes, and before and after printing. */
  begin() {
    const repaint = (isPrinting = this.print.matches) => {
      this.isPrinting = isPrinting;
      painted.forEach((picture, canvas) => paint(canvas, picture));
      for (const view of this.views) view.fit();
    };
    for (const query of [this.prefersDark, this.print]) query.addEventListener("change", () => repaint());
    addEventListener("beforeprint", () => repaint(true));
    addEventListener("afterprint", () => repaint(false));
  },
};

// ---- colours

const COLOURS = 256;
/** Sequential and diverging colours as pixels, by theme; the last colour is for NaN. */
const colourMaps = JSON.parse(document.getElementById("colours").textContent);
for (const [name, maps] of Object.entries(colourMaps)) {
  colourMaps[name] = maps.map((map) => {
    const bytes = [...bytesOf(map), 0, 180, 216];
    return new Uint32Array(Uint8Array.from({ length: 4 * (COLOURS + 1) }, (_, i) => (i % 4 < 3 ? bytes[i - (i >> 2)] : 255)).buffer);
  });
}
const painted = new Map(); // contents of canvases

function colourMap({ scale }) {
  return colourMaps[theme.isDark() ? "dark" : "light"][Number(scale.diverging)];
}

/** Return the limits between the colours of a scale. */
function edgesOf(scale) {
  return (scale.decoded ??= new Float32Array(bytesOf(scale.edges).buffer));
}

/** Return the index of the colour of a value. */
function colourIndex(value, edges) {
  if (Number.isNaN(value)) return COLOURS;
  let [low, high] = [0, edges.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (edges[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Paint a picture, one pixel for each value. Masked cells stay transparent and show the hatching behind. */
function paint(canvas, picture) {
  painted.set(canvas, picture);
  const { values, shown, scale } = picture;
  const map = colourMap(picture);
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  values?.forEach((value, i) => {
    if (shown[i]) pixels[i] = map[colourIndex(value, edgesOf(scale))];
  });
  context.putImageData(image, 0, 0);
}

/** Return the text colour with the best contrast on the colour of a value. */
function inkOn(value, picture) {
  const pixel = colourMap(picture)[colourIndex(value, edgesOf(picture.scale))];
  const light = 0.3 * (pixel & 255) + 0.6 * ((pixel >> 8) & 255) + 0.1 * ((pixel >> 16) & 255);
  return light < 128 ? "#fff" : "#000";
}
