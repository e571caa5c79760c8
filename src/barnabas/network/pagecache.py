"""Whether a range of a file lies in the page cache, and how to bring it there.

``sendfile`` of a cold range blocks the whole loop for 2-5 ms a megabyte. A read of one byte with
``RWF_NOWAIT`` fails at once where the page is not in memory (13 us for a megabyte, a probe each 64 KB); what
is cold is read once by a thread, which waits for the disk without the interpreter lock.
"""

import errno
import os
from typing import Final

PROBE_BYTES: Final = 64 * 1024
"""One probe stands for this much: the kernel reads ahead at least as far."""

_READ_BYTES: Final = 256 * 1024
_NOWAIT: Final[int | None] = getattr(os, "RWF_NOWAIT", None)
_UNSUPPORTED: Final = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}


def warm_until(descriptor: int, position: int, end: int) -> int:
    """The end of the part of [position, end) that starts at `position` and is in memory; `position` if none.

    Where the file system cannot tell, everything counts as warm. Raises no OSError: reading will.
    """
    if _NOWAIT is None:
        return end
    byte = bytearray(1)
    while position < end:
        try:
            os.preadv(descriptor, (byte,), position, _NOWAIT)
        except BlockingIOError:
            return position
        except OSError as error:
            if error.errno in _UNSUPPORTED:
                return end
            return position
        position += PROBE_BYTES - position % PROBE_BYTES
    return end


def read_ahead(descriptor: int, position: int, end: int) -> None:
    """Reads the range so that it is in memory; blocks, so a thread calls it. Raises OSError."""
    if hasattr(os, "posix_fadvise"):  # not on macOS; what follows reads all the same
        os.posix_fadvise(descriptor, position, end - position, os.POSIX_FADV_WILLNEED)
    while position < end:
        data = os.pread(descriptor, min(_READ_BYTES, end - position), position)
        if not data:
            return
        position += len(data)
