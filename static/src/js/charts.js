// Charts are drawn by the server as SVG, with their table behind. Here a pointer or the arrow keys read single values:
// uPlot, loaded when the first chart is met, draws the same table again with a cursor.

import { htmx } from "./fragments.js";

const plots = new Map();
const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const rowsOf = (figure) => document.querySelectorAll(`#${figure.dataset.table} tbody tr`);
const cellOf = (row, figure) => row.querySelectorAll("[data-value]")[Number(figure.dataset.column)];

/** Times (seconds) and values of a chart's table; a gap is null. */
function readTable(figure) {
  const times = [];
  const values = [];
  for (const row of rowsOf(figure)) {
    const at = row.querySelector("time")?.dateTime;
    const cell = cellOf(row, figure);
    if (!at || !cell) continue;
    times.push(new Date(at).getTime() / 1_000);
    values.push(cell.dataset.value === "" ? null : Number(cell.dataset.value));
  }
  return [times, values];
}

/** The row of the table under the cursor, in its own words. */
function readOut(figure, at) {
  const output = figure.querySelector("[data-readout]");
  const row = at === null || at === undefined ? null : rowsOf(figure)[at];
  output.textContent = row ? `${row.querySelector("time").textContent} · ${cellOf(row, figure).textContent}` : "";
}

async function draw(figure) {
  const place = figure.querySelector(".plot-live");
  const { default: UPlot } = await import("uplot");
  plots.get(figure)?.destroy();
  if (!figure.isConnected || !place) return;
  const data = readTable(figure);
  const { width, height } = place.getBoundingClientRect();
  if (data[0].length < 2 || width < 40) return;
  const stroke = token("--chart-1");
  const plot = new UPlot(
    {
      width,
      height,
      legend: { show: false },
      padding: [0, 0, 0, 0],
      cursor: { y: false, points: { size: 7, fill: stroke }, drag: { x: false, y: false } },
      scales: {
        x: { time: true, range: () => [Number(figure.dataset.start), Number(figure.dataset.end)] },
        y: { range: () => [0, Number(figure.dataset.top)] },
      },
      axes: [{ show: false }, { show: false }],
      series: [{}, { stroke, width: 1.5, fill: token("--chart-area"), points: { show: false } }],
      hooks: { setCursor: [(self) => readOut(figure, self.cursor.idx)] },
    },
    data,
    place,
  );
  plots.set(figure, plot);
  figure.classList.add("plotted");
}

function drawAll() {
  for (const [figure, plot] of plots) {
    if (!figure.isConnected) {
      plot.destroy();
      plots.delete(figure);
    }
  }
  document.querySelectorAll("figure[data-plot]").forEach(draw);
}

export function startCharts() {
  htmx.onLoad(() => drawAll());
  document.addEventListener("gshare:theme", drawAll);
  let pending = 0;
  addEventListener("resize", () => {
    clearTimeout(pending);
    pending = setTimeout(drawAll, 150);
  });
}
