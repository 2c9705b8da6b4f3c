"""PostgreSQL 18 with the extension pgml in a pip install.

    import howdah_server

    with howdah_server.start("data") as server:
        print(server.dsn)

On the command line `howdah-server` does the same; `python -m howdah_server --help` lists its commands.
"""

import importlib.metadata

from howdah_server.problem import Problem
from howdah_server.server import Server, start

__all__ = ["Problem", "Server", "__version__", "start"]
__version__ = importlib.metadata.version("howdah-server")
