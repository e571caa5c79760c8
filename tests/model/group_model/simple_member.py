"""`SimpleMember`: a consumer that assigns partitions to itself and only commits (generation -1)."""

from barnabas.core.errors import ErrorCode
from barnabas.core.pending import Steps
from group_model.member import LOST_COORDINATOR, Member


class SimpleMember(Member):
    """Reads all partitions of its topics; its group has no other members."""

    def identity(self) -> tuple[int, str]:
        """None."""
        return -1, ""

    def main(self) -> Steps[None]:
        """Reads and commits until it is stopped."""
        self.positions.at = dict.fromkeys(self.context.topics.tps(self.habits.topics))
        while not self.stopping:
            yield from self.find_coordinator()
            self._told("fetch", (yield from self.fetch_positions()))
            self.read()
            yield self.life.sleep(self.habits.poll_ms * self.rng.uniform(1.0, 3.0))
            self._told("commit", (yield from self.commit()))

    def _told(self, what: str, code: ErrorCode) -> None:
        if code in LOST_COORDINATOR or code is ErrorCode.REQUEST_TIMED_OUT:
            self.coordinator = None
        elif code not in {ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}:
            self.context.observer.unexpected(self.life.name, what, code)

    @property
    def settled(self) -> bool:
        """Whether it knows where it is."""
        return not self.life.alive or not self.positions.unknown
