"""What a service manager is told: that the broker is ready, that it ends, that its loop still turns.

The protocol is ``sd_notify(3)`` of systemd, which others speak too: datagrams of ``NAME=value`` to the socket
that ``NOTIFY_SOCKET`` names. Without that variable, and where the socket is not there, nothing is said: being
told is the manager's wish, and no reason to stop.

The variables are taken out of the environment, so that children do not speak for their parent.
"""

import asyncio
import os
import socket
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from typing import Final

_READY: Final = "READY=1"
_STOPPING: Final = "STOPPING=1"
_ALIVE: Final = "WATCHDOG=1"
START_S: Final = 120
"""How long a start may be without getting on: ``TimeoutStartSec`` of a unit, and what each extension adds."""
_EXTEND: Final = f"EXTEND_TIMEOUT_USEC={START_S * 1_000_000}"
_LOOKS_A_START: Final = 3
_STATUS_CHARACTERS_MAX: Final = 200


class ServiceManager:
    """The manager that started this process, if one did."""

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        address = environment.pop("NOTIFY_SOCKET", "")
        usec = environment.pop("WATCHDOG_USEC", "")
        whom = environment.pop("WATCHDOG_PID", str(os.getpid()))
        # A name that begins with @ is not in the file system.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        watched = usec.isascii() and usec.isdigit() and whom == str(os.getpid())
        self._watchdog_s = int(usec) / 1e6 if watched else 0.0
        self._watchdog: asyncio.Task[None] | None = None
        self._start: asyncio.Task[None] | None = None

    def starting(self, got_on: Callable[[], bool]) -> None:
        """The start takes as long as it gets on: asks the manager for more time while `got_on` says that it
        has since it was asked last. Ends with `ready` or `close`.
        """
        if self._address and self._start is None:
            self._start = asyncio.get_running_loop().create_task(self._ask_for_time(got_on))

    async def _ask_for_time(self, got_on: Callable[[], bool]) -> None:
        while True:
            await asyncio.sleep(START_S / _LOOKS_A_START)
            if got_on():
                self._say(_EXTEND)

    def ready(self, status: str) -> None:
        """Clients may come; `status` is shown by ``systemctl status``. Begins to answer a watchdog, from the
        running event loop: a loop that hangs is silent.
        """
        self._end_start()
        self._say(_READY, f"STATUS={status.splitlines()[0][:_STATUS_CHARACTERS_MAX]}" if status else "")
        if self._watchdog_s and self._watchdog is None:
            self._watchdog = asyncio.get_running_loop().create_task(self._stay_alive())

    def stopping(self) -> None:
        """The end has begun, which may take its time; the watchdog is answered until the process ends."""
        self._say(_STOPPING)

    def close(self) -> None:
        """Answers the watchdog no more. Harmless when repeated."""
        self._end_start()
        if self._watchdog is not None:
            self._watchdog.cancel()

    def _end_start(self) -> None:
        if self._start is not None:
            self._start.cancel()
            self._start = None

    async def _stay_alive(self) -> None:
        while True:
            self._say(_ALIVE)
            await asyncio.sleep(self._watchdog_s / 2)

    def _say(self, *lines: str) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.setblocking(False)
            sock.sendto("\n".join(filter(None, lines)).encode(), self._address)

    def __repr__(self) -> str:
        return f"<ServiceManager {'is there' if self._address else 'none'} watchdog={self._watchdog_s:g}s>"
