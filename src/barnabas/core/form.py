"""Whether this installation is the compiled form: the hot modules as C, made from the same sources by mypyc.

`compiled.json` lists the sources that were compiled, with the digest of each (`hatch_build.py` writes it).
Python prefers a compiled module to its source, so an edited source has no effect until it is compiled again.
"""

import json
from hashlib import sha256
from pathlib import Path
from typing import Final

_SOURCES: Final = Path(__file__).parent.parent.parent
_RECORD: Final = _SOURCES / "barnabas" / "compiled.json"


def describe() -> str:
    """The form in words, for ``barnabas --version``."""
    if not _RECORD.exists():
        return "pure Python"
    stale = edited()
    return f"compiled; {len(stale)} edited since, run `make compile`" if stale else "compiled"


def edited() -> list[str]:
    """The sources that were edited since they were compiled, and so have no effect."""
    if not _RECORD.exists():
        return []
    compiled: dict[str, str] = json.loads(_RECORD.read_text())
    return [name for name, digest in compiled.items() if _digest(_SOURCES / name) != digest]


def _digest(source: Path) -> str:
    return sha256(source.read_bytes()).hexdigest() if source.exists() else ""
