// The curves of a study: which figure and facet, with which axes and scorers.

class CurvesView {
  #data;
  #choices;
  #figure;
  #facet;
  #logX;
  #logY;
  #chart;

  /** `number` counts what has choices of its own in the page. */
  constructor(data, number) {
    this.#data = data;
    const titles = [...new Set(data.charts.map((chart) => chart.title))];
    const facets = [...new Set(data.charts.map((chart) => chart.facet))];
    const names = [...new Set(data.charts.flatMap((chart) => chart.series.map((line) => line.name)))];
    const yesOrNo = oneOf(["yes", "no"], null);
    const kinds = {
      figure: oneOf(titles, titles[0]),
      facet: oneOf(facets, null),
      logx: yesOrNo,
      logy: yesOrNo,
      hidden: severalOf(names),
    };
    this.#choices = new Choices(number, kinds, () => this.show());
    this.#chart = new Chart({ toggle: (name) => this.#choose({ hidden: toggled(this.#choices.hidden, name) }) });
    const command = data.command ? [asPicture(make("code", {}, data.command))] : [];
    this.element = make("div", {}, this.#toolbar(titles, facets), this.#chart.element, ...command);
  }

  #toolbar(titles, facets) {
    this.#figure = selection(titles, (figure) => this.#choose({ figure, logx: null, logy: null }));
    this.#facet = selection(facets, (facet) => this.#choose({ facet }));
    this.#logX = tickBox("log x", (isChecked) => this.#choose({ logx: isChecked ? "yes" : "no" }));
    this.#logY = tickBox("log y", (isChecked) => this.#choose({ logy: isChecked ? "yes" : "no" }));
    const controls = [labelled("figure", this.#figure), labelled("of", this.#facet)];
    const name = { className: "bar", role: "toolbar", "aria-label": "What is drawn" };
    return make("div", name, ...controls, this.#logX.element, this.#logY.element);
  }

  #choose(changes) {
    this.#choices.change(changes);
    this.show();
  }

  show() {
    const { figure, facet, logx, logy, hidden } = this.#choices;
    const charts = this.#data.charts.filter((chart) => chart.title === figure);
    const chart = charts.find((each) => each.facet === facet) ?? charts[0];
    const x = { ...chart.x, log: logx ? logx === "yes" : chart.x.log };
    const y = { ...chart.y, log: logy ? logy === "yes" : chart.y.log };
    this.#figure.value = figure;
    this.#showFacets(charts.map((each) => each.facet), chart.facet);
    this.#logX.box.checked = x.log;
    this.#logY.box.checked = y.log;
    this.#chart.draw({ x, y, series: chart.series, off: hidden, hasBars: false });
  }

  #showFacets(facets, shown) {
    for (const option of this.#facet.options) option.hidden = option.disabled = !facets.includes(option.value);
    this.#facet.value = shown;
    this.#facet.parentElement.hidden = facets.length < 2;
  }
}
