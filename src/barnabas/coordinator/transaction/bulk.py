"""Transactional ids out of bytes, without an object for each record: what a child process does of a load.

Nearly all ids of a big partition have no transaction, and their records are of three lengths. So what Kafka
writes for them (no partitions, no next producer id) is taken apart here by hand. All other records go through
their schemas.

    piece = (transactional id, producer id, producer epoch, time-out, state, time of the last update,
             time of the start, transaction version of the client, producer id before the last transition)
"""

import struct
from typing import Any, Final, TypeAlias

from barnabas.coordinator.runtime.decoding import KeyValue, Piece
from barnabas.coordinator.transaction.states import TransactionState
from barnabas.records.batch import NO_PRODUCER_ID

IdPiece: TypeAlias = tuple[str, int, int, int, int, int, int, int, int]

_KEY_HEAD: Final = struct.Struct(">hh")
"""The type of the record (0), and the length of the id."""
_NAME_AT: Final = _KEY_HEAD.size
_NAME_SIZE_MAX: Final = (1 << 15) - 1
# version, producer id, epoch, time-out, state, number of topics, time of the last update, of the start
_VALUE: Final = struct.Struct(">hqhibiqq")
# The same in version 1, where the number of topics is 1 too high, so that null is 0, and tagged fields come
# last: how many, and for each its number and its size. Of a client before version 2 the producer id before is
# the only one, otherwise the version follows.
_VALUE_1: Final = struct.Struct(">hqhibBqq3sq")
_VALUE_1_OF_CLIENT: Final = struct.Struct(">hqhibBqq3sq2sh")
_PREVIOUS_ONLY: Final = b"\x01\x00\x08"
_PREVIOUS_AND_CLIENT: Final = b"\x02\x00\x08", b"\x02\x02"
_WITHOUT_PARTITIONS: Final = frozenset(
    # Plain numbers: a member of the enumeration is compared in Python.
    map(int, (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT))
)


def decode_ids(records: list[KeyValue], journal_offset: int, _memo: dict[Any, Any]) -> list[Piece]:
    """The pieces of a batch's records, in order."""
    return [
        _without_transaction(key, value) or (journal_offset, key, value)
        for key, value in records
        if key is not None
    ]


def _without_transaction(key: bytes, value: bytes | None) -> IdPiece | None:
    """An id that has no transaction; None for all else, and for what only its schema can judge."""
    size = len(key) - _NAME_AT
    if value is None or size > _NAME_SIZE_MAX or key[:_NAME_AT] != _KEY_HEAD.pack(0, size):
        return None
    client_version, previous_id = 0, NO_PRODUCER_ID
    if len(value) == _VALUE.size:
        version, *fields, topics, updated_ms, start_ms = _VALUE.unpack(value)
        is_plain = version == 0 and topics <= 0
    elif len(value) == _VALUE_1.size:
        version, *fields, topics, updated_ms, start_ms, tags, previous_id = _VALUE_1.unpack(value)
        is_plain = version == 1 and topics <= 1 and tags == _PREVIOUS_ONLY
    elif len(value) == _VALUE_1_OF_CLIENT.size:
        version, *fields, topics, updated_ms, start_ms, tags, previous_id, tag, client_version = (
            _VALUE_1_OF_CLIENT.unpack(value)
        )
        is_plain = version == 1 and topics <= 1 and (tags, tag) == _PREVIOUS_AND_CLIENT
    else:
        return None
    if not is_plain:
        return None
    producer_id, epoch, timeout_ms, state = fields
    if state not in _WITHOUT_PARTITIONS:
        return None
    try:
        transactional_id = key[_NAME_AT:].decode()
    except UnicodeDecodeError:
        return None
    return (
        transactional_id,
        producer_id,
        epoch,
        timeout_ms,
        state,
        updated_ms,
        start_ms,
        client_version,
        previous_id,
    )
