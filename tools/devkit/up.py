"""`make up` and `make down`: a server that stays, with the extension and the flights in it."""

import json
import os
import signal
import time

from devkit import Problem
from devkit.extension import build_into
from devkit.flights import DATABASE, fill
from devkit.places import runtime
from devkit.postgres import NEWEST, tree
from devkit.say import note, step
from devkit.server import Server, is_alive, remove_home


def home():
    """The folder of the server that stays."""
    return runtime() / "up"


def running():
    """The server that `make up` left running, or None."""
    try:
        state = json.loads((home() / "state.json").read_text())
    except (OSError, ValueError):
        return None
    if not is_alive(home() / "data" / "postmaster.pid"):
        return None
    server = Server(tree(state["major"]), home=home())
    server.port = state["port"]
    server.password = (home() / "password").read_text().strip()
    return server


def up():
    """Starts the server unless it runs, fills it with the flights, and says how to connect."""
    server = running()
    if server is None:
        chosen = tree(NEWEST)
        build_into(chosen)
        step(f"starting PostgreSQL {chosen.major} in {home()}")
        remove_home(home(), keep_data=True)
        server = Server(chosen, {"fsync": "on"}, home=home())
        server.create()
        server.start(detached=True)
        (home() / "state.json").write_text(json.dumps({"major": chosen.major, "port": server.port}))
    fill(server)
    step("the server is up; connect with one of")
    note(" ".join(server.psql_command(DATABASE)))
    note(server.url(DATABASE))
    note(f"(port {server.port}, socket in {server.socket_folder}, log in {server.log})")
    note("`make console` shows its models at http://127.0.0.1:8484/; `make down` stops the server")


def down():
    """Stops the server that `make up` started; its data stay for the next `make up`."""
    server = running()
    if server is None:
        step("no server is up")
        return
    step("stopping the server")
    pid_file = server.data / "postmaster.pid"
    os.kill(int(pid_file.read_text().split()[0]), signal.SIGINT)
    deadline = time.monotonic() + 60
    while is_alive(pid_file):
        if time.monotonic() > deadline:
            raise Problem(f"the server did not stop in a minute; its log is {server.log}")
        time.sleep(0.05)
    remove_home(home(), keep_data=True)
    note(f"its data stay in {server.data} for the next `make up`; `make clean` removes them")
