"""The serialisers that a service may use for its features, its requests and its answers."""

import dataclasses
import json
from collections.abc import Callable

import msgpack
import orjson


@dataclasses.dataclass(frozen=True)
class Format:
    """One serialiser, and the content type of what it makes."""

    kind: str
    dumps: Callable
    loads: Callable


FORMATS = {
    "json": Format("application/json", lambda value: json.dumps(value).encode(), json.loads),
    "orjson": Format("application/json", orjson.dumps, orjson.loads),
    "msgpack": Format("application/msgpack", msgpack.packb, msgpack.unpackb),
}
