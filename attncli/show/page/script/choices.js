// The reader's choices, stored in the address after #, so links and the Back button restore a view.

/** The choices of a view as properties. The address has only choices that differ from their initial value. */
class Choices {
  static #all = [];
  static #hasSeveral = false;
  #kinds;
  #prefix;
  #apply;

  /** `kinds` maps a name to an initial value and to `options` (none: any text); `apply` is called after changes. */
  constructor(number, kinds, apply) {
    this.#kinds = Object.entries(kinds);
    this.#prefix = number;
    this.#apply = apply;
    Choices.#all.push(this);
    this.#read();
  }

  /** With several views the address is, for example, #0.stage=scores&1.head=2. */
  static begin(views) {
    Choices.#hasSeveral = views > 1;
    addEventListener("hashchange", () => {
      for (const choices of Choices.#all) {
        choices.#read();
        choices.#apply();
      }
    });
  }

  /** Replace the choices in the address. */
  static keep() {
    Choices.#write("replaceState");
  }

  /** Change choices, and add a step to the browser's history. */
  change(changes) {
    Choices.keep();
    Object.assign(this, changes);
    Choices.#write("pushState");
  }

  /** Return an address with these choices. */
  addressOf(changes) {
    return `#${new URLSearchParams(Object.entries(changes).map(([name, value]) => [this.#key(name), value]))}`;
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
