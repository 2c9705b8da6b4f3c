"""The comparison once more, over a network: what `comparison` measures, with the wire between the parts."""

import contextlib
import dataclasses
import socket
import time

from bench.microservice import sides
from bench.microservice.ground import Redis
from bench.microservice.network import ADDRESSES, Network
from bench.microservice.rounds import AWAY, check_answers, compare
from bench.report import Spread

# The most flights that are behind the sides here: over a network it matters less how many they are.
ROWS = 200_000


def measure(report, ground, chosen, clients_of, rounds, seconds, targets):
    """Adds the figures of all sides over a network, the server started anew where the store is."""
    with Network() as network:
        most = describe(report, network)
        places = {part: network.place(part) for part in ADDRESSES}
        server = ground.server
        server.settings["listen_addresses"] = ADDRESSES["store"]
        with places["store"].inside():
            server.restart()
        ground = dataclasses.replace(ground, rows=min(ground.rows, ROWS), **places)
        report.content["network_rows"] = ground.rows
        carried = {}
        with Redis(ground) as redis, contextlib.ExitStack() as running:
            # Beside the server it spares a way that a service has to go; so once more where the services are.
            away = sides.howdah(ground, AWAY, ground.service)
            compared = [*sides.services(ground, redis, chosen), *sides.ways(ground), away]
            for side in compared:
                running.enter_context(side)
                check_answers(side)
            around = lambda name: network.watched(carried.setdefault(name, []))  # noqa: E731
            compare(report, compared, clients_of, rounds, seconds, targets, "network: ", around)
        for name, watched in carried.items():
            tell(report, f"network: relay under {name}", watched, most)


def tell(report, case, watched, most):
    """Adds what the relay carried under one side, its busiest time, and beside it the most that it can carry."""
    busiest = max(watched, key=lambda one: one["rate"])
    report.add(f"{case}, at most", Spread.of([busiest["rate"]]), unit="packets/s")
    report.add(f"{case}: its CPU then", Spread.of([busiest["cpu"]]), unit="cores")
    report.add(f"{case}: packets late by, on average", Spread.of([one["late_us"] for one in watched]), unit="us")
    report.add(f"{case}: packets late or early by", Spread.of([one["off_us"] for one in watched]), unit="us")
    report.add(f"{case}: packets a second then / flooded", Spread.of([busiest["rate"] / most]))


def describe(report, network):
    """Adds the time there and back, and what the relay can carry at most, which it gives, in packets a second."""
    with network.place("client").inside():
        near = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        near.bind((ADDRESSES["client"], 0))
    with network.place("service").inside():
        far = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        far.bind((ADDRESSES["service"], 0))
    with near, far:
        trips = []
        for _ in range(500):
            start = time.perf_counter()
            near.sendto(b"there", far.getsockname())
            far.recvfrom(16)
            far.sendto(b"back", near.getsockname())
            near.recvfrom(16)
            trips.append((time.perf_counter() - start) * 1e6)
        report.add("network: there and back, nothing else running", Spread.of(trips), unit="us")
        watched = []
        with network.watched(watched):
            end = time.monotonic() + 2
            while time.monotonic() < end:
                for _ in range(100):
                    near.sendto(b"x" * 100, far.getsockname())
    report.add("network: relay, flooded", Spread.of([watched[0]["rate"]]), unit="packets/s")
    report.add("network: relay, flooded: its CPU", Spread.of([watched[0]["cpu"]]), unit="cores")
    return watched[0]["rate"]
