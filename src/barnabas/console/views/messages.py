"""Records of a topic, for a page and REST: `operations.messages` reads them."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from barnabas.client import AsyncConsumer
from barnabas.console.console import Console
from barnabas.console.figure import Figure
from barnabas.console.reading import Freshness
from barnabas.console.views.live import state_of
from barnabas.console.watched import WatchedCluster
from barnabas.operations.clock import now_ms
from barnabas.operations.messages.browse import MessageQuery, MessagesView, browse
from barnabas.operations.messages.decoding import Choice
from barnabas.operations.messages.reading import RecordReader


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadMessages(MessagesView):
    """What was found, where, and whether that is known."""

    state: Figure
    """How many records, or why that is not known."""
    is_pending: bool
    """Whether the question goes on: who asks again may get the answer."""
    left_out: Sequence[int]
    """Partitions without a leader, which were not looked at."""


async def messages(
    console: Console,
    watched: WatchedCluster,
    wanted: MessageQuery,
    *,
    key: Choice = "auto",
    value: Choice = "auto",
) -> ReadMessages:
    """Records as they may be seen. Raises OperationError for what cannot be read, KafkaError,
    UnreadableFileError for rules of masking that are broken.
    """
    wanted = replace(wanted, left_out=_without_leader(watched, wanted.topic))
    masks = console.masks(watched.name, wanted.topic)
    reader = RecordReader(wanted.topic, masks, console.schemas, key=key, value=value)

    async def read(consumer: AsyncConsumer) -> MessagesView:
        return await browse(consumer, wanted, reader)

    # The masks, too: what was read before they changed is not what may be seen now.
    asked = ("messages", repr(wanted), key, value, masks)
    answer = await watched.ask_records(asked, read, **wanted.options)
    found = answer.reading.value
    if found is None:
        found = MessagesView(wanted.topic, [], [], [], 0, 0, None, None, "nothing was read yet", bool(masks))
    given = {one.name: getattr(found, one.name) for one in fields(found)}
    state = state_of(answer, len(found.records))
    return ReadMessages(**given, state=state, is_pending=answer.is_pending, left_out=wanted.left_out)


def _without_leader(watched: WatchedCluster, topic: str) -> list[int]:
    """The partitions that nobody leads, where that is known."""
    topics = watched.snapshot.topics
    found = (topics.value or {}).get(topic) if topics.state(now_ms()) is Freshness.OK else None
    return [one.partition for one in found.partitions if one.leader < 0] if found else []
