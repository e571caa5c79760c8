"""The stations of `transaction_stations` as lines: where a transaction stands, what it holds back, and who
has to do what next.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from barnabas.admin import TransactionState
from barnabas.client.metadata import PartitionMetadata
from barnabas.core.errors import BarnabasError
from barnabas.core.ids import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.operations.hanging_transactions import OpenTransaction
from barnabas.operations.transaction_stations import PartitionHeld, TransactionStations

Line = tuple[str, str]
"""A station and what is there."""

_PREPARED: Final = {TransactionState.PREPARE_COMMIT: "commit", TransactionState.PREPARE_ABORT: "abort"}
_OVERDUE_MS: Final = 20_000
"""A coordinator looks every 10 s for transactions that have timed out
(``transaction.abort.timed.out.transaction.cleanup.interval.ms``).
"""


def lines(found: TransactionStations) -> list[Line]:
    """The stations, from the coordinator to the partitions, and what to do."""
    one = found.description
    return [
        ("transactional id", found.transactional_id),
        (
            "coordinator",
            f"broker {one.coordinator_id}, which leads {TRANSACTION_STATE_TOPIC}-{found.log_partition}",
        ),
        ("producer", f"id {one.producer_id}, epoch {one.producer_epoch}"),
        ("state", _state(found)),
        *[(str(each.tp), _partition(found, each)) for each in found.partitions],
        *[
            ("groups", f"{GROUP_METADATA_TOPIC}-{place} keeps {', '.join(names) or 'none that is listed'}")
            for place, names in found.groups.items()
        ],
        ("verdict", _verdict(found)),
    ]


def _state(found: TransactionStations) -> str:
    one = found.description
    if one.start_time_ms is None:
        return f"{one.state}, no transaction has begun; time-out {one.timeout_ms} ms"
    at = datetime.fromtimestamp(one.start_time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    age = found.now_ms - one.start_time_ms
    if age < 0:
        when = f"{-age} ms from now: the clock of its coordinator is ahead of ours"
    else:
        when = f"{age} ms ago"
    return f"{one.state}, begun at {at}, {when}; time-out {one.timeout_ms} ms"


def _partition(found: TransactionStations, one: PartitionHeld) -> str:
    metadata = one.metadata
    if metadata is None:
        return "the cluster does not have it: no marker is due"
    parts = []
    if metadata.leader < 0:
        parts.append(f"no leader (replicas {_numbers(metadata.replicas)}, in sync {_numbers(metadata.isr)})")
    else:
        parts.append(f"leader broker {metadata.leader}")
    if one.counted and found.description.state in _PREPARED:
        parts.append(_marker(one, metadata))
    elif not one.counted:
        parts.append("the coordinator does not count it to the transaction")
    parts.append(_offsets(found, one))
    return "; ".join(part for part in parts if part)


def _marker(one: PartitionHeld, metadata: PartitionMetadata) -> str:
    if metadata.leader < 0:
        return "its marker waits for a leader"
    if len(metadata.isr) < one.minimum:
        return (
            f"its marker waits for broker {metadata.leader}, which has {len(metadata.isr)} replicas in sync"
            f" of min.insync.replicas={one.minimum}"
        )
    return f"its marker waits for broker {metadata.leader}"


def _offsets(found: TransactionStations, one: PartitionHeld) -> str:
    """The last stable offset, and who holds it back."""
    stable, high = one.last_stable_offset, one.high_watermark
    if isinstance(stable, BarnabasError):
        return f"its leader does not answer: {stable}"
    if not isinstance(stable, int) or not isinstance(high, int):
        return ""
    text = f"last stable offset {stable} of {high}"
    if not one.open:
        return f"{text}, nothing is open"
    first = one.open[0]
    start = first.current_transaction_start_offset
    if first.producer_id == found.description.producer_id and one.counted:
        return f"{text}, this transaction is open from {start}"
    if first.producer_id in found.owners:
        who = f"producer {first.producer_id} of {found.owners[first.producer_id]}"
    else:
        who = f"producer {first.producer_id}, which no coordinator knows,"
    return f"{text}, {who} is open from {start}"


def _verdict(found: TransactionStations) -> str:
    one = found.description
    if found.hanging:
        return "; ".join(map(_way_out, found.hanging))
    if one.state in _PREPARED:
        return _prepared(found)
    if one.state is not TransactionState.ONGOING or one.start_time_ms is None:
        return "nothing of it is open: no reader waits for it"
    # Where the coordinator's clock is ahead of ours, it is at the beginning at least.
    left = one.start_time_ms + one.timeout_ms - max(found.now_ms, one.start_time_ms)
    if left < -_OVERDUE_MS:
        return (
            f"open, and past its time-out for {-left} ms: the coordinator, broker {one.coordinator_id},"
            " aborts such transactions every 10 s; if it stays so, its log says why"
        )
    return (
        f"open: its producer ends it, or the coordinator aborts it in {max(0, left)} ms. A producer that"
        " begins with this transactional id (init_transactions) aborts it now"
    )


def _way_out(one: OpenTransaction) -> str:
    tp, producer = one
    start = producer.current_transaction_start_offset
    return (
        f"{tp} has a transaction of producer {producer.producer_id} open from {start} that no coordinator"
        f" will end: it hangs. End it: barnabas transactions --bootstrap-server ... abort --topic {tp.topic}"
        f" --partition {tp.partition} --start-offset {start}"
    )


def _prepared(found: TransactionStations) -> str:
    """The end is decided: it comes when the last marker is written."""
    one = found.description
    decided = f"decided ({_PREPARED[one.state]})"
    waiting = [each for each in found.partitions if each.counted]
    obstacles = [obstacle for each in waiting if (obstacle := _obstacle(each))]
    if obstacles:
        return f"{decided}: it ends when these can take markers again: {'; '.join(obstacles)}"
    if not waiting:
        return f"{decided}: all markers are written, its last record is on its way"
    return (
        f"{decided}: {len(waiting)} markers are on their way. If it stays so, see the log of the coordinator,"
        f" broker {one.coordinator_id}, for what the leaders above answer"
    )


def _obstacle(one: PartitionHeld) -> str:
    """Why a partition takes no marker, and what would mend it; nothing where it can."""
    metadata = one.metadata
    if metadata is None:
        return ""
    if metadata.leader < 0:
        return f"{one.tp}: start broker {_numbers(metadata.replicas)}"
    if len(metadata.isr) < one.minimum:
        missing = (broker for broker in metadata.replicas if broker not in metadata.isr)
        return f"{one.tp}: start broker {_numbers(missing)}"
    if isinstance(one.last_stable_offset, BarnabasError):
        return f"{one.tp}: broker {metadata.leader} leads it and does not answer"
    return ""


def _numbers(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers)) or "none"
