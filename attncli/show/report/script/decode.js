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

/** The matrices of a run by place (indices of batch element, layer, head), each decoded once. */
class Matrices {
  #data;
  #decoded = new Map();

  constructor(data) {
    this.#data = data;
  }

  /** Which cells (n m) may be attended to, and the values (n m) by stage and label; null where there are none. */
  async at(place, stages) {
    const { axes, labels, mask, masks, n, m } = this.#data;
    // places are in the order of the axes, the last one fastest
    const index = place.reduce((sum, each, axis) => sum * axes[axis].size + each, 0);
    const ofStage = async (stage) => [stage, await Promise.all(labels.map((label) => this.#values(stage, label, index)))];
    const [valid, ...values] = await Promise.all([
      this.#once(`mask ${mask[index]}`, () => bitsOf(masks[mask[index]], n * m)),
      ...stages.map(ofStage),
    ]);
    return { mask: valid, values: new Map(values) };
  }

  #values(stage, label, index) {
    const ofStage = this.#data.matrices[stage];
    if (!Object.hasOwn(ofStage, label)) return null;
    return this.#once(`${stage} ${index} ${label}`, () => floatsOf(ofStage[label][index]));
  }

  #once(key, decode) {
    if (!this.#decoded.has(key)) this.#decoded.set(key, decode());
    return this.#decoded.get(key);
  }
}
