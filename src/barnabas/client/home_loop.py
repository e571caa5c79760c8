"""`HomeLoop`: the event loop that a client lives on, from its first call to its end.

Connections, timers and tasks of a client belong to that loop. What is asked of the client on another one
would wait without end, or fail with words of asyncio's; so it is refused at once, in words that say what to
do.
"""

import asyncio
from typing import Any, Final

from barnabas.client.errors import ClientClosedError, EventLoopError

_ADVICE: Final = (
    "make and use a client within one asyncio.run, or take Producer, Consumer or Admin, which have a loop of"
    " their own"
)

FORKED: Final = "The client was made before this process was forked: make one of its own here"


class HomeLoop:
    """That of one client."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        """None until the first call."""

    @property
    def is_gone(self) -> bool:
        """Whether it is closed, and with it all that ran on it."""
        return self.loop is not None and self.loop.is_closed()

    def enter(self) -> None:
        """The loop that runs is the client's from now on, unless it has another one: then this raises
        ClientClosedError where that one is closed, and EventLoopError where it lives.
        """
        here = asyncio.get_running_loop()
        if self.loop is None:
            self.loop = here
        elif self.loop is not here:
            self.check()
            raise EventLoopError(f"The client belongs to another event loop: {_ADVICE}")

    def enter_to_end(self) -> bool:
        """As `enter`, for a call that closes the client: whether its loop is there. False where that is
        closed: then nothing can be asked of a broker, and connections are dropped.
        """
        if self.is_gone:
            return False
        self.enter()
        return True

    def check(self) -> None:
        """Raises ClientClosedError where the client's loop is closed."""
        if self.is_gone:
            raise ClientClosedError(f"The event loop that the client ran on is closed: {_ADVICE}")


async def end(*tasks: "asyncio.Task[Any] | None") -> None:
    """Cancels these tasks, and waits until they are over. One of a loop that is closed stays as it is."""
    here = asyncio.get_running_loop()
    running = [one for one in tasks if one is not None and not one.done() and one.get_loop() is here]
    for one in running:
        one.cancel()
    await asyncio.gather(*running, return_exceptions=True)
