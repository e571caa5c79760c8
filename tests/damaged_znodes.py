"""Eight ways to damage a znode, and how it is done to an embedded store."""

import json
import queue
from contextlib import suppress

from barnabas.cluster.store.contract import NodeExistsError, NoNodeError
from barnabas.cluster.store.sqlite import SqliteStore

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


def change_znode(store_path, path, change):
    """Writes what `change` makes of a znode's data, through a session of its own: brokers that run notice it.

    A znode that is not there is made, but for the registration of a broker that is down.
    """
    work = queue.SimpleQueue()
    store = SqliteStore(store_path, work.put)

    def wait(pending):
        while not pending.done:
            work.get(timeout=20)()
        return pending.result()

    wait(store.start())
    try:
        try:
            data, _ = wait(store.get(path))
        except NoNodeError:
            if path.startswith("/brokers/ids/"):
                return
            for end in range(2, path.count("/") + 1):
                with suppress(NodeExistsError):
                    wait(store.create("/".join(path.split("/")[:end])))
            wait(store.create(path, change(b"{}")))
        else:
            wait(store.set(path, change(data or b"{}")))
    finally:
        wait(store.close())
