"""Draws the plots of a report as SVG.

Told apart without colours too: every line has its own marker and dashes, every colour of bars its own hatching. Heights
are medians, the whiskers go from the least to the greatest round. A file is the same bytes whenever its figures are.
"""

import textwrap

import matplotlib

matplotlib.use("svg")

from matplotlib import pyplot
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

# Okabe and Ito's colours (2008).
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A8A8A", "#B3A300", "#7B3294"]
MARKERS = "osD^vP*XhX"
DASHES = ["-", "--", "-.", ":", (0, (6, 1)), (0, (3, 1, 1, 1, 1, 1)), "-", "--", "-.", ":"]
HATCHES = ["", "///", "\\\\\\", "---", "xxx", "|||", "+++", "//", "\\\\", "--"]
# In panels what is ours stands out.
OURS, OTHERS = "#0072B2", "#C4C4C4"
WHISKERS = {"elinewidth": 1, "capsize": 2.5, "ecolor": "#333333"}
# Behind a number, so that no line runs through it.
BEHIND = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
WIDTH, HEIGHT = 7.6, 4.2
STYLE = {
    "svg.hashsalt": "howdah",
    # Letters stay letters, which makes files small; matplotlib's own font, which they are laid out for, is a wide one.
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
    "hatch.linewidth": 0.6,
    "legend.frameon": False,
}


def draw(plot, path):
    """Draws one plot (see `Report.plot`) into the file at `path`."""
    with pyplot.rc_context(STYLE):
        figure = {"line": lines, "bar": bars, "stack": stack, "panels": panels}[plot["kind"]](plot)
        figure.savefig(path, format="svg", facecolor="white", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)


def single(plot, height=HEIGHT):
    """A figure of one pair of axes with title and labels."""
    figure, axes = pyplot.subplots(figsize=(WIDTH, height), layout="constrained")
    axes.set_title("\n".join(textwrap.wrap(plot["title"], 70)))
    axes.set_xlabel(plot["x_label"])
    axes.set_ylabel(plot["y_label"])
    return figure, axes


def lines(plot):
    """Lines over numbers."""
    figure, axes = single(plot)
    places = sorted({x for points in plot["series"].values() for x, *_ in points})
    many = len(places) > 20
    for number, (label, points) in enumerate(plot["series"].items()):
        points = sorted(points)
        look = {"color": COLOURS[number % len(COLOURS)], "linestyle": DASHES[number % len(DASHES)], "label": label}
        if not many:
            look |= {"marker": MARKERS[number % len(MARKERS)], "markersize": 5} | WHISKERS
            look |= {"yerr": whiskers(points), "ecolor": look["color"]}
        plain = axes.plot if many else axes.errorbar
        plain([x for x, *_ in points], [y for _, y, *_ in points], linewidth=1.8, **look)
    if plot["log_x"]:
        axes.set_xscale("log")
    if plot["log_x"] or len(places) <= 6:
        axes.set_xticks(places, [number_text(place) for place in places])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.tick_params(axis="x", which="minor", length=0)
    heights(axes, plot)
    for number, (x, words) in enumerate(plot.get("marks", []), 1):
        axes.axvline(x, color="#666666", linewidth=0.9, linestyle=(0, (2, 2)))
        axes.annotate(str(number), (x, 1), xycoords=("data", "axes fraction"), ha="center", va="bottom", fontsize=8)
        axes.plot([], [], " ", label=f"{number}  {words}")
    legend(axes, plot)
    return figure


def bars(plot):
    """Bars beside each other over words, with their heights written above them."""
    figure, axes = single(plot)
    places = words_of(plot)
    width = 0.8 / len(plot["series"])
    for number, (label, points) in enumerate(plot["series"].items()):
        xs = [places.index(x) - 0.4 + width * (number + 0.5) for x, *_ in points]
        axes.bar(xs, [y for _, y, *_ in points], width * 0.92, label=label, **filling(number))
        if any(len(one) > 2 for one in points):
            axes.errorbar(xs, [y for _, y, *_ in points], whiskers(points), fmt="none", **WHISKERS)
        if len(places) * len(plot["series"]) <= 20:
            tops = [one[3] if len(one) > 2 else one[1] for one in points]
            for x, top, (_, y, *_) in zip(xs, tops, points, strict=True):
                axes.annotate(number_text(y), (x, top), (0, 3), textcoords="offset points", ha="center", fontsize=8)
    axes.set_xticks(range(len(places)), places)
    if sum(len(str(place)) for place in places) > 70:
        axes.set_xticks(range(len(places)), places, rotation=30, ha="right", rotation_mode="anchor")
    axes.grid(visible=False, axis="x")
    if plot.get("even"):
        axes.axhline(1, color="black", linewidth=0.9)
    heights(axes, plot)
    legend(axes, plot)
    return figure


