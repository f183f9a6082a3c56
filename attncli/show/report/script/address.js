// What a reader has chosen is kept in the address, after its #, so that a view can be sent, and gone back to.

/** Kinds of choices: the value at first, how texts of the address are read (undefined: not at all) and written. */
const oneOf = (options, initial) => ({
  initial,
  read: ([text]) => options.find((option) => String(option) === text),
  write: (value) => [String(value)],
});
const severalOf = (options) => ({
  initial: [],
  read: (texts) => options.filter((option) => texts.includes(option)),
  write: (values) => values,
});
/** The options without this one, or with it where it was not among them. */
const toggled = (options, option) =>
  options.includes(option) ? options.filter((each) => each !== option) : [...options, option];
const anyText = () => ({ initial: "", read: ([text]) => text, write: (value) => [value] });

/** The choices of one run. What is as it was at first is not in the address. */
class Choices {
  static #all = [];
  static #hasSeveral = false;
  #kinds;
  #prefix;
  #apply;

  /** `apply` shows choices that came by the address. */
  constructor(number, kinds, apply) {
    this.#kinds = new Map(Object.entries(kinds));
    this.#prefix = number;
    this.#apply = apply;
    Choices.#all.push(this);
    this.#read(Choices.#told());
  }

  /** Several runs in a page have addresses such as #0.stage=scores&1.d=64. */
  static begin(runs) {
    Choices.#hasSeveral = runs > 1;
    addEventListener("hashchange", () => {
      const told = Choices.#told();
      for (const choices of Choices.#all) {
        choices.#read(told);
        choices.#apply();
      }
    });
  }

  /** Keep all choices in the address, in place of those that it has. */
  static keep() {
    Choices.#write("replaceState");
  }

  /** Choose something else, as a step: what was there before it is kept to go back to. */
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

  static #told() {
    return new URLSearchParams(location.hash.slice(1));
  }

  #key(name) {
    return Choices.#hasSeveral ? `${this.#prefix}.${name}` : name;
  }

  #read(told) {
    for (const [name, { initial, read }] of this.#kinds) {
      const texts = told.getAll(this.#key(name));
      this[name] = (texts.length ? read(texts) : undefined) ?? initial;
    }
  }

  #written() {
    return [...this.#kinds].flatMap(([name, { initial, write }]) =>
      this[name] === initial ? [] : write(this[name]).map((text) => [this.#key(name), text]),
    );
  }
}
