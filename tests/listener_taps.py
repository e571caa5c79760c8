"""`ListenerTaps`: stands before the listeners of brokers and notes who asked what on which of them.

A broker, ours or a genuine one, advertises the tap's port in the place of its own, so everything that others
send to it passes here.
"""

import asyncio
import contextlib
import struct
import threading
from collections.abc import Mapping
from typing import NamedTuple, Self

from barnabas.network.listening import stop_listening
from barnabas.protocol.api import ApiKey
from serving import free_port


class Call(NamedTuple):
    """A request that arrived at a listener."""

    broker: int
    listener: str
    api: ApiKey
    client_id: str

    @property
    def from_broker(self) -> int | None:
        """The broker that sent it; None for a client's."""
        number = self.client_id.removeprefix("broker-").partition("-fetcher-")[0]
        return int(number) if number.isdecimal() else None


class ListenerTaps:
    """Every listener of every broker of one cluster. Use it as a context."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def before(self, broker: int, ports: Mapping[str, int]) -> dict[str, int]:
        """The ports to advertise for the listeners of a broker that listens on these ports."""
        return {listener: self._tap(broker, listener, port) for listener, port in ports.items()}

    def _tap(self, broker: int, listener: str, port: int) -> int:
        advertised = free_port()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                from_broker, to_broker = await asyncio.open_connection("127.0.0.1", port)
                answers = asyncio.ensure_future(_copy(from_broker, writer))
                try:
                    await self._note(broker, listener, reader, to_broker)
                finally:
                    answers.cancel()
                    to_broker.close()
            writer.close()

        starting = asyncio.start_server(accept, "127.0.0.1", advertised)
        self._servers.append(asyncio.run_coroutine_threadsafe(starting, self._loop).result(10))
        return advertised

    async def _note(
        self, broker: int, listener: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Passes requests on, one after the other (size, key, version, correlation id, client id)."""
        while True:
            size = await reader.readexactly(4)
            frame = await reader.readexactly(int.from_bytes(size, "big"))
            key, _, _, length = struct.unpack_from(">hhih", frame)
            self.calls.append(Call(broker, listener, ApiKey(key), frame[10 : 10 + length].decode()))
            writer.write(size + frame)
            await writer.drain()

    async def _end(self) -> None:
        for server in self._servers:
            await stop_listening(server)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def seen(self, broker: int, listener: str, *, sender: int | None) -> set[ApiKey]:
        """What a broker was asked on a listener by another broker, or by clients."""
        calls = list(self.calls)
        return {each.api for each in calls if each[:2] == (broker, listener) and each.from_broker == sender}


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.close()
