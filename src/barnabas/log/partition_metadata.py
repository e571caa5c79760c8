"""``partition.metadata``: the topic id of a partition's directory (``PartitionMetadataFile``).

It ties the directory to one incarnation of a topic, so that a topic that was deleted and created again
never inherits the records of its namesake.
"""

from typing import Final

from barnabas.core.errors import BarnabasError
from barnabas.core.ids import Uuid, uuid_from_text, uuid_text
from barnabas.log.filesystem import Filesystem

FILE_NAME: Final = "partition.metadata"


class PartitionMetadataError(BarnabasError):
    """A file that says nothing usable."""


def read_topic_id(filesystem: Filesystem, directory: str) -> Uuid | None:
    """The id in the directory's file; None when there is none or when a crash left it empty.

    Raises PartitionMetadataError.
    """
    path = f"{directory}/{FILE_NAME}"
    try:
        text = filesystem.read(path).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    if not text.strip("\0\n "):
        return None
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if fields.get("version") != "0":
        raise PartitionMetadataError(f"{path}: unrecognized version {fields.get('version')!r}")
    try:
        return uuid_from_text(fields["topic_id"])
    except (KeyError, ValueError) as error:
        raise PartitionMetadataError(f"{path}: no topic id in it ({error})") from error


def write_topic_id(filesystem: Filesystem, directory: str, topic_id: Uuid) -> None:
    """Writes the file; not synced: after a loss of power the controller sends the id again."""
    text = f"version: 0\ntopic_id: {uuid_text(topic_id)}"
    filesystem.write_atomic(f"{directory}/{FILE_NAME}", text.encode(), sync=False)
