"""The scripts of extension/tests/sql print what extension/tests/expected holds, on every PostgreSQL."""

import pytest

from devkit import regress

EACH_VERSION = True


@pytest.mark.parametrize("name", regress.scripts())
def test_sql(server, name, request):
    output = regress.run(server, name)
    if request.config.getoption("--update-expected"):
        regress.update(name, output)
    difference = regress.difference(name, output)
    if difference:
        pytest.fail(f"{name}.sql printed something else than expected:\n{difference}", pytrace=False)


def test_there_are_scripts():
    assert regress.scripts(), "extension/tests/sql is empty: the SQL tests test nothing"
