"""The faults that are planted in the brokers of a test, and what they have hit so far.

Tests plant, count and wait on their own threads, brokers ask on theirs; one lock is for all of it.
"""

import threading
import time
from typing import Final, Self

from barnabas.testing.kafka.fault import Fault

WAIT_S: Final = 10.0
"""How long a test waits by default for what is expected to come."""


class FaultTimeoutError(AssertionError):
    """A fault was not hit in time; the text says how often it was, and what it waits for."""


class PlantedFault:
    """A fault at work. Made by `Kafka.plant`."""

    def __init__(self, fault: Fault, faults: "PlantedFaults") -> None:
        self.fault = fault
        self._faults = faults
        self._passed = 0
        self._hits = 0

    def fired(self) -> int:
        """How many requests it has hit."""
        with self._faults.changed:
            return self._hits

    def wait(self, hits: int | None = None, timeout_s: float = WAIT_S) -> None:
        """Returns when so many requests were hit: without a number as many as the fault's `count`, or one.

        Raises FaultTimeoutError when they were not in time.
        """
        wanted = (self.fault.count or 1) if hits is None else hits
        deadline = time.monotonic() + timeout_s
        with self._faults.changed:
            while self._hits < wanted:
                left = deadline - time.monotonic()
                if left <= 0 or not self._faults.changed.wait(left):
                    if self._hits >= wanted:
                        break
                    raise FaultTimeoutError(
                        f"{self._hits} of {wanted} requests came within {timeout_s:g} s: {self.fault}"
                    )

    def remove(self) -> None:
        """Takes it away; harmless when it is gone. Requests that it delays are delayed all the same."""
        self._faults.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def take(self) -> bool:
        """Whether the next matching request is hit; with `PlantedFaults.changed` held."""
        if self._passed < self.fault.skip:
            self._passed += 1
            return False
        self._hits += 1
        if self._hits == self.fault.count:
            self._faults.retire(self)
        self._faults.changed.notify_all()
        return True

    def __repr__(self) -> str:
        return f"<PlantedFault {self.fault} hits={self._hits}>"


class PlantedFaults:
    """All faults of one `Kafka`, in the order in which they were planted: the first that matches is the
    one.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        """Held while the faults are looked at; notified with each hit."""
        self._planted: tuple[PlantedFault, ...] = ()

    @property
    def planted(self) -> tuple[PlantedFault, ...]:
        """Those that still wait for requests."""
        return self._planted

    def plant(self, fault: Fault) -> PlantedFault:
        planted = PlantedFault(fault, self)
        with self.changed:
            self._planted = (*self._planted, planted)
        return planted

    def remove(self, planted: PlantedFault) -> None:
        with self.changed:
            self.retire(planted)

    def retire(self, planted: PlantedFault) -> None:
        """As `remove`, with `changed` held."""
        self._planted = tuple(each for each in self._planted if each is not planted)

    def clear(self) -> None:
        """Takes all of them away."""
        with self.changed:
            self._planted = ()

    def __repr__(self) -> str:
        return f"<PlantedFaults {len(self._planted)}>"
