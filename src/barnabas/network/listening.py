"""The end of a server of asyncio's, without losing who comes in that moment."""

import asyncio
from typing import Final

TURNS_OF_A_START: Final = 3
"""Turns of the loop from where a connection is accepted to where its protocol has it."""


async def stop_listening(server: asyncio.Server) -> None:
    """Listens no more. Who was accepted until then has reached the server's protocol, and is ended there.

    ``Server.close`` alone leaves a connection that was accepted in the turn before open until its memory is
    freed: in Python 3.11 the start of its transport fails.
    """
    loop = asyncio.get_running_loop()
    for listener in server.sockets:
        loop.remove_reader(listener)
    for _ in range(TURNS_OF_A_START):
        await asyncio.sleep(0)
    server.close()
