"""Members of consumer groups that live in threads of a test, whatever their library."""

import threading
from abc import ABC, abstractmethod

SECONDS = 30


class GroupMember(ABC):
    """A consumer in a thread; `owned`, `values` and `events` may be looked at from outside at any time."""

    def __init__(self, bootstrap, group):
        self.bootstrap = bootstrap
        self.group = group
        self.owned = frozenset()
        self.values: list[bytes] = []
        self.events: list[tuple[str, frozenset]] = []
        self.failure = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"member-{group}", daemon=True)

    def start(self):
        """Begins to consume; for subclasses, when they have all that it takes."""
        self._thread.start()

    def _run(self):
        try:
            self.consume()
        except BaseException as error:
            self.failure = error

    @abstractmethod
    def consume(self):
        """The life of the consumer, until `self.stopped`."""

    @property
    def stopped(self):
        return self._stop.is_set()

    def note(self, event, partitions):
        self.events.append((event, frozenset(partitions)))

    def close(self):
        """Stops and leaves as the library does it; raises what went wrong in the thread."""
        self._stop.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive(), f"{self!r} does not end"
        if self.failure:
            raise self.failure

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        return f"<{type(self).__name__} {self.group} owned={sorted(self.owned)} read={len(self.values)}>"


def finish_the_join(consumer):
    """Has kafka-python 3.0.12 finish a rebalance that new metadata began; to be called after each of its
    polls.

    It forgets one that is still under way when a poll ends, and from then on neither owns anything nor sends
    a heartbeat: 3 of 160 starts at Apache Kafka 3.9.2 ended so, and 3 of 100 at ours.
    """
    coordinator = consumer._coordinator
    if coordinator.rejoining and not coordinator.need_rejoin():
        coordinator.request_rejoin()
