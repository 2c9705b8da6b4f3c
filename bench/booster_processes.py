"""A booster of XGBoost in each of many processes: their memory, and the time of a first and a second prediction.

Run as `python -m bench.booster_processes LIBRARY MODEL PROCESSES ROW`; prints JSON. A process loads the library and
reads the model as a backend of PostgresML does, by the C API: the imports of Python's package would count as well.
"""

import ctypes
import json
import math
import os
import sys
import time
from pathlib import Path


def memory(pid):
    """Megabytes (PSS) of a process without shared memory, and those of them that no file stands behind."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    found = {name: int(rest.split()[0]) * 1024 / 1e6 for name, _, rest in (line.partition(":") for line in lines)}
    return {"mb": found["Pss"] - found["Pss_Shmem"], "anonymous_mb": found["Pss_Anon"]}


class Booster:
    """A model in XGBoost, by its C API."""

    def __init__(self, library, model):
        self._library = ctypes.CDLL(library)
        self._library.XGBGetLastError.restype = ctypes.c_char_p
        self._handle = ctypes.c_void_p()
        self._call("XGBoosterCreate", None, ctypes.c_uint64(0), ctypes.byref(self._handle))
        self._call("XGBoosterSetParam", self._handle, b"nthread", b"1")
        stored = Path(model).read_bytes()
        self._call("XGBoosterLoadModelFromBuffer", self._handle, stored, ctypes.c_uint64(len(stored)))

    def predict(self, row):
        """The prediction for one row."""
        values = (ctypes.c_float * len(row))(*row)
        array = {"data": [ctypes.addressof(values), True], "shape": [1, len(row)], "typestr": "<f4", "version": 3}
        config = {"type": 0, "iteration_begin": 0, "iteration_end": 0, "strict_shape": False, "missing": math.nan}
        shape, dimensions = ctypes.POINTER(ctypes.c_uint64)(), ctypes.c_uint64()
        result = ctypes.POINTER(ctypes.c_float)()
        self._call(
            "XGBoosterPredictFromDense",
            self._handle,
            json.dumps(array).encode(),
            json.dumps({**config, "cache_id": 0}).encode(),
            None,
            ctypes.byref(shape),
            ctypes.byref(dimensions),
            ctypes.byref(result),
        )
        return result[0]

    def _call(self, name, *arguments):
        if getattr(self._library, name)(*arguments) != 0:
            raise OSError(f"{name}: {self._library.XGBGetLastError().decode()}")


class Child:
    """A process that does its work when it is told to, and stays until nobody waits for it any more."""

    def __init__(self, library, model, row):
        start, self._start = os.pipe()
        self._done, done = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._start)
            if os.read(start, 1):
                os.write(done, json.dumps(work(library, model, row)).encode() + b"\n")
                os.read(start, 1)
            os._exit(0)
        os.close(start)
        os.close(done)

    def work(self):
        """Has it predict, and tells what it said."""
        os.write(self._start, b"\n")
        with open(self._done) as answer:
            return json.loads(answer.readline())

    def end(self):
        """Lets it go."""
        os.close(self._start)
        os.waitpid(self.pid, 0)


def work(library, model, row):
    """Loads the booster and predicts twice."""
    begun = time.perf_counter()
    booster = Booster(library, model)
    prediction = booster.predict(row)
    first = time.perf_counter()
    booster.predict(row)
    return {"prediction": prediction, "first": (first - begun) * 1e3, "second": (time.perf_counter() - first) * 1e3}


def main(library, model, count, row):
    """Measures processes before any of them has a booster, and when all have predicted."""
    children = []
    for _ in range(count):
        children.append(Child(library, model, row))
    before = [memory(child.pid)["mb"] for child in children]
    found = [child.work() for child in children]
    for child, one, had in zip(children, found, before, strict=True):
        one["mb"] = memory(child.pid)["mb"] - had
    # The last first: each holds the ends of those before it.
    for child in reversed(children):
        child.end()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4]))
