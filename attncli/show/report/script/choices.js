// The choices of a reader are kept in the address, after its #, so that a view can be sent and gone back to.

/** The choices of one view, as properties. The address has those that differ from their initial value. */
class Choices {
  static #all = [];
  static #hasSeveral = false;
  #kinds;
  #prefix;
  #apply;

  /** `kinds` has by name the initial value and the `options`, or none for any text; `apply` shows other choices. */
  constructor(number, kinds, apply) {
    this.#kinds = Object.entries(kinds);
    this.#prefix = number;
    this.#apply = apply;
    Choices.#all.push(this);
    this.#read();
  }

  /** Addresses of several views are such as #0.stage=scores&1.head=2. */
  static begin(views) {
    Choices.#hasSeveral = views > 1;
    addEventListener("hashchange", () => {
      for (const choices of Choices.#all) {
        choices.#read();
        choices.#apply();
      }
    });
  }

  /** Keep all choices in the address, in place of its own. */
  static keep() {
    Choices.#write("replaceState");
  }

  /** Make other choices, as a step of the browser's history. */
  change(changes) {
    Choices.keep();
    Object.assign(this, changes);
    Choices.#write("pushState");
  }

  static #write(method) {
    const address = `#${new URLSearchParams(Choices.#all.flatMap((choices) => choices.#written()))}`;
    if (address === (location.hash || "#")) return;
    try {
      history[method](null, "", address);
    } catch {
      // a frame that may not change its address
    }
  }

  #key(name) {
    return Choices.#hasSeveral ? `${this.#prefix}.${name}` : name;
  }

  #read() {
    const address = new URLSearchParams(location.hash.slice(1));
    for (const [name, { initial, options }] of this.#kinds) {
      const text = address.get(this.#key(name));
      this[name] = (text !== null && options ? options.find((option) => String(option) === text) : text) ?? initial;
    }
  }

  #written() {
    const changed = this.#kinds.filter(([name, { initial }]) => this[name] !== initial);
    return changed.map(([name]) => [this.#key(name), String(this[name])]);
  }
}
