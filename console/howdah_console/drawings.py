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
        + (
            f'<rect x="{left:.2f}%" width="{max(right - left, 0.4):.2f}%" y="2" height="12" rx="1"/>'
            if high != low
            else ""
        )
        + "</svg>"
    )


def parallel(rows):
    """The combinations of a search as lines over an axis for each hyperparameter and one for the score, or nothing."""
    names = list(rows[0]["params"]) if rows else []
    drawn = [row for row in rows if row["score"] is not None]
    if not 1 <= len(names) <= 8 or len(drawn) < 3:
        return ""
    axes = [Axis(name, [row["params"].get(name) for row in drawn]) for name in names]
    axes.append(Axis("mean score", [row["score"] for row in drawn]))
    step = 640 / (len(axes) - 1)
    parts = []
    # The best last, above the others.
    for place, row in reversed(list(enumerate(drawn))):
        values = [*(row["params"].get(name) for name in names), row["score"]]
        heights = [axis.height(value) for axis, value in zip(axes, values, strict=True)]
        points = " ".join(f"{60 + step * at:.1f},{height:.1f}" for at, height in enumerate(heights))
        parts.append(f'<polyline class="{"best" if place == 0 else "one"}" points="{points}"/>')
    for at, axis in enumerate(axes):
        x = 60 + step * at
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="36" y2="190"/>')
        parts.append(f'<text class="name" x="{x:.1f}" y="18">{escape(axis.name)}</text>')
        parts += [f'<text x="{x:.1f}" y="{y:.1f}">{escape(label)}</text>' for y, label in axis.ends()]
    return Markup(
        '<svg class="parallel" viewBox="0 0 760 216" width="760" height="216" role="img" '
        f'aria-label="Combinations of the search; the best is drawn thicker">{"".join(parts)}</svg>'
    )


class Axis:
    """An axis of `parallel`: numbers by size, by their logarithm if they spread over decades, all else in order."""

    def __init__(self, name, values):
        self.name = name
        numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
        self.order = None
        if len(numbers) < len(values):
            self.order = sorted({str(value) for value in values})
            self.least, self.most, self.log = 0, max(len(self.order) - 1, 1), False
        else:
            self.least, self.most = min(numbers), max(numbers)
            self.log = self.least > 0 and self.most / self.least >= 30

    def height(self, value):
        """Where a value lies, from the top of the picture."""
        if self.order is not None:
            value = self.order.index(str(value))
        least, most = self.least, self.most
        if self.log:
            value, least, most = math.log(value), math.log(least), math.log(most)
        return 113 if least == most else 190 - 154 * (value - least) / (most - least)

    def ends(self):
        """The labels at the two ends, with their places."""
        if self.order is not None:
            return [(208, self.order[0][:14]), *([(32, self.order[-1][:14])] if len(self.order) > 1 else [])]
        if self.least == self.most:
            return [(208, f"{self.least:.4g}")]
        return [(208, f"{self.least:.4g}"), (32, f"{self.most:.4g}")]


