"""`BadNetwork`: stands between a client and a broker, and spoils answers.

The broker advertises its port, so that everything passes here. It lives on the event loop of the test.
"""

import asyncio
import contextlib
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Self

from barnabas.network.listening import stop_listening
from barnabas.protocol.api import ApiKey

Harm = Callable[[bytes, asyncio.StreamWriter], Awaitable[bool]]
"""Gets an answer without its size and where it would go; says whether the connection goes on."""


async def cut(answer: bytes, to_client: asyncio.StreamWriter) -> bool:
    """The connection ends instead of the answer."""
    return False


async def cut_in_the_middle(answer: bytes, to_client: asyncio.StreamWriter) -> bool:
    """The connection ends within the answer."""
    to_client.write(_sized(answer)[: len(answer) // 2])
    return False


async def half_open(answer: bytes, to_client: asyncio.StreamWriter) -> bool:
    """Nothing comes any more, and nobody says so."""
    await asyncio.Event().wait()
    return False


async def drip(answer: bytes, to_client: asyncio.StreamWriter) -> bool:
    """A byte now and then: the connection lives, and the answer would take minutes."""
    for byte in _sized(answer):
        to_client.write(bytes((byte,)))
        await asyncio.sleep(0.1)
    return True


async def another_correlation_id(answer: bytes, to_client: asyncio.StreamWriter) -> bool:
    """The answer of a request that nobody has made."""
    to_client.write(_sized((int.from_bytes(answer[:4], "big") + 7).to_bytes(4, "big") + answer[4:]))
    return True


async def cut_short(answer: bytes, to_client: asyncio.StreamWriter) -> bool:
    """An answer whose end is missing, of a size that fits."""
    to_client.write(_sized(answer[: len(answer) // 2]))
    return True


async def another_protocol(answer: bytes, to_client: asyncio.StreamWriter) -> bool:
    """Words of a web server, whose first bytes are a size of 1.2 GB."""
    to_client.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")
    return True


HARMS: list[Harm] = [
    cut,
    cut_in_the_middle,
    half_open,
    drip,
    another_correlation_id,
    another_protocol,
]


class BadNetwork:
    """Use it as a context; answers to `api` are spoilt `times` times after a call of `spoil`."""

    def __init__(self, port: int, broker_port: int) -> None:
        self._port = port
        self._broker_port = broker_port
        self._harm: Harm = cut
        self._api: ApiKey | None = None
        self.left = 0
        self._ended = asyncio.Event()
        self._connections: list[asyncio.Future[None]] = []

    def spoil(self, api: ApiKey, harm: Harm, times: int) -> None:
        """From now on."""
        self._api, self._harm, self.left = api, harm, times

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await stop_listening(self._server)
        self._ended.set()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        self._connections.append(asyncio.ensure_future(self._pass(from_client, to_client)))

    async def _pass(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        from_broker, to_broker = await asyncio.open_connection("127.0.0.1", self._broker_port)
        asked: deque[ApiKey] = deque()
        parts: list[asyncio.Future[object]] = [
            asyncio.ensure_future(self._requests(from_client, to_broker, asked)),
            asyncio.ensure_future(self._answers(from_broker, to_client, asked)),
            asyncio.ensure_future(self._ended.wait()),
        ]
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in parts:
                each.cancel()
            to_client.close()
            to_broker.close()

    async def _requests(
        self, from_client: asyncio.StreamReader, to_broker: asyncio.StreamWriter, asked: deque[ApiKey]
    ) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                frame = await _frame(from_client)
                asked.append(ApiKey(struct.unpack_from(">h", frame)[0]))
                to_broker.write(_sized(frame))

    async def _answers(
        self, from_broker: asyncio.StreamReader, to_client: asyncio.StreamWriter, asked: deque[ApiKey]
    ) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                frame = await _frame(from_broker)
                if asked.popleft() is not self._api or not self.left:
                    to_client.write(_sized(frame))
                    continue
                self.left -= 1
                if not await self._harm(frame, to_client):
                    return


async def _frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def _sized(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame
