"""Draws the plots of a report as SVG.

Colours are told apart by those who see few of them, every line has its own marker, bars start at
nothing, and a file is the same bytes whenever its figures are the same.
"""

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot
from matplotlib.ticker import FuncFormatter, NullFormatter

# Okabe and Ito's colours (2008).
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A8A8A", "#B3A300", "#7B3294"]
MARKERS = "osD^vP*XhX"
STYLE = {
    "svg.hashsalt": "howdah",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#666666",
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlepad": 14,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E4E4E4",
    "legend.frameon": False,
}


def draw(plot, path):
    """Draws one plot (see `Report.plot`) into the file at `path`."""
    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(figsize=(7.6, 4.2), layout="constrained")
        (bars if plot["kind"] == "bar" else lines)(axes, plot)
        axes.set_title(plot["title"])
        axes.set_xlabel(plot["x_label"])
        axes.set_ylabel(plot["y_label"])
        figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)


def lines(axes, plot):
    """Lines over numbers."""
    places = sorted({x for points in plot["series"].values() for x, _ in points})
    for number, (label, points) in enumerate(plot["series"].items()):
        xs, ys = zip(*sorted(points), strict=True)
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
        axes.plot(xs, ys, color=colour, marker=marker, markersize=5, linewidth=1.8, label=label)
    if plot["log_x"]:
        axes.set_xscale("log")
    if plot["log_x"] or len(places) <= 6:
        axes.set_xticks(places, [number_text(place) for place in places])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.tick_params(axis="x", which="minor", length=0)
    heights(axes, plot)
    if len(plot["series"]) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def bars(axes, plot):
    """Bars beside each other over words, with their heights written above them."""
    places = list(dict.fromkeys(x for points in plot["series"].values() for x, _ in points))
    width = 0.8 / len(plot["series"])
    for number, (label, points) in enumerate(plot["series"].items()):
        xs = [places.index(x) - 0.4 + width * (number + 0.5) for x, _ in points]
        drawn = axes.bar(xs, [y for _, y in points], width * 0.92, color=COLOURS[number % len(COLOURS)], label=label)
        axes.bar_label(drawn, [number_text(y) for _, y in points], padding=2, fontsize=8)
    axes.set_xticks(range(len(places)), places)
    if sum(len(str(place)) for place in places) > 70:
        axes.tick_params(axis="x", labelrotation=20)
    axes.grid(visible=False, axis="x")
    heights(axes, plot)
    if len(plot["series"]) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def heights(axes, plot):
    """The scale of the heights."""
    if plot["log_y"]:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))


def number_text(value):
    """A number as people write it: 1,200, 0.35, 2.1M."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g}M"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
