// How values become colours, as heatmaps have it: where colours end, and by which root or logarithm, if any.

const COLOURS = ["linear", "root", "log"];
const { maps: colourMaps, rule: RULE } = JSON.parse(document.getElementById("colours").textContent);

/** The finite values that are not masked. */
function shownNumbers(values, mask) {
  return values.filter((value, i) => mask[i] && Number.isFinite(value));
}

/** The scaling of each panel, given its numbers, and what is chosen: stage, scale, colours; isDifference. */
function scalingsOf(numbers, choice) {
  const linear = linearEnds(numbers, choice);
  const isOfWeights = RULE.weights.includes(choice.stage);
  const masses = isOfWeights || choice.colours === "root" ? numbers.map((each) => new Mass(each)) : [];
  const isHidden = isOfWeights && masses.some((mass, i) => mass.below(RULE.pale * linear[i][1]) > RULE.hidden);
  const colours = choice.colours ?? (isHidden ? "root" : "linear");
  if (colours === "linear") return linear.map((ends) => new Scaling(colours, ends));
  const isOfEach = choice.scale === "panel";
  let ends = linear;
  if (isOfWeights && (isOfEach || choice.scale === null)) {
    const own = masses.map((mass) => (mass.total > 0 ? roundUp(mass.quantile(1 - RULE.beyond)) : 0));
    const highs = own.map((high) => (isOfEach ? high : Math.max(...own)) || 1);
    ends = highs.map((high) => [choice.isDifference ? -high : 0, high]);
  }
  if (colours === "log") return ends.map((each, i) => new Scaling(colours, endsAbove0(numbers, each, i, choice)));
  const ratios = masses.map((mass, i) => (mass.total > 0 && ends[i][1] > 0 ? ends[i][1] / mass.quantile(0.5) : 1));
  const root = clamp(Math.round(Math.log(Math.max(1, ...ratios))), 2, RULE.steepest);
  return ends.map((each) => new Scaling(colours, each, root));
}

class Scaling {
  #along;
  #first;
  #length;

  /** From `ends`, [low, high], which have the colours 0 and 1. */
  constructor(colours, ends, root = 1) {
    const [low, high] = ends;
    this.colours = colours;
    this.ends = ends;
    this.root = root;
    if (colours === "linear") this.#along = (value) => value;
    else if (colours === "root") this.#along = (value) => Math.sign(value) * Math.abs(value) ** (1 / root);
    else if (low > 0) this.#along = (value) => Math.log(Math.max(value, low));
    else this.#along = logarithmFromBothSides(Math.max(-low, high) / 10 ** RULE.decades_each);
    this.#first = this.#along(low);
    this.#length = this.#along(high) - this.#first;
  }

