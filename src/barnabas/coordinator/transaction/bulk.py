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

_KEY_TYPE: Final = b"\x00\x00"
_KEY_LENGTH: Final = struct.Struct(">h")
_NAME_AT: Final = 4
# version, producer id, epoch, time-out, state, number of topics, time of the last update, of the start
_VALUE: Final = struct.Struct(">hqhibiqq")
_WITHOUT_PARTITIONS: Final = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
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
    if value is None or len(value) != _VALUE.size or key[:2] != _KEY_TYPE or len(key) < _NAME_AT:
        return None
    version, producer_id, epoch, timeout_ms, state, topics, updated_ms, start_ms = _VALUE.unpack(value)
    if version != 0 or topics > 0 or state not in _WITHOUT_PARTITIONS:
        return None
    if _KEY_LENGTH.unpack_from(key, 2)[0] != len(key) - _NAME_AT:
        return None
    try:
        transactional_id = key[_NAME_AT:].decode()
    except UnicodeDecodeError:
        return None
    return transactional_id, producer_id, epoch, timeout_ms, state, updated_ms, start_ms
