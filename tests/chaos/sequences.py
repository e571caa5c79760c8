"""Whether a log holds each batch of its idempotent producer once and in order, by the files in a broker's
directory.
"""

from itertools import pairwise
from typing import NamedTuple

from barnabas.records.batch import batch_headers, decode_batch


class Batch(NamedTuple):
    """What counts of a batch of the load: who sent it, and the numbers that its records carry."""

    offset: int
    producer: int
    epoch: int
    sequence: int
    first: int
    last: int


def batches_of(partition):
    """The batches in a partition's directory, in order."""
    for path in sorted(partition.glob("*.log")):
        data = path.read_bytes()
        for header in batch_headers(data):
            numbers = [int(record[3].partition(b":")[0]) for record in decode_batch(data, header.position)]
            yield Batch(
                header.base_offset,
                header.producer_id,
                header.producer_epoch,
                header.base_sequence,
                numbers[0],
                numbers[-1],
            )


def disorder(partition):
    """What a broker must never take from one idempotent producer: a batch twice, one too early, or one of an
    old epoch.

    Only in one epoch can a broker know a batch again. librdkafka raises its epoch when a leader refuses a
    batch because the one before is still on its way to the last leader, and sends again what nobody has
    acknowledged by then, in any partition. What a leader had taken of it, and could not acknowledge any more,
    is there twice, as with Apache Kafka.
    """
    for one, after in pairwise(batches_of(partition)):
        count = one.last - one.first + 1
        if after.epoch < one.epoch or after.producer != one.producer:
            yield f"{partition.name}: {after} comes after {one}"
        elif after.epoch > one.epoch:
            if after.sequence or after.first > one.last + 1:
                yield f"{partition.name}: {after} begins the epoch after {one}"
        elif (after.sequence, after.first) != (one.sequence + count, one.last + 1):
            yield f"{partition.name}: {after} does not follow {one}"
