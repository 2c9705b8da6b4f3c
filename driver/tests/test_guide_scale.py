"""The training of docs/guide/scale.md, as it is printed, on a cluster of two workers."""

import json
import pathlib
import re
import warnings

from howdah import dbapi

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from dask.distributed import LocalCluster

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "guide" / "scale.md"
TABLE = """
    CREATE TABLE flights AS
    SELECT i % 365 AS day, (random() * 3000)::integer AS distance, (random() * 24)::real AS departure
    FROM generate_series(1, 5000) i;
    ALTER TABLE flights ADD delay real;
    UPDATE flights SET delay = distance / 100.0 + departure
"""


def test_the_training_runs_as_printed(server, capsys):
    server.psql("drop database if exists scale with (force)")
    server.psql("create database scale")
    server.psql("create extension pgml", "scale")
    server.psql(TABLE, "scale")
    text = GUIDE.read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (query,) = re.findall(r"```sql\n(.*?)```", text, re.DOTALL)
    with (
        warnings.catch_warnings(),
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
    ):
        for printed, here in (("postgres://trainer:secret@db1/app", server.url("scale")), ("scheduler:8786", cluster)):
            assert f'"{printed}"' in code
            code = code.replace(f'"{printed}"', "cluster" if here is cluster else repr(here))
        exec(compile(code, str(GUIDE), "exec"), {"cluster": cluster})
    assert capsys.readouterr().out == "1 True\n"
    with dbapi.connect(server.url("scale")) as connection:
        (answer,) = connection.execute(query).fetchone()
    assert json.loads(answer)["rows"] == 845
