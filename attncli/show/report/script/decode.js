// The matrices of a run: base64 of zlib of float32 whose sign comes last, with the first bytes of
// all numbers first, then the second ones.

function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

async function inflated(base64) {
  const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function floatsOf(base64) {
  const planes = await inflated(base64);
  const count = planes.length / 4;
  const bytes = new Uint8Array(planes.length);
  for (let i = 0; i < count; i++) {
    for (let plane = 0; plane < 4; plane++) bytes[4 * i + plane] = planes[plane * count + i];
  }
  const rotated = new Uint32Array(bytes.buffer);
  return new Float32Array(rotated.map((word) => (word >>> 1) | (word << 31)).buffer);
}

/** One byte, 1 or 0, for each bit, the highest bit of a byte first. */
async function bitsOf(base64, count) {
  const packed = await inflated(base64);
  return Uint8Array.from({ length: count }, (_, i) => (packed[i >> 3] >> (7 - (i & 7))) & 1);
}

/** The matrices of a run by stage, label (by its index) and place (indices of batch element, layer, head). */
class Matrices {
  #data;
  #decoded = new Map();

  constructor(data) {
    this.#data = data;
  }

  /** The values (n m) of one matrix; null where the scorer has no such stage. */
  async values(stage, label, place) {
    const ofStage = this.#data.matrices[stage];
    const name = this.#data.labels[label];
    if (!Object.hasOwn(ofStage, name)) return null;
    const index = this.#indexOf(place);
    return this.#once(`${stage} ${label} ${index}`, () => floatsOf(ofStage[name][index]));
  }

  /** Which cells (n m) may be attended to. */
  async mask(place) {
    const { mask, masks, n, m } = this.#data;
    const index = mask[this.#indexOf(place)];
    return this.#once(`mask ${index}`, () => bitsOf(masks[index], n * m));
  }

  /** Places are in the order of the axes, the last one fastest. */
  #indexOf(place) {
    return place.reduce((sum, index, axis) => sum * this.#data.axes[axis].size + index, 0);
  }

  #once(key, decode) {
    if (!this.#decoded.has(key)) this.#decoded.set(key, decode());
    return this.#decoded.get(key);
  }
}
