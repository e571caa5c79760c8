"""`RecordReader`: makes of a record what may be seen of it. Filters and pages get that."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from barnabas.client import ConsumerRecord
from barnabas.core.ids import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.operations.messages.decoding import (
    DECODED_MAX,
    NOTHING,
    Choice,
    DecodedPart,
    Form,
    Internal,
    decoded,
    is_framed,
)
from barnabas.operations.messages.internal_records import (
    offsets_key_node,
    offsets_value_node,
    transaction_key_node,
    transaction_value_node,
)
from barnabas.operations.messages.masks import (
    HIDDEN,
    NO_MASKS,
    FieldMask,
    TopicMasks,
    hidden,
    masked,
    whole_mask,
)
from barnabas.operations.schemas.registry import schema_id
from barnabas.operations.schemas.source import SchemaSource

SHOWN_MAX: Final = 4_000
"""Characters of a part that are shown."""


@dataclass(frozen=True, slots=True)
class ShownBytes:
    """A key, a value or a header's value as a text."""

    text: str | None
    """None for null."""
    bytes: int | None
    """-1 for null; None where a part of it is hidden."""
    form: Form
    is_cut: bool
    is_masked: bool
    why: str | None
    """Why it was not read as what it seems, or was asked for."""


class SeenPart:
    """A key, a value or a header's value, decoded and masked when somebody looks."""

    __slots__ = ("_choice", "_data", "_internal", "_masks", "_schemas", "_seen")

    def __init__(
        self,
        data: bytes | None,
        choice: Choice,
        masks: Sequence[FieldMask],
        schemas: SchemaSource | None = None,
        internal: Internal | None = None,
    ) -> None:
        self._data = data
        self._choice: Choice = choice
        self._masks = masks
        self._schemas = schemas
        self._internal = internal
        self._seen: DecodedPart | None = None

    @property
    def is_null(self) -> bool:
        """Whether there is none."""
        return self._data is None

    def fields(self) -> Any:
        """The fields, `NOTHING` where there are none, or nobody may see them."""
        return self._look().tree

    def text(self) -> str | None:
        """The whole text; None for null, and for bytes that are none."""
        seen = self._look()
        return _json(seen.tree) if seen.text is None and seen.tree is not NOTHING else seen.text

    def contains(self, needle: str, raw: bytes) -> bool:
        """Whether it has this text; `raw` is the same in UTF-8."""
        if self._data is None:
            return False
        if self._masks:
            return needle in (self.text() or "")
        if raw in self._data:
            return True
        looks_other = self._internal is not None or (self._schemas is not None and is_framed(self._data))
        return looks_other and needle in (self.text() or "")

    def shown(self) -> ShownBytes:
        """The text, cut where it is long."""
        if self._data is None:
            return ShownBytes(None, -1, Form.NULL, False, False, None)
        size = None if self._masks else len(self._data)
        if not self._masks and len(self._data) > DECODED_MAX:
            return self._piece(None)
        seen = self._look()
        text = self.text()
        if text is None:
            return self._piece(seen.why)
        return ShownBytes(
            text[:SHOWN_MAX], size, seen.form, len(text) > SHOWN_MAX, bool(self._masks), seen.why
        )

    def _piece(self, why: str | None) -> ShownBytes:
        """The beginning of what is no text as a whole, or too much to look at."""
        assert self._data is not None, "null is shown as such"
        # Cut before it is decoded: a record may have 50 MB.
        piece = bytes(self._data[: SHOWN_MAX * 4])
        # What is small enough was looked at as a whole, and is no text: of more only the beginning says it.
        is_bytes = self._choice == "hex" or len(self._data) <= DECODED_MAX
        begun = None if is_bytes else _beginning(piece)
        form = Form.HEX if begun is None else Form.TEXT
        text = piece[: SHOWN_MAX // 2].hex(" ") if begun is None else begun
        is_cut = len(text) > SHOWN_MAX or len(piece) < len(self._data)
        return ShownBytes(
            text[:SHOWN_MAX],
            len(self._data),
            form,
            is_cut or (form is Form.HEX and len(self._data) > SHOWN_MAX // 2),
            False,
            why,
        )

    def _look(self) -> DecodedPart:
        if self._seen is None:
            self._seen = self._decoded()
        return self._seen

    def _decoded(self) -> DecodedPart:
        if self._data is None:
            return DecodedPart(Form.NULL)
        whole = whole_mask(self._masks)
        if whole is not None:
            return DecodedPart(Form.HIDDEN, text=self._hidden(whole.keep_last))
        # Of what is masked nothing depends on how the reader wants to see it.
        choice: Choice = "auto" if self._masks else self._choice
        found = decoded(self._data, choice, self._schemas, self._internal)
        if not self._masks:
            return found
        if not isinstance(found.tree, dict | list):
            return DecodedPart(
                Form.HIDDEN,
                text=HIDDEN,
                why="fields of it are masked, and it cannot be read as fields: all of it is hidden",
            )
        try:
            return DecodedPart(found.form, masked(found.tree, self._masks))
        except RecursionError:
            return DecodedPart(Form.HIDDEN, text=HIDDEN, why="it has too many levels: all of it is hidden")

    def _hidden(self, keep_last: int) -> str:
        assert self._data is not None, "null is shown as such"
        if not keep_last or len(self._data) > DECODED_MAX:
            return HIDDEN
        try:
            return hidden(self._data.decode(), keep_last)
        except UnicodeDecodeError:
            return HIDDEN


def _beginning(piece: bytes) -> str | None:
    """The first bytes of something larger as text, without a last character that was cut; None for bytes."""
    try:
        return piece.decode()
    except UnicodeDecodeError as error:
        is_cut = error.start and error.start >= len(piece) - 4
        return piece[: error.start].decode() if is_cut else None


def _json(tree: Any) -> str:
    try:
        # JSON may name half a character ("\\ud800"), which no page can be sent with.
        return json.dumps(tree, ensure_ascii=False).encode(errors="backslashreplace").decode()
    except RecursionError:
        return HIDDEN


@dataclass(frozen=True, slots=True)
class SeenRecord:
    """A record as it may be seen."""

    partition: int
    offset: int
    timestamp_ms: int
    key: SeenPart
    value: SeenPart
    masks: TopicMasks
    raw_headers: Sequence[tuple[str, bytes | None]]

    def headers(self, count: int | None = None) -> Iterator[tuple[str, SeenPart]]:
        """All of them or the first ones, as they may be seen: a record may have very many."""
        for name, value in self.raw_headers[:count]:
            yield name, SeenPart(value, "auto", self.masks.of_header(name))


class RecordReader:
    """Of the records of one topic."""

    def __init__(
        self,
        topic: str,
        masks: TopicMasks = NO_MASKS,
        schemas: SchemaSource | None = None,
        *,
        key: Choice = "auto",
        value: Choice = "auto",
    ) -> None:
        self.masks = masks
        self._topic = topic
        self._schemas = schemas
        self._choices: tuple[Choice, Choice] = key, value

    async def prepare(self, records: Iterable[ConsumerRecord]) -> None:
        """Asks the registry for what these records need."""
        if self._schemas is not None and self._choices != ("text", "text"):
            parts = (part for one in records for part in (one.key, one.value))
            await self._schemas.prepare(
                schema_id(part) for part in parts if part is not None and is_framed(part)
            )

    def seen(self, record: ConsumerRecord) -> SeenRecord:
        """The record as it may be seen."""
        key_of, value_of = self._internals(record)
        return SeenRecord(
            record.partition,
            record.offset,
            record.timestamp,
            SeenPart(record.key, self._choices[0], self.masks.key, self._schemas, key_of),
            SeenPart(record.value, self._choices[1], self.masks.value, self._schemas, value_of),
            self.masks,
            record.headers,
        )

    def _internals(self, record: ConsumerRecord) -> tuple[Internal | None, Internal | None]:
        key = record.key
        if self._topic == GROUP_METADATA_TOPIC and key is not None:
            return offsets_key_node, lambda value: offsets_value_node(key, value)
        if self._topic == TRANSACTION_STATE_TOPIC and key is not None:
            return transaction_key_node, transaction_value_node
        return None, None
