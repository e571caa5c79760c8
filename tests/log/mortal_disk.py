"""A simulated disk whose process dies at a chosen step."""

from barnabas.testing.disk import SimulatedFilesystem


class DiedError(BaseException):
    """The process is gone; nothing in it handles that."""


class MortalDisk(SimulatedFilesystem):
    """A disk whose process dies before the change of so many."""

    changes_left = None

    def _step(self):
        if self.changes_left is not None:
            if not self.changes_left:
                raise DiedError
            self.changes_left -= 1

    def check(self, path, operation):
        if operation in {"write", "sync", "name"}:
            self._step()
        super().check(path, operation)
