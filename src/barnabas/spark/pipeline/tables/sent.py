"""A topic as a sink: it has no files, so what is kept is which batch was sent last.

A batch is sent and then written down. A kill in between has it sent once more; one that was written down is
not sent again, as Spark may ask for after its own kill.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from barnabas.spark.errors import PipelineError
from barnabas.spark.pipeline.tables.notes import damaged, read_note, replace_note
from barnabas.spark.pipeline.tables.table import Compacted, RewindRefusedError, State, Step, Table, Write

if TYPE_CHECKING:
    import pyarrow as pa

_WHAT = "note of a batch that was sent"


class SentBatches(Table):
    """The batches of a topic, for the one process that sends; its folder is in the checkpoint."""

    has_each_batch: ClassVar = True

    def state(self, query: str | None) -> State | None:
        """The last batch that was sent whole."""
        path = self._ours / "sent.json"
        found = read_note(path, _WHAT)
        if found is None:
            return None
        if type(found.get("batch")) is not int:
            raise damaged(path, _WHAT, ValueError("it has no batch"))
        return State(
            found["batch"] if found.get("query") == query else None, {"type": "struct", "fields": []}, []
        )

    def sizes(self) -> list[int]:
        """None: a topic's bytes are the broker's."""
        return []

    def rows(self, columns: Sequence[str]) -> "Iterator[pa.RecordBatch]":
        """None are kept."""
        del columns
        return iter(())

    def recover(self) -> None:
        """Nothing: what was sent was sent."""

    def append(
        self, query: str, batch: int, schema: dict[str, Any], layout: Sequence[str], write: Write
    ) -> None:
        """Has the batch sent, and writes it down."""
        del schema, layout
        assert self._lock is not None
        for _ in write(self.folder):
            raise AssertionError("a topic has no files")
        replace_note(self._ours / "sent.json", {"query": query, "batch": batch})

    def require_rewind(self, query: str, batch: int) -> None:
        """Raises RewindRefusedError: what was sent stays."""
        del query, batch
        raise RewindRefusedError("sink.kind is topic: what was sent cannot be taken back")

    def rewind(self, query: str, batch: int) -> None:
        """Raises RewindRefusedError."""
        self.require_rewind(query, batch)

    def compact(self, target_bytes: int, step: Step, *, dry_run: bool = False) -> Compacted:
        """Raises PipelineError: a topic has no files of ours."""
        del target_bytes, step, dry_run
        raise PipelineError("sink.kind is topic: the broker merges what it keeps")