def bins_of(values, bins=BINS):
    """The counts of equal bins from the least to the greatest of some numbers."""
    values = [value for value in values if value is not None and math.isfinite(value)]
    if not values:
        return []
    least, most = min(values), max(values)
    if least == most:
        return [len(values)]
    if all(float(value).is_integer() for value in values):
        # So many whole numbers in each, or bins with one more would stand out.
        width = math.ceil((most - least + 1) / bins)
        counts = [0] * math.ceil((most - least + 1) / width)
        for value in values:
            counts[int((value - least) // width)] += 1
        return counts
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


GLOBALS = {"histogram": histogram, "bar": bar, "waterfall": waterfall, "parallel": parallel}


class Box:
    """A box of `system`: a title, lines of text, a kind for its colours, how many connections lead to it."""

    def __init__(self, title, lines, kind, weight, broken=False):
        self.title = title
        self.lines = lines
        self.kind = kind
        self.weight = weight
        self.broken = broken

    def drawn(self, x, y, wide, high):
        """The box with its corner here."""
        letters = int((wide - 24) / 9.3)
        texts = [("name", shortened(self.title, letters)), *(("", shortened(line, letters + 5)) for line in self.lines)]
        lines = "".join(
            f'<text class="{kind}" x="{x + 12}" y="{y + 21 + 18 * place}">{escape(text)}</text>'
            for place, (kind, text) in enumerate(texts)
        )
        return (
            f'<g class="box {self.kind}"><rect x="{x}" y="{y}" width="{wide}" height="{high}" rx="8"/>'
            f'<rect class="edge" x="{x}" y="{y + 8}" width="4" height="{high - 16}"/>{lines}</g>'
        )


def shortened(text, letters):
    """A text of at most so many letters, its middle left out."""
    half = (letters - 1) // 2
    return text if len(text) <= letters else text[: letters - 1 - half] + "…" + text[-half:]


def system(name, facts, applications, servers):
    """Who talks to whom now: clients by application, the pooler, servers. Wide and for a phone; CSS shows one."""
    left = [
        Box(
            title,
            [
                f"{group['all']:,} client{'s' * (group['all'] != 1)}, {group['active']:,} active",
                *([f"{group['waiting']:,} waiting"] if group["waiting"] else []),
                *([f"{group['pinned']:,} pinned"] if group["pinned"] else []),
            ],
            "waits" if group["waiting"] else "",
            group["all"],
        )
        for title, group in few(applications, 6)
    ]
    right = [server_box(server) for server in servers[:8]]
    if len(servers) > 8:
        right.append(Box(f"{len(servers) - 8} more servers", ["see the table"], "", 0))
    middle = Box(name, facts, "middle", 0)
    said = "; ".join(", ".join([box.title, *box.lines]) for box in [*left, middle, *right])
    return Markup(wide_system(left, middle, right, said) + tall_system(left, middle, right, said))


def few(applications, most):
    """The first applications, and the others as one."""
    first, others = applications[:most], applications[most:]
    if not others:
        return first
    sums = {count: sum(group[count] for _, group in others) for count in ("all", "active", "waiting", "pinned")}
    return [*first, (f"{len(others):,} other applications", sums)]


def server_box(server):
    """A server's box."""
    used = f"{server['active']:,} active, {server['idle']:,} idle"
    lines, kind = [f"{server['role']} · {server['database']}", used], server["role"]
    if server.get("ban"):
        lines.append(f"banned for {server['ban']['ban_remaining_seconds']} s: {server['ban']['reason']}")
    elif server.get("error"):
        lines.append("does not answer")
    elif server.get("lag_ms") is not None and server["role"] != "primary":
        lines.append(f"behind by {server['lag_ms'] / 1000:.1f} s")
    broken = bool(server.get("ban") or server.get("error"))
    if broken or kind not in ("primary", "replica", "server"):
        kind, broken = "broken", True
    return Box(server["place"], lines, kind, server["active"] + server["idle"], broken)


def line_between(path, box):
    """The line of a box's connections, thicker with more of them."""
    thick = 1.5 + 1.5 * math.log10(1 + box.weight)
    kind = "broken" if box.broken else "idle" if not box.weight else ""
    return f'<path class="line {kind}" stroke-width="{thick:.1f}" d="{path}"/>'


def drawing(kind, wide, high, said, parts):
    """A picture of a system."""
    return (
        f'<svg class="system {kind}" viewBox="-2 0 {wide + 4} {high}" role="img" aria-label="{escape(said)}">'
        f"{''.join(parts)}</svg>"
    )


def heights(boxes):
    """How high each box is."""
    return [30 + 18 * len(box.lines) for box in boxes]


def wide_system(left, middle, right, said):
    """Clients on the left, servers on the right."""
    sides, gap = [(left, 0), (right, 620)], 14
    highs = [sum(heights(boxes)) + gap * (len(boxes) - 1) if boxes else 0 for boxes, _ in sides]
    (own,) = heights([middle])
    high = max(*highs, own) + 4
    lines, boxes, centre = [], [], high / 2
    for (side, x), whole in zip(sides, highs, strict=True):
        y = (high - whole) / 2
        for box, own_high in zip(side, heights(side), strict=True):
            at = y + own_high / 2
            ends = (280, 340) if x == 0 else (560, 620)
            near, far = (at, centre) if x == 0 else (centre, at)
            bend = (ends[0] + ends[1]) / 2
            path = f"M{ends[0]} {near:.0f} C{bend:.0f} {near:.0f} {bend:.0f} {far:.0f} {ends[1]} {far:.0f}"
            lines.append(line_between(path, box))
            boxes.append(box.drawn(x, round(y), 280, own_high))
            y += own_high + gap
    boxes.append(middle.drawn(340, round(centre - own / 2), 220, own))
    return drawing("across", 900, round(high), said, lines + boxes)


def tall_system(left, middle, right, said):
    """Clients above, servers below, joined by a line at the side."""
    lines, boxes, y = [], [], 2
    places = []
    for box, own_high in zip(left, heights(left), strict=True):
        boxes.append(box.drawn(24, y, 316, own_high))
        places.append((box, y + own_high / 2))
        y += own_high + 10
    (own,) = heights([middle])
    at = y + own / 2
    boxes.append(middle.drawn(24, y, 316, own))
    y += own + 10
    for box, own_high in zip(right, heights(right), strict=True):
        boxes.append(box.drawn(24, y, 316, own_high))
        places.append((box, y + own_high / 2))
        y += own_high + 10
    lines = [line_between(f"M24 {place:.0f} H8 V{at:.0f} H24", box) for box, place in places]
    return drawing("down", 342, round(y), said, lines + boxes)


GLOBALS["system"] = system
