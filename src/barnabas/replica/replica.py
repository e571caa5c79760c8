"""What a leader knows of one follower: how far it fetched and when it last had everything (``Replica``)."""

from typing import Final

UNKNOWN_OFFSET: Final = -1


class Replica:
    """A follower as its leader sees it; offsets count records, times are wall-clock milliseconds."""

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "last_caught_up_time_ms",
        "last_fetch_leader_log_end_offset",
        "last_fetch_time_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.log_start_offset = UNKNOWN_OFFSET
        self.log_end_offset = UNKNOWN_OFFSET
        self.last_fetch_leader_log_end_offset = 0
        self.last_fetch_time_ms = 0
        self.last_caught_up_time_ms = 0
        self.broker_epoch = -1

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_max_ms: int) -> bool:
        """``isCaughtUp``: whether it has all there is, or had it no longer ago than `lag_max_ms`."""
        return leader_end_offset == self.log_end_offset or now_ms - self.last_caught_up_time_ms <= lag_max_ms

    def record_fetch(
        self, *, fetch_offset: int, start_offset: int, now_ms: int, leader_end_offset: int, broker_epoch: int
    ) -> None:
        """``updateFetchStateOrThrow``: notes a fetch from `fetch_offset`, which says that everything below it
        has arrived.

        A follower that asks from where the leader ended at the previous fetch was caught up at the time of
        that fetch, even if it never reaches an end that keeps moving (KIP-16).
        """
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_time_ms = max(self.last_caught_up_time_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_log_end_offset:
            self.last_caught_up_time_ms = max(self.last_caught_up_time_ms, self.last_fetch_time_ms)
        self.log_start_offset = start_offset
        self.log_end_offset = fetch_offset
        self.last_fetch_leader_log_end_offset = max(leader_end_offset, self.last_fetch_leader_log_end_offset)
        self.last_fetch_time_ms = now_ms
        self.broker_epoch = broker_epoch

    def reset(self, *, now_ms: int, leader_end_offset: int, is_new_leader: bool, in_isr: bool) -> None:
        """``resetReplicaState``: starts a new leader epoch.
        Members of the ISR get the benefit of the doubt: caught up just now.
        """
        self.last_caught_up_time_ms = now_ms if in_isr else 0
        if is_new_leader:
            self.log_start_offset = self.log_end_offset = UNKNOWN_OFFSET
            self.last_fetch_leader_log_end_offset = UNKNOWN_OFFSET
            self.last_fetch_time_ms = 0
            self.broker_epoch = -1
        else:
            self.last_fetch_leader_log_end_offset = leader_end_offset
            self.last_fetch_time_ms = now_ms if in_isr else 0

    def __repr__(self) -> str:
        return f"<Replica {self.broker_id} leo={self.log_end_offset} caught_up={self.last_caught_up_time_ms}>"
