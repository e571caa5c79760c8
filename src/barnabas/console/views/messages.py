"""Records of a topic, for a page and REST: `operations.messages` reads, this bounds how many read at once."""

from barnabas.console.console import Console
from barnabas.console.watched import WatchedCluster
from barnabas.operations.errors import OperationError
from barnabas.operations.messages.browse import MessageQuery, MessagesView, browse
from barnabas.operations.messages.decoding import Choice
from barnabas.operations.messages.reading import RecordReader


async def messages(
    console: Console,
    watched: WatchedCluster,
    wanted: MessageQuery,
    *,
    key: Choice = "auto",
    value: Choice = "auto",
) -> MessagesView:
    """Records as they may be seen. Raises OperationError for what cannot be read, KafkaError,
    UnreadableFileError for rules of masking that are broken.
    """
    reader = RecordReader(
        wanted.topic, console.masks(watched.name, wanted.topic), console.schemas, key=key, value=value
    )
    if not watched.readers.acquire(blocking=False):
        raise OperationError("too many look at records of this cluster now: try again in a moment")
    try:
        return await watched.read(lambda consumer: browse(consumer, wanted, reader), **wanted.options)
    finally:
        watched.readers.release()
