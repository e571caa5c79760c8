"""Eight ways to damage a znode."""

import json

MEGABYTE = 1_000_000


def _other_version(data):
    value = json.loads(data)
    return json.dumps(value | {"version": 99}).encode() if isinstance(value, dict) else b"9" * 30


def _without(data, name):
    return json.dumps({key: value for key, value in json.loads(data).items() if key != name}).encode()


def _with(data, name, value):
    return json.dumps(json.loads(data) | {name: value}).encode()


def damages(data):
    """(what was done, what the znode holds then), for a znode that holds this."""
    yield "empty", b""
    yield "truncated", data[: len(data) // 2]
    yield "another JSON type", b'["x"]'
    yield "another version", _other_version(data)
    yield "not UTF-8", b"\xff\xfe" + data
    yield "a megabyte", b"x" * MEGABYTE
    fields = json.loads(data)
    for name in fields if isinstance(fields, dict) else ():
        yield f"without {name}", _without(data, name)
        # A number, because what Kafka writes as a text is one of these; and the other way round.
        for wrong in (-7, "x", [None], {"x": 10**12}, None):
            yield f"{name} is {wrong}", _with(data, name, wrong)
