"""All log directories of a broker: whose they are, and which of them serve (``log.dirs``)."""

from collections.abc import Callable, Iterator, Sequence

from barnabas.core.errors import ConfigError
from barnabas.log.directory import LogDirectory, MetaProperties
from barnabas.log.filesystem import Filesystem


class LogDirectories:
    """The directories that are configured, those out of service too, in the order of the configuration."""

    def __init__(self, filesystem: Filesystem, paths: Sequence[str]) -> None:
        self._all = [LogDirectory(filesystem, path.rstrip("/")) for path in paths]

    def __iter__(self) -> Iterator[LogDirectory]:
        return iter(self._all)

    def online(self) -> list[LogDirectory]:
        """Those that serve."""
        return [directory for directory in self._all if not directory.offline]

    def offline(self) -> list[LogDirectory]:
        """Those that a disk error took out of service."""
        return [directory for directory in self._all if directory.offline]

    def above(self, path: str) -> LogDirectory | None:
        """The online directory that contains this path, or is this path; the innermost of nested ones."""
        holding = [each for each in self.online() if f"{path}/".startswith(f"{each.path}/")]
        return max(holding, key=lambda each: len(each.path), default=None)

    def open(self, failed: Callable[[LogDirectory, OSError], object]) -> MetaProperties | None:
        """Locks them and returns whose they are; None when all are new. One that fails is handed to `failed`.

        Raises ConfigError when one is locked, when they disagree, or when none is usable.
        """
        found: dict[MetaProperties, str] = {}
        for directory in self.online():
            try:
                directory.open()
                meta = directory.read_meta()
            except OSError as error:
                failed(directory, error)
            else:
                if meta is not None:
                    found[meta] = directory.path
        self.require_one()
        if len(found) > 1:
            raise ConfigError(f"The log dirs belong to different brokers or clusters: {found}")
        return next(iter(found), None)

    def require_one(self) -> None:
        """Raises ConfigError when no directory is left that could be used."""
        if self.online():
            return
        reasons = ", ".join(f"{directory.path} ({_reason(directory.failure)})" for directory in self._all)
        raise ConfigError(
            f"Shutdown broker because none of the specified log dirs can be created or used: {reasons}: "
            "free space, give this user access, or name other directories in log.dirs"
        )

    def close(self) -> None:
        """Gives the locks back."""
        for directory in self._all:
            directory.close()

    def __repr__(self) -> str:
        return f"<LogDirectories {self._all}>"


def _reason(error: OSError | None) -> str:
    """What the system said, without the file where the directory is named anyway."""
    return error.strerror or str(error) if error is not None else "offline"
