// What htmx does not do: curves, the buttons that copy, Ctrl-Enter, and the task that follows from a label.
"use strict";

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Numbers on an axis: short, with a true minus.
const short = (value) => (Math.abs(value) >= 1e5 ? value.toExponential(0) : String(+value.toPrecision(4))).replace("-", "\u2212");

const two = (number) => String(number).padStart(2, "0");

function draw(place) {
  const data = JSON.parse(place.dataset.chart);
  if (!data.lines.length) return;
  place.plot?.destroy();
  const tables = data.lines.map((line) => [line.x, line.y]);
  const joined = tables.length > 1 && data.lines.some((line) => String(line.x) !== String(data.lines[0].x));
  let values = joined ? uPlot.join(tables) : [tables[0][0], ...tables.map((table) => table[1])];
  const series = data.lines.map((line, index) => ({
    label: line.label ?? data.y,
    stroke: style(`--s${(index % 8) + 1}`),
    width: 2,
    spanGaps: joined,
    points: { show: Boolean(data.points) && line.x.length <= 200, size: 6 },
    value: (_, value) => (value == null ? "\u2013" : short(value)),
  }));
  const axis = (label) => ({
    label, labelSize: 20, labelGap: 0, labelFont: "12px system-ui, sans-serif", font: "12px system-ui, sans-serif",
    stroke: style("--dim"), grid: { stroke: style("--line"), width: 1 }, ticks: { stroke: style("--line"), width: 1 },
    values: (_, all) => all.map(short),
  });
  const unit = data.unit ? { range: [-0.02, 1.02] } : {};
  const line = (plot) => {
    const [x0, x1, y0, y1] = data.diagonal ? [0, 1, 0, 1] : data.zero ? [plot.scales.x.min, plot.scales.x.max, 0, 0] : [];
    if (x0 === undefined) return;
    const at = (x, y) => [plot.valToPos(x, "x", true), plot.valToPos(y, "y", true)];
    plot.ctx.save();
    plot.ctx.strokeStyle = style("--dim");
    plot.ctx.setLineDash([5, 5]);
    plot.ctx.beginPath();
    plot.ctx.moveTo(...at(x0, y0));
    plot.ctx.lineTo(...at(x1, y1));
    plot.ctx.stroke();
    plot.ctx.restore();
  };
  const axes = [{ ...axis(data.x), size: 30 }, { ...axis(data.y), size: 54 }];
  if (data.time) Object.assign(axes[0], { values: undefined, label: undefined, size: 44, space: 130 });
  place.plot = new uPlot({
    width: place.clientWidth - (parseFloat(getComputedStyle(place).paddingLeft) || 0) * 2,
    height: place.clientHeight - 34,
    scales: { x: { time: Boolean(data.time), ...unit }, y: unit },
    // As the tables have it.
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    fmtDate: () => (date) => `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}`,
    series: [data.time ? {} : { label: data.x, value: (_, value) => (value == null ? "\u2013" : short(value)) }, ...series],
    axes,
    hooks: { drawAxes: [line] },
  }, values, place);
}

// On a phone the menu scrolls.
document.addEventListener("DOMContentLoaded", () => document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" }));

const drawAll = (root) => root.querySelectorAll?.("[data-chart]").forEach((place) => draw(place));
document.addEventListener("DOMContentLoaded", () => drawAll(document));
document.addEventListener("htmx:load", (event) => drawAll(event.detail.elt));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawAll(document));
// What is folded has no size to be drawn in.
document.addEventListener("toggle", (event) => drawAll(event.target), true);
let resized;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(() => drawAll(document), 150); });

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const text = button.parentElement.querySelector("code").textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    const range = document.createRange();
    range.selectNodeContents(button.parentElement.querySelector("code"));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.matches(".cell textarea")) {
    event.preventDefault();
    event.target.closest(".cell").querySelector(".run").click();
  }
});

document.addEventListener("change", (event) => {
  const task = document.getElementById("task");
  if (!task || event.target.name !== "label" || !event.target.dataset.task || task.value === event.target.dataset.task) return;
  task.value = event.target.dataset.task;
  htmx.trigger(task, "change");
});

// A slider and the field beside it, which is what the form sends.
document.addEventListener("input", (event) => {
  const slides = event.target.dataset?.slides;
  if (slides) {
    const field = event.target.form.elements[slides];
    field.value = event.target.value;
    field.dispatchEvent(new Event("change", { bubbles: true }));
    return;
  }
  const slider = event.target.closest("label")?.querySelector("[data-slides]");
  if (slider && event.target.value) slider.value = event.target.value;
});