  /** The colour of a value, from 0 to 1; NaN for no number. */
  at(value) {
    return clamp((this.#along(value) - this.#first) / this.#length, 0, 1);
  }

  /** How many values lie [below, above] the ends, by more than rounding: they have the colours of the ends. */
  beyond(values, mask) {
    const [low, high] = this.ends;
    const slack = RULE.rounding * (high - low);
    const least = this.colours === "log" && low > 0 ? low * (1 - RULE.rounding) : low - slack;
    const count = (test) => values.reduce((sum, value, i) => sum + (mask[i] && test(value) ? 1 : 0), 0);
    return [count((value) => value < least), count((value) => value > high + slack)];
  }

  /** Values to write at the colours: both ends, and round ones between, as colour bars of heatmaps have them. */
  get ticks() {
    const [low, high] = this.ends;
    const rounded = (value) => (value ? Math.sign(value) * roundUp(Math.abs(value) / 1.5) : 0);
    const between =
      this.colours === "linear"
        ? roundSteps(low, high)
        : range(RULE.ticks).map((i) => rounded(this.#valueAt(i / (RULE.ticks - 1))));
    return [low, high, ...new Set(between.filter((value) => value > low && value < high))];
  }

  /** The value that has a colour, by halving: every scaling rises. */
  #valueAt(share) {
    let [low, high] = this.ends;
    if (low === -high && share === 0.5) return 0;
    for (let step = 0; step < 50; step++) {
      const middle = (low + high) / 2;
      if (this.at(middle) < share) low = middle;
      else high = middle;
    }
    return (low + high) / 2;
  }

  get words() {
    if (this.colours === "linear") return "";
    if (this.colours === "log") return "colours by the logarithm";
    return `colours by the ${RULE.roots[this.root] ?? `${this.root}th root`}`;
  }
}

/** Linear up to a threshold on both sides of 0, with as much room as a decade beyond it has (as in matplotlib). */
function logarithmFromBothSides(threshold) {
  const linear = 1 / (1 - 1 / 10);
  return (value) => {
    const size = Math.abs(value) / threshold;
    return size <= 1 ? (value / threshold) * linear : Math.sign(value) * (linear + Math.log10(size));
  };
}

/** Where linear colours end, in each panel. */
function linearEnds(numbers, { stage, scale, isDifference }) {
  const chosen = scale ?? (stage === "weights" && !isDifference ? "unit" : "shared");
  const own = numbers.map(limitsOf);
  const lows = own.map(([low]) => low);
  const highs = own.map(([, high]) => high);
  return own.map((limits) => {
    let [low, high] = limits;
    if (chosen === "unit") [low, high] = [0, 1];
    if (chosen === "shared") [low, high] = widened(Math.min(...lows), Math.max(...highs));
    else if (chosen === "panel") [low, high] = widened(low, high);
    const farthest = Math.max(-low, high);
    return isDifference ? [-farthest, farthest] : [low, high];
  });
}

function limitsOf(values) {
  return values.length ? [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))] : [0, 1];
}

/** Equal ends are moved apart, so that they have the colour in the middle. */
function widened(low, high) {
  const around = low < high ? 0 : 0.5 * Math.abs(low) || 0.5;
  return [low - around, high + around];
}

/** The sizes of values, sorted, and how much of their sum lies where. */
class Mass {
  #sizes;
  #sums;

  constructor(values) {
    this.#sizes = values.map(Math.abs).sort();
    this.#sums = new Float64Array(values.length);
    let sum = 0;
    this.#sizes.forEach((size, i) => (this.#sums[i] = sum += size));
    this.total = sum;
  }

  /** The share of values smaller than this. */
  below(size) {
    const count = firstIndex(this.#sizes, (each) => each >= size);
    return count && this.total ? this.#sums[count - 1] / this.total : 0;
  }

  /** The size up to which values make up this share. */
  quantile(share) {
    const index = firstIndex(this.#sums, (sum) => sum >= share * this.total);
    return this.#sizes[Math.min(index, this.#sizes.length - 1)];
  }
}

/** The first index for whose value the test holds, given that it holds from some index on. */
function firstIndex(values, test) {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (test(values[middle])) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The least of 1, 2 and 5 times a power of ten that is not smaller. */
function roundUp(value) {
  const power = Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((digit) => Number(`${digit}e${power}`)).find((step) => step >= value * (1 - RULE.rounding));
}

/** The ends of logarithmic colours, which begin above 0 where no value is below it. */
function endsAbove0(numbers, [low, high], panel, { scale }) {
  const shown = scale === "panel" ? [numbers[panel]] : numbers;
  if (low < 0 || shown.some((values) => values.some((value) => value < 0))) return [low, high];
  const positive = shown.map((values) => values.filter((value) => value > 0));
  let smallest = Math.max(Math.min(high, ...positive.map((values) => limitsOf(values)[0])), high / 10 ** RULE.decades);
  // zeros lie below the colours: the smallest value has one that can be told from theirs
  if (positive.some((values, i) => values.length < shown[i].length)) smallest *= (smallest / high) ** 0.1;
  return [Math.max(low, Math.min(smallest, high / 10)), high];
}
