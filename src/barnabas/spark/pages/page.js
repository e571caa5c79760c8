// A tag of a chart's part, "fill_color=--c1", says which colour of the page is which of its properties.
function paint() {
  const colours = getComputedStyle(document.documentElement);
  for (const drawing of Bokeh.documents)
    for (const model of drawing.all_models)
      for (const [property, name] of model.tags.map((tag) => tag.split("=")))
        model[property] = colours.getPropertyValue(name).trim();
}
// Each chart becomes a document of its own, some time after the page is there.
function paintWhenDrawn() {
  const drawn = Bokeh.documents.length === document.querySelectorAll(".chart").length;
  drawn ? paint() : setTimeout(paintWhenDrawn, 20);
}
document.addEventListener("DOMContentLoaded", paintWhenDrawn);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
