"""Draws docs/system.svg, the picture of the system: `python docs/system.py > docs/system.svg`."""

from xml.sax.saxutils import escape

WIDTH, HEIGHT = 940, 430
INK, SOFT, PAPER = "#1f2933", "#52606d", "#ffffff"
CLIENT, POOLER, SERVER, MODEL = "#e3f2fd", "#e8f5e9", "#fff3e0", "#ffe0b2"


def text(x, y, words, size=14, weight="normal", color=INK, anchor="middle"):
    """A line of words."""
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{color}" '
        f'text-anchor="{anchor}">{escape(words)}</text>'
    )


def box(x, y, width, height, color, title, *lines):
    """A box with a title and smaller lines below."""
    middle = x + width / 2
    parts = [
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{color}" stroke="{INK}"/>',
        text(middle, y + 24, title, weight="bold"),
    ]
    return parts + [text(middle, y + 44 + 17 * n, line, 12, color=SOFT) for n, line in enumerate(lines)]


def arrow(points, words="", at=None, dashed=False):
    """A line through points with a head at its end, and words at a place."""
    path = " ".join(f"{x},{y}" for x, y in points)
    dash = ' stroke-dasharray="6 4"' if dashed else ""
    parts = [f'<polyline points="{path}" fill="none" stroke="{INK}" stroke-width="1.5"{dash} marker-end="url(#head)"/>']
    return parts + ([text(*at, words, 12, color=SOFT)] if words else [])


def server(y, name, *lines):
    """A PostgreSQL server with its model."""
    return [
        *box(610, y, 310, 96, SERVER, name, *lines),
        f'<rect x="626" y="{y + 58}" width="278" height="26" rx="5" fill="{MODEL}" stroke="{SOFT}"/>',
        text(765, y + 75, "pgml: one compiled model for all connections", 11),
    ]


def picture():
    """The whole picture."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" role="img">',
        "<title>Clients, poolers, and PostgreSQL servers with the extension</title>",
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M0,0 L10,5 L0,10 z" fill="{INK}"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="12" fill="{PAPER}"/>',
        text(110, 32, "your programs", 13, color=SOFT),
        *box(20, 48, 180, 100, CLIENT, "howdah", "driver for Python:", "asyncpg's API, DB-API,", "SQLAlchemy, columns"),
        *box(20, 178, 180, 70, CLIENT, "any client", "psql, JDBC, psycopg ..."),
        *box(20, 278, 180, 70, CLIENT, "notebooks, jobs", "pgml.train, pgml.deploy"),
        text(380, 32, "one or several", 13, color=SOFT),
        *box(
            280,
            118,
            200,
            150,
            POOLER,
            "howdah-pooler",
            "thousands of clients over",
            "few server connections",
            "pipelines reads of many",
            "splits reads and writes",
            "reads see one's own commits",
        ),
        text(765, 32, "your PostgreSQL, 13 to 18", 13, color=SOFT),
        *server(48, "primary", "tables, models and deployments"),
        *server(172, "replica", "the same, by streaming replication"),
        *server(286, "replica", "the same, by streaming replication"),
        *arrow([(200, 98), (280, 170)]),
        *arrow([(200, 213), (280, 193)]),
        *arrow([(200, 313), (280, 225)]),
        *arrow([(480, 150), (610, 96)], "writes, training", (534, 100)),
        *arrow([(480, 193), (610, 220)], "reads, predictions", (548, 186)),
        *arrow([(480, 235), (610, 334)]),
        *arrow([(700, 144), (700, 172)], dashed=True),
        text(716, 163, "a deployment is a commit", 12, color=SOFT, anchor="start"),
        text(
            470,
            412,
            "A prediction is part of the query: SELECT pgml.predict('flights', f) FROM flights f",
            13,
            color=SOFT,
        ),
        "</svg>",
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    print(picture())
