"""Errors of the system after which nothing is broken: the same call may succeed later.

Descriptors that run out, and a disk without room, refuse what needs them. What is there is served all the
same.
"""

import errno
from typing import Final

from barnabas.core.descriptors import is_shortage

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_full(error: OSError) -> bool:
    """Whether the disk has no room for this, or this user may take no more of it."""
    return error.errno in _FULL


def is_passing(error: OSError) -> bool:
    """Whether the call was refused for want of room or of descriptors."""
    return is_full(error) or is_shortage(error)
