"""The cleanings that run, and what each has written (``LogCleanerManager``): what everybody but the cleaners
needs to know.
"""

from typing import TYPE_CHECKING

from barnabas.log.checkpoints import CLEANED, Checkpoints
from barnabas.log.cleaner.swap import remove_output
from barnabas.log.log import Log

if TYPE_CHECKING:
    from barnabas.log.cleaner.work import Cleaning


class Cleanings:
    """At most one for a log."""

    __slots__ = ("_checkpoints", "outputs", "running")

    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints
        self.running: dict[str, Cleaning] = {}
        """The logs that are being cleaned, by directory."""
        self.outputs: dict[Log, int] = {}
        """The base offset of what is being written for a log, as long as that can be given up."""

    def is_running(self, log: Log) -> bool:
        """Whether a cleaner reads or replaces segments of the log."""
        return log.directory in self.running

    def abort(self, log: Log) -> None:
        """``abortCleaning``: drops what was written for this log; the child notices before its next block.

        Raises KAFKA_STORAGE_ERROR.
        """
        base_offset = self.outputs.pop(log, None)
        if base_offset is not None:
            remove_output(log, base_offset)

    def cut(self, directory: str, lowest_cut: int, is_dirtier: bool) -> None:
        """Records at the end of a log are about to be cut off (`LogListener.cut`)."""
        cleaning = self.running.get(directory)
        # What superseded records that the cleaning drops may be among those that go.
        if cleaning is not None and lowest_cut < cleaning.end_offset:
            for log in [log for log in self.outputs if log.directory == directory]:
                self.abort(log)
        # ``maybeTruncateCheckpoint``: others will have the offsets of what goes, and nobody has cleaned
        # those.
        if is_dirtier:
            self._checkpoints.write(CLEANED, only=directory.rpartition("/")[0])

    def checkpoint(self, log: Log) -> None:
        """``updateCheckpoints``: writes up to where the logs in the directory of this one are cleaned."""
        self._checkpoints.write(CLEANED, only=log.parent_dir)

    def __repr__(self) -> str:
        return f"<Cleanings {sorted(self.running)}>"
