// Colours follow the theme, and so do the pictures of matrices; paper is light.

const theme = {
  button: document.getElementById("theme"),
  prefersDark: matchMedia("(prefers-color-scheme: dark)"),
  print: matchMedia("print"),
  isPrinting: false,

  isDark() {
    if (this.isPrinting || this.print.matches) return false;
    const chosen = document.documentElement.style.colorScheme;
    return chosen ? chosen === "dark" : this.prefersDark.matches;
  },

  /** Paint all pictures again whenever the colours change, without waiting for anything, for print does not wait. */
  begin() {
    const repaint = () => pictures.forEach((picture, canvas) => paint(canvas, picture));
    this.button.hidden = false;
    this.button.onclick = () => {
      const style = document.documentElement.style;
      style.colorScheme = { "": "light", light: "dark", dark: "" }[style.colorScheme];
      this.button.textContent = `Theme: ${style.colorScheme || "auto"}`;
      repaint();
    };
    this.prefersDark.addEventListener("change", repaint);
    this.print.addEventListener("change", repaint);
    for (const [event, isPrinting] of [["beforeprint", true], ["afterprint", false]]) {
      addEventListener(event, () => {
        this.isPrinting = isPrinting;
        repaint();
      });
    }
  },
};

// ---- values become colours

const pictures = new Map(); // what canvases show
const NOT_A_NUMBER = pixelOf([0, 180, 216]);

/** A colour as one number, as the pixels of a canvas have it. */
function pixelOf([red, green, blue]) {
  return new Uint32Array(Uint8Array.of(red, green, blue, 255).buffer)[0];
}

/** The 256 colours of a colour map. */
function pixelsOf(base64) {
  const bytes = bytesOf(base64);
  return Uint32Array.from(range(bytes.length / 3), (i) => pixelOf(bytes.subarray(3 * i, 3 * i + 3)));
}

for (const name of Object.keys(colourMaps)) colourMaps[name] = colourMaps[name].map(pixelsOf);

function colourMap(isDifference) {
  return colourMaps[theme.isDark() ? "dark" : "light"][isDifference ? 1 : 0];
}

/** Paint values, one pixel each; what is masked stays transparent, so that the hatching behind shows. */
function paint(canvas, picture) {
  pictures.set(canvas, picture);
  const { values, mask, isDifference, scaling } = picture;
  const colours = colourMap(isDifference);
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  values?.forEach((value, i) => {
    if (!mask[i]) return;
    const share = scaling.at(value);
    pixels[i] = Number.isNaN(share) ? NOT_A_NUMBER : colours[Math.round(255 * share)];
  });
  context.putImageData(image, 0, 0);
}

/** Paint all colours, for the bar that says which value has which. */
function paintBar(canvas, isDifference) {
  const values = Float32Array.from(range(canvas.width), (i) => i / (canvas.width - 1));
  const mask = new Uint8Array(canvas.width).fill(1);
  paint(canvas, { values, mask, isDifference, scaling: new Scaling("linear", [0, 1]) });
}
