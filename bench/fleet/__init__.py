"""A fleet under load: a primary, five replicas, two poolers and HAProxy, asked by pgbench through HAProxy.

The model has 100 trees and was trained on the primary; a query predicts flights found by their primary key. Every
PostgreSQL server is held to the same share of the CPU by a control group, so that replicas add capacity as they would
on machines of their own; poolers, HAProxy and pgbench run outside. The configurations are those of `make fleet`
(tools/devkit/fleet.py), with clients let in without a password, so that 2000 of them come in seconds. The drill has a
fleet of its own, under Patroni: see drill.py.
"""

import sys

from bench.fleet.cells import FIRST_SHARE, measure_cells
from bench.fleet.costs import measure_costs
from bench.fleet.drill import measure_drill
from bench.report import Report
from devkit.driver import build_driver
from devkit.extension import build_into
from devkit.fleet import Fleet, allow_descriptors
from devkit.pooler import build_pooler
from devkit.postgres import NEWEST, tree
from devkit.programs import require, versions
from devkit.shares import why_not

PROGRAMS = ("haproxy", "patroni", "etcd")


def measure(quick):
    """The report."""
    # Not an hour later, when the drill wants them.
    require(PROGRAMS)
    build_into(tree(NEWEST))
    build_pooler()
    build_driver(sys.executable)
    allow_descriptors()
    reason = why_not()
    with Fleet(5, 2, share=None if reason else FIRST_SHARE, pooler={"auth_type": "any"}) as fleet:
        report = Report("fleet", quick, fleet.primary)
        report.content["versions"] = versions(PROGRAMS)
        if reason:
            report.leave_out("linearity in replicas, with servers held to a share of the CPU", reason)
        measure_cells(report, fleet, quick)
        measure_costs(report, fleet, quick)
    measure_drill(report, quick)
    return report
