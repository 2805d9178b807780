"use strict";
// Draws every figure in the colors of the page, and again when they change.
const figures = JSON.parse(document.getElementById("figures").textContent);
const darkness = window.matchMedia("(prefers-color-scheme: dark)");

function draw() {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  const axis = { gridcolor: color("--line"), linecolor: color("--line"), tickcolor: color("--line") };
  for (const [name, { data, layout }] of Object.entries(figures)) {
    const page = {
      ...layout,
      autosize: true,
      font: { family: style.fontFamily, size: 13, color: color("--quiet") },
      hoverlabel: { bgcolor: color("--card"), bordercolor: color("--line"), font: { color: color("--ink") } },
    };
    for (const key of ["xaxis", "yaxis"]) {
      const title = { ...layout[key].title, font: { size: 12 } };
      page[key] = { ...layout[key], ...axis, title };
    }
    const traces = data.map((trace) => ({ insidetextfont: { color: color("--ink") }, ...trace }));
    Plotly.react(`chart-${name}`, traces, page, { displayModeBar: false, responsive: true });
  }
}

for (const video of document.querySelectorAll("video")) {
  const showMessage = () => { video.hidden = true; video.nextElementSibling.hidden = false; };
  video.addEventListener("error", showMessage);
  if (video.error) showMessage();
}

draw();
darkness.addEventListener("change", draw);
