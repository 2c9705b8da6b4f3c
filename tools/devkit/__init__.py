"""Sets the project up, builds the extension, and runs PostgreSQL servers beside it.

Nothing here needs a package that Python does not bring: it is what fetches the packages. The commands are listed by
`python3 -m devkit --help` (with `tools/` on the path, as the Makefile calls it).
"""


class Problem(Exception):
    """Something the person at the keyboard can put right; its text says what and how, in a line or two."""