def stack(plot):
    """Bars that lie, one for each word, the series behind each other: parts of a whole, which is written at the end."""
    places = words_of(plot)
    figure, axes = single(plot, 1.6 + 0.36 * len(places))
    so_far = dict.fromkeys(places, 0)
    least, most = dict.fromkeys(places, 0), dict.fromkeys(places, 0)
    for number, (label, points) in enumerate(plot["series"].items()):
        starts = [so_far[x] for x, *_ in points]
        ys = [places.index(x) for x, *_ in points]
        axes.barh(ys, [y for _, y, *_ in points], 0.7, starts, label=label, **filling(number))
        for x, y, *spread in points:
            so_far[x] += y
            least[x] += spread[0] if spread else y
            most[x] += spread[1] if spread else y
    ends = list(so_far.values())
    reach = [[so_far[x] - least[x] for x in places], [most[x] - so_far[x] for x in places]]
    axes.errorbar(ends, range(len(places)), xerr=reach, fmt="none", **WHISKERS)
    for number, x in enumerate(places):
        axes.annotate(
            number_text(so_far[x]), (most[x], number), (4, 0), textcoords="offset points", va="center", fontsize=9
        )
    lying(axes, places, most.values())
    # What the numbers are stands under them.
    axes.set_xlabel(plot["y_label"])
    axes.set_ylabel(plot["x_label"])
    legend(axes, plot)
    return figure


def panels(plot):
    """A panel for each series, its bars lying over the same words; each panel has its own scale from nothing."""
    places = words_of(plot)
    count = len(plot["series"])
    columns = 3 if count > 4 else min(count, 2)
    rows = -(-count // columns)
    figure, grid = pyplot.subplots(
        rows, columns, figsize=(WIDTH + 1, rows * (0.9 + 0.24 * len(places))), layout="constrained", squeeze=False
    )
    figure.suptitle("\n".join(textwrap.wrap(plot["title"], 80)), x=0.01, ha="left", fontweight="bold", fontsize=11)
    for number, axes in enumerate(grid.flat):
        if number >= count:
            axes.set_visible(False)
            continue
        label, points = list(plot["series"].items())[number]
        ys = [places.index(x) for x, *_ in points]
        for y, one in zip(ys, points, strict=True):
            ours = any(word in one[0].lower() for word in ("howdah", "pgml"))
            axes.barh(y, one[1], 0.7, color=OURS if ours else OTHERS, edgecolor="#333333", linewidth=0.5)
        if any(len(one) > 2 for one in points):
            axes.errorbar([one[1] for one in points], ys, xerr=whiskers(points), fmt="none", **WHISKERS)
        for y, one in zip(ys, points, strict=True):
            end = one[3] if len(one) > 2 else one[1]
            axes.annotate(
                number_text(one[1]), (end, y), (4, 0), textcoords="offset points", va="center", fontsize=8, bbox=BEHIND
            )
        if plot.get("even"):
            axes.axvline(1, color="black", linewidth=0.9)
        lying(axes, places if number % columns == 0 else [""] * len(places), [max(one[1:]) for one in points])
        axes.xaxis.set_major_locator(MaxNLocator(3))
        axes.set_title(label, fontsize=10, pad=6)
        axes.set_xlabel(plot["y_label"], fontsize=9)
        axes.tick_params(labelsize=9)
    return figure


def lying(axes, places, ends):
    """The scales of bars that lie, the first word on top, with room for a number behind the longest."""
    axes.set_yticks(range(len(places)), places)
    # All panels alike, also where one has no bar for some of the words.
    axes.set_ylim(len(places) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, max(ends) * 1.22 or 1)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))


def words_of(plot):
    """The words that bars stand over, in the order in which they come."""
    return list(dict.fromkeys(x for points in plot["series"].values() for x, *_ in points))


def filling(number):
    """The look of one colour of bars."""
    look = {"color": COLOURS[number % len(COLOURS)], "hatch": HATCHES[number % len(HATCHES)]}
    return look | {"edgecolor": "white", "linewidth": 0}


def whiskers(points):
    """How far the rounds reach below and above each point; nothing where there was but one."""
    spreads = [(y - least, greatest - y) for _, y, least, greatest in (padded(one) for one in points)]
    return list(zip(*spreads, strict=True))


def padded(one):
    """A point with its least and greatest."""
    return one if len(one) > 2 else [*one, one[1], one[1]]


def heights(axes, plot):
    """The scale of the heights."""
    if plot["log_y"]:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number_text(value)))


def legend(axes, plot):
    """What each look means, below the axes, where it takes no width from them."""
    if len(plot["series"]) + len(plot.get("marks", [])) > 1:
        marked = bool(plot.get("marks"))
        axes.figure.legend(*axes.get_legend_handles_labels(), loc="outside lower left", ncols=2 if marked else 3)


def number_text(value):
    """A number as people write it: 1,200, 0.35, 2.1M."""
    if abs(value) >= 1e6:
        return f"{value / 1e6:.3g}M"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"
