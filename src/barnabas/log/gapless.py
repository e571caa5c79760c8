"""The note in a partition's directory that says that no offset is missing between the records of its log.

Theory of operation
-------------------
A gap in the offsets of a log has one of two causes. A cleaner made it, here or at the leader that this log
was copied from: then the records behind the gap count. Or a loss of power took the end of a segment that was
not synced: then the records behind it go too, and the leader sends all of them again. The files look the same
in both cases. The topic's configuration does not tell either, because it may have changed since.

So a log that is created here gets this note. It is removed for good before the first gap comes in: before a
cleaned segment takes the place of others, and before a follower appends what does not begin at its end. With
the note a gap is a loss. Without it the cause is not known, and the gap stays, as it does in Kafka.

A broker of Apache Kafka that opens the directory does not know the note, and may leave gaps of its own.
Therefore its name ends in ``.deleted``: Kafka removes all such files before it loads a log.
"""

from typing import Final

from barnabas.log.filesystem import Filesystem

FILE_NAME: Final = "gapless.deleted"


def is_noted(filesystem: Filesystem, directory: str) -> bool:
    """Whether every gap in the log of this directory is a loss."""
    return filesystem.exists(f"{directory}/{FILE_NAME}")


def note(filesystem: Filesystem, directory: str) -> None:
    """Leaves the note; only for a log without records. Raises OSError."""
    filesystem.open(f"{directory}/{FILE_NAME}", create=True)


def withdraw(filesystem: Filesystem, directory: str) -> None:
    """Removes the note; durable with the next sync of the directory. Raises OSError."""
    filesystem.remove(f"{directory}/{FILE_NAME}")
