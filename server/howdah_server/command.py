"""The commands of `howdah-server`."""

import argparse
import os
import shlex
import signal
import sys
import urllib.parse

import howdah_server
from howdah_server import demo
from howdah_server.problem import Problem
from howdah_server.server import Server, environment

NOT_RUNNING = 3


def arguments(words):
    """The command line."""
    parser = argparse.ArgumentParser(prog="howdah-server", description="PostgreSQL 18 with machine learning in SQL.")
    parser.add_argument("--version", action="version", version=f"howdah-server {howdah_server.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    show = commands.add_parser("demo", help="train a model and predict with it, on a server that ends with the demo")
    show.add_argument("--rows", type=int, default=demo.ROWS, help=f"rows to train on ({demo.ROWS})")
    up = commands.add_parser("up", help="start the server of DIR, and create DIR if it is missing")
    run = commands.add_parser("run", help="run the server of DIR in the foreground, until Ctrl-C or SIGTERM")
    for command in (up, run):
        command.add_argument(
            "--port",
            type=int,
            help="listen on this port of localhost too, for this start (by default only on a socket in DIR)",
        )
    down = commands.add_parser("down", help="end the server of DIR; its data stay")
    status = commands.add_parser(
        "status", help=f"say whether the server of DIR runs (exit status {NOT_RUNNING}: it does not)"
    )
    psql = commands.add_parser("psql", help="open psql on the server of DIR")
    console = commands.add_parser("console", help="show the models of DIR in a browser, until Ctrl-C")
    for command in (up, run, down, status, psql, console):
        command.add_argument("dir", metavar="DIR", help="the folder that holds the server")
    psql.add_argument("options", nargs=argparse.REMAINDER, metavar="...", help="options of psql")
    console.add_argument(
        "options", nargs=argparse.REMAINDER, metavar="...", help="options of howdah-console, such as --actions"
    )
    return parser.parse_args(words)


def main(words=None):
    """Runs one command; a Problem is one line, and status 1."""
    chosen = arguments(words)
    # Ended so, a command stops the server that lives as long as it.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        return globals()[f"run_{chosen.command}"](chosen) or 0
    except Problem as problem:
        print(f"howdah-server: {problem}", file=sys.stderr)
        return 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"howdah-server: {where}{error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def run_demo(chosen):
    """`howdah-server demo`"""
    demo.run(chosen.rows)


def run_up(chosen):
    """`howdah-server up DIR`"""
    server = Server(chosen.dir)
    before = server.last_port()
    server.start(chosen.port)
    print("The server is up." if server.started else "The server is up already.")
    tell(server)
    if server.started and chosen.port is None and before is not None:
        print(f"It listens on its socket alone; the last start had --port {before}, which holds for one start.")
    folder = shlex.quote(chosen.dir)
    print(f"howdah-server psql {folder}, howdah-server down {folder}; the log is {server.log}")


def run_run(chosen):
    """`howdah-server run DIR`"""
    server = Server(chosen.dir)
    server.start(chosen.port)
    if not server.started:
        folder = shlex.quote(chosen.dir)
        raise Problem(f"the server of {server.folder} runs already: howdah-server down {folder} ends it")
    with server:
        print("The server is up, until Ctrl-C.")
        tell(server)
        sys.stdout.flush()
        server.wait()


def run_down(chosen):
    """`howdah-server down DIR`"""
    server = known(chosen.dir)
    stopped = server.stop()
    print(f"The server is down; its data stay in {server.folder}." if stopped else "No server runs there.")


def run_status(chosen):
    """`howdah-server status DIR`"""
    server = known(chosen.dir)
    pid = server.pid()
    if pid is None:
        print("The server is down.")
        return NOT_RUNNING
    print(f"The server is up, as process {pid}.")
    tell(server)
    return 0


def run_psql(chosen):
    """`howdah-server psql DIR`"""
    server = known(chosen.dir)
    if server.pid() is None:
        raise Problem(f"the server is down: howdah-server up {shlex.quote(chosen.dir)} starts it")
    command = server.psql_command(*chosen.options)
    os.execve(command[0], command, environment())


def run_console(chosen):
    """`howdah-server console DIR`"""
    server = known(chosen.dir)
    folder = shlex.quote(chosen.dir)
    if server.pid() is None:
        raise Problem(f"the server is down: howdah-server up --port 5433 {folder} starts it")
    if server.url is None:
        raise Problem(
            "the console logs in by TCP, where the server does not listen: "
            f"howdah-server down {folder} && howdah-server up --port 5433 {folder}"
        )
    try:
        from howdah_console.__main__ import main as run
    except ModuleNotFoundError as error:
        raise Problem(f"{error}: the console is a package of its own: pip install howdah-console") from error
    parts = urllib.parse.urlsplit(server.url)
    print(f"Log in as {parts.username}, with the password in {server.folder / 'password'}, or as any role with one.")
    sys.stdout.flush()
    run([f"postgresql://{parts.username}@{parts.hostname}:{parts.port}{parts.path}", *chosen.options])


def known(folder):
    """The server of a folder that has one."""
    server = Server(folder)
    if not server.exists():
        raise Problem(f"{server.folder} holds no server: howdah-server up {shlex.quote(folder)} makes one")
    return server


def tell(server):
    """Prints how to connect."""
    for url in filter(None, (server.dsn, server.url)):
        print(url)
