"""Pictures: small ones as SVG in the page, curves as data for uPlot."""

import json
import math

from markupsafe import Markup, escape

BINS = 24
# What a curve needs at most: more points than a screen has.
POINTS = 400


def histogram(counts, label):
    """Counts of equal bins as an SVG."""
    top = max(counts, default=0) or 1
    wide = 120 / max(len(counts), 1)
    bars = "".join(
        f'<rect x="{place * wide:.2f}" y="{30 - 28 * one / top:.2f}" '
        f'width="{max(wide - 1, 0.5):.2f}" height="{28 * one / top:.2f}"/>'
        for place, one in enumerate(counts)
    )
    return Markup(
        f'<svg class="histogram" viewBox="0 0 120 30" width="120" height="30" role="img" aria-label="{escape(label)}">'
        f'<line x1="0" x2="120" y1="29.5" y2="29.5"/>{bars}</svg>'
    )


def bar(share, kind=""):
    """A horizontal bar of a share from 0 to 1."""
    width = max(0.0, min(1.0, share or 0)) * 100
    return Markup(
        f'<svg class="bar {escape(kind)}" width="100%" height="10" aria-hidden="true">'
        f'<rect class="track" width="100%" height="10" rx="2"/>'
        f'<rect class="fill" width="{width:.2f}%" height="10" rx="2"/></svg>'
    )


def waterfall(steps, low, high, base):
    """One step of a waterfall from `low` to `high` on the scale of all `steps`; `base` is where they begin."""
    lows = [base, *(min(step["from"], step["to"]) for step in steps)]
    highs = [base, *(max(step["from"], step["to"]) for step in steps)]
    least, most = min(lows), max(highs)
    span = (most - least) or 1

    # Room at both ends, so that bars do not touch the edge.
    def scale(value):
        return 2 + 96 * (value - least) / span

    left, right = sorted((scale(low), scale(high)))
    kind = "up" if high >= low else "down"
    return Markup(
        f'<svg class="waterfall {kind}" width="100%" height="16" aria-hidden="true">'
        f'<line x1="{scale(base):.2f}%" x2="{scale(base):.2f}%" y1="0" y2="16"/>'
        f'<rect x="{left:.2f}%" width="{max(right - left, 0.4):.2f}%" y="2" height="12" rx="1"/></svg>'
    )


def bins_of(values, bins=BINS):
    """The counts of equal bins from the least to the greatest of some numbers."""
    values = [value for value in values if value is not None and math.isfinite(value)]
    if not values:
        return []
    least, most = min(values), max(values)
    if least == most:
        return [len(values)]
    counts = [0] * min(bins, max(2, len(set(values))))
    for value in values:
        counts[min(len(counts) - 1, int((value - least) / (most - least) * len(counts)))] += 1
    return counts


def thin(points):
    """At most `POINTS` of some points, the first and the last among them."""
    if len(points) <= POINTS:
        return points
    step = (len(points) - 1) / (POINTS - 1)
    return [points[round(place * step)] for place in range(POINTS)]


def ascending(points):
    """Points by x, each x greater than the one before: curves that rise straight up have many of one x."""
    result, last = [], -math.inf
    for x, y in points:
        x = max(x, math.nextafter(last, math.inf)) if math.isfinite(last) else x
        x = x if x > last else last + 1e-9
        result.append((x, y))
        last = x
    return result


def chart(series, x, y, **more):
    """What app.js draws: `series` are {label: points}, `x` and `y` the names of the axes."""
    lines = []
    for label, points in series.items():
        lines.append({"label": label, "x": [point[0] for point in points], "y": [point[1] for point in points]})
    # An attribute's value: the template escapes it.
    return json.dumps({"lines": lines, "x": x, "y": y, **more})


GLOBALS = {"histogram": histogram, "bar": bar, "waterfall": waterfall}
