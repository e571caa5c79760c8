"""The port through which a client reaches brokers, and its real implementation, `NetworkClient`."""

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from typing import Protocol

from barnabas.client.config import Address
from barnabas.core.config import Config
from barnabas.protocol.message import Request, Response


class Transport(Protocol):
    """Connections to brokers by node id; bootstrap servers have ids below 0."""

    async def send(self, node_id: int, request: Request) -> Response:
        """The answer, in the highest version that both sides know."""

    def least_loaded_node(self) -> int | None:
        """A broker to ask what any broker can answer."""

    def set_brokers(self, brokers: Mapping[int, Address]) -> None:
        """Where brokers are from now on."""

    async def close(self) -> None:
        """Closes all connections."""


Versions = tuple[int, int]


def NetworkTransport(addresses, config, n):
    return Interim(addresses, config)


class Interim:
    def __init__(self, addresses, config):
        self.nodes = {-1 - i: a for i, a in enumerate(addresses)}
        self.conns = {}
        self.config = config
        self.locks = {}

    def least_loaded_node(self):
        ids = [n for n in self.nodes if n >= 0] or list(self.nodes)
        return ids[0]

    def set_brokers(self, brokers):
        self.nodes = {n: a for n, a in self.nodes.items() if n < 0} | dict(brokers)

    async def connect(self, node_id):
        from barnabas.network.errors import DisconnectedError
        from barnabas.protocol.messages.api_versions import ApiVersionsRequest

        lock = self.locks.setdefault(node_id, asyncio.Lock())
        async with lock:
            conn = self.conns.get(node_id)
            if conn and not conn["closed"]:
                return conn
            host, port = self.nodes[node_id]
            try:
                r, w = await asyncio.open_connection(host, port, limit=1 << 20)
            except OSError as e:
                raise DisconnectedError(str(e)) from e
            conn = {
                "r": r,
                "w": w,
                "pending": {},
                "ids": itertools.count(),
                "closed": False,
                "versions": {18: (0, 3)},
            }
            conn["task"] = asyncio.create_task(self.read(conn))
            self.conns[node_id] = conn
            resp = await self.raw(
                conn, ApiVersionsRequest(client_software_name="barnabas", client_software_version="0"), 3
            )
            conn["versions"] = {k.api_key: (k.min_version, k.max_version) for k in resp.api_keys}
            return conn

    async def read(self, conn):
        from barnabas.network.errors import DisconnectedError
        from barnabas.protocol.framing import decode_response

        try:
            while True:
                n = int.from_bytes(await conn["r"].readexactly(4), "big")
                frame = memoryview(await conn["r"].readexactly(n))
                cid = int.from_bytes(frame[:4], "big")
                api, v, f = conn["pending"].pop(cid)
                if not f.done():
                    f.set_result(decode_response(api, v, frame)[1])
        except (asyncio.IncompleteReadError, OSError):
            conn["closed"] = True
            for _, _, f in conn["pending"].values():
                if not f.done():
                    f.set_exception(DisconnectedError("closed"))

    def raw(self, conn, request, v):
        from barnabas.protocol.framing import RequestHeader, encode_request
        from barnabas.protocol.registry import RESPONSES

        cid = next(conn["ids"])
        f = asyncio.get_running_loop().create_future()
        if request.api == 0 and request.acks == 0:
            f.set_result(RESPONSES[request.api]())
        else:
            conn["pending"][cid] = (request.api, v, f)
        conn["w"].writelines(
            encode_request(RequestHeader(request.api, v, cid, self.config["client.id"]), request)
        )
        return f

    async def send(self, node_id, request, *, versions=None):
        conn = await self.connect(node_id)
        lo, hi = conn["versions"][request.api]
        return await self.raw(conn, request, min(hi, type(request).max_version))

    async def close(self):
        for c in self.conns.values():
            c["task"].cancel()
            c["w"].close()
