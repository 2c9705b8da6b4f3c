"""Run the public compliance tests of PEP 249 (dbapi20.py, in the public domain) on howdah.dbapi.

They come from PyPI's package (`pip download --no-binary :all: --no-deps dbapi-compliance==1.15.0`, unpacked); they are
not part of this repository.

    PYTHONPATH=tools:.:driver/python build/venv/bin/python -m driver.tests.run_dbapi_compliance --source dbapi-compliance-1.15.0
"""

import argparse
import importlib
import pathlib
import sys
import unittest
import warnings

import howdah.dbapi

from devkit import postgres
from devkit.server import Server


def compliance(dbapi20, url):
    """The tests for this driver."""

    class Compliance(dbapi20.DatabaseAPI20Test):
        driver = howdah.dbapi
        connect_args = (url,)

        # What each driver is to say for itself: whether a call gives a next result, and what sizes mean.
        def test_nextset(self):
            with howdah.dbapi.connect(url) as connection:
                self.assertIsNone(connection.cursor().nextset())

        def test_non_idempotent_close(self):
            # The suite wants an error of the second close, which PEP 249 does not: no driver of PostgreSQL raises one.
            connection = howdah.dbapi.connect(url)
            connection.close()
            connection.close()

        def test_setoutputsize(self):
            with howdah.dbapi.connect(url) as connection:
                connection.cursor().setoutputsize(1000)
                connection.cursor().setoutputsize(2000, 0)

    return unittest.defaultTestLoader.loadTestsFromTestCase(Compliance)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--source", type=pathlib.Path, required=True, help="the folder with dbapi20.py")
    parser.add_argument("--pg", type=int, default=max(postgres.majors()), help="the PostgreSQL to test on")
    options = parser.parse_args()
    sys.path.insert(0, str(options.source))
    warnings.simplefilter("ignore", SyntaxWarning)
    dbapi20 = importlib.import_module("dbapi20")
    # Of Python 2, and gone from 3.12.
    for old, new in (("failUnless", "assertTrue"), ("assertEquals", "assertEqual"), ("assert_", "assertTrue")):
        if not hasattr(unittest.TestCase, old):
            setattr(unittest.TestCase, old, getattr(unittest.TestCase, new))
    with Server(postgres.tree(options.pg)) as server:
        result = unittest.TextTestRunner(verbosity=2).run(compliance(dbapi20, server.url("postgres")))
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    raise SystemExit(main())
