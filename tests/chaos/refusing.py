"""The library that refuses one call of the disk (`refuse.c`), and the table that says which one."""

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

KINDS = ("open", "write", "sync", "rename", "unlink", "truncate", "read", "map", "look", "folder")
"""As in `refuse.c`; `look` is stat, `folder` is mkdir, `map` is mmap."""
_TABLE = struct.Struct(f"{len(KINDS) + 3}q")


def build(folder):
    """The library, or None without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    library = folder / "refuse.so"
    source = Path(__file__).with_name("refuse.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


class Refusal:
    """What is refused in processes that run in `environment`, and how many calls of each kind they made."""

    def __init__(self, file, library, under, suffix=""):
        file.write_bytes(bytes(_TABLE.size))
        with file.open("r+b") as opened:
            self._table = mmap.mmap(opened.fileno(), _TABLE.size)
        self.environment = {
            "LD_PRELOAD": str(library),
            "REFUSE_UNDER": str(under),
            "REFUSE_SUFFIX": suffix,
            "REFUSE_TABLE": str(file),
        }
        self.choose()

    def choose(self, kind=None, place=-1, code=0):
        """Counts from the beginning; call number `place` of this kind will fail. None: none will."""
        number = -1 if kind is None else KINDS.index(kind)
        self._table[:] = _TABLE.pack(*[0] * len(KINDS), number, place, code)

    @property
    def calls(self):
        """How many calls of each kind there were."""
        return dict(zip(KINDS, _TABLE.unpack(self._table[:])[: len(KINDS)], strict=True))
