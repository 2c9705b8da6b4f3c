"""`make demo`: a Problem is one clear line, and status 1."""

import sys

from demo.run import demo
from devkit import Problem, say
from devkit.server import end_on_signals


def main():
    """Runs the demo."""
    end_on_signals()
    try:
        demo()
    except Problem as problem:
        say.complain(problem)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
