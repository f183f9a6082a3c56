// The search takes a word that begins with a dash as one that must not occur: `--theme` is looked up as `theme`.
document.addEventListener("input", ({ target }) => {
  if (target.matches("[data-md-component=search-query]")) target.value = target.value.replace(/(^|\s)-+/g, "$1");
}, { capture: true });
