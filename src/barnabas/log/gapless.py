"""The note in a partition's directory that says that no offset is missing between the records of its log.

Theory of operation
-------------------
A gap in a log is one of two things. A cleaner left it, or the leader of a copy had it: then what lies behind it counts. Or
a loss of power took the end of a segment that was not synced: then what lies behind belongs to a log that was never
whole here. The files look the same, and the configuration of the topic says nothing, because it is that of now.

So a log that begins here begins with this note, and loses it for good before the first gap comes in: before a cleaned
segment takes the place of others, and before a follower appends what does not begin at its end. While the note is there a
gap is a loss; without it nobody knows, and the gap stays, as it does in Kafka.

A broker of Apache Kafka that opens the directory knows nothing of the note and leaves gaps of its own. Therefore the name
ends as the names of files do that are on their way out: Kafka removes these before it loads a log.
"""

from typing import Final

from barnabas.log.filesystem import Filesystem

FILE_NAME: Final = "gapless.deleted"


def is_noted(filesystem: Filesystem, directory: str) -> bool:
    """Whether every gap in the log of this directory is a loss."""
    return filesystem.exists(f"{directory}/{FILE_NAME}")


def note(filesystem: Filesystem, directory: str) -> None:
    """Notes it of a log without records. Raises OSError."""
    filesystem.open(f"{directory}/{FILE_NAME}", create=True)


def withdraw(filesystem: Filesystem, directory: str) -> None:
    """Takes the note away; durable with the next sync of the directory. Raises OSError."""
    filesystem.remove(f"{directory}/{FILE_NAME}")
