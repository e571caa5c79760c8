"""Transactional ids out of bytes, without an object for each record: what a child process does of a load.

Nearly all ids of a big partition have no transaction, and their records are of one length. So what Kafka
writes for them (value version 0, no partitions) is taken apart here by hand. All other records go through
their schemas.

    piece = (transactional id, producer id, producer epoch, time-out, state, time of the last update,
             time of the start)
"""

import struct
from typing import Any, Final, TypeAlias

from barnabas.coordinator.runtime.decoding import KeyValue, Piece
from barnabas.coordinator.transaction.states import TransactionState

IdPiece: TypeAlias = tuple[str, int, int, int, int, int, int]

_KEY_HEAD: Final = struct.Struct(">hh")
"""The type of the record (0), and the length of the id."""
_NAME_AT: Final = _KEY_HEAD.size
_NAME_SIZE_MAX: Final = (1 << 15) - 1
# version, producer id, epoch, time-out, state, number of topics, time of the last update, of the start
_VALUE: Final = struct.Struct(">hqhibiqq")
_VALUE_SIZE: Final = _VALUE.size
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
    if value is None or len(value) != _VALUE_SIZE or size > _NAME_SIZE_MAX:
        return None
    if key[:_NAME_AT] != _KEY_HEAD.pack(0, size):
        return None
    version, producer_id, epoch, timeout_ms, state, topics, updated_ms, start_ms = _VALUE.unpack(value)
    if version != 0 or topics > 0 or state not in _WITHOUT_PARTITIONS:
        return None
    try:
        transactional_id = key[_NAME_AT:].decode()
    except UnicodeDecodeError:
        return None
    return transactional_id, producer_id, epoch, timeout_ms, state, updated_ms, start_ms
