"""Whether a broker that starts gets on, for those who would end one that hangs.

Theory of operation
-------------------
A start takes what logs take after a crash, and then as long as the controller needs to tell all topics. So
nobody ends it by the clock, but when nothing has happened for a while.

- Until the broker accepts connections, its processor time says whether anything happens.
- From then on clients that wait at the gate (`node.readiness`), or are refused there, make it work too. What
  counts is how much of its cluster it knows, and work only where it is the controller that reads all of it.

The node says a word of each. A machine's parent reads it from the pipe of the broker; a broker alone tells
its service manager (`node.service_manager`).
"""

from typing import Final

from barnabas.core.processors import processor_s

ACCEPTING: Final = "accepting"
"""The word of a broker that accepts connections from now on, and is not ready yet."""
GOT_ON: Final = "got-on"
"""The word of one whose start has got on since."""
WORK_S: Final = 1.0
"""Processor time of a broker that works, between two looks: of a machine two minutes apart, of a broker alone
40 seconds. One that only waits uses a tenth of it.
"""


class StartProgress:
    """The start of one broker: its own, or one of which its parent hears."""

    def __init__(self) -> None:
        self._accepts = False
        self._steps = 0
        self._looked = (False, 0.0)
        """What `got_on` saw last: whether it accepted, and what it had done."""

    def take(self, word: str) -> None:
        """`ACCEPTING` or `GOT_ON`; others say nothing of it."""
        if word == ACCEPTING:
            self._accepts = True
        elif word == GOT_ON:
            self._steps += 1

    def got_on(self, session: int) -> bool:
        """Whether the start has got on since this was asked last. `session` is the id of its session, which
        its children are in, too.
        """
        done = float(self._steps) if self._accepts else processor_s(session)
        (accepted, before), self._looked = self._looked, (self._accepts, done)
        if self._accepts:
            return not accepted or done > before
        return done - before >= WORK_S

    def __repr__(self) -> str:
        return f"<StartProgress {'accepts' if self._accepts else 'reads logs'} steps={self._steps}>"
