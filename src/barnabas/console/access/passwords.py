"""`PasswordFile`: who may log in. A line is ``NAME:scrypt$N$R$P$SALT$HASH`` (RFC 7914), base64 for bytes."""

import base64
import binascii
import hashlib
import hmac
import os
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas.console.access.files import WatchedFile
from barnabas.operations.errors import OperationError

NAME_MAX: Final = 100
PASSWORD_MAX: Final = 1024
_N, _R, _P = 1 << 15, 8, 1
_SALT_BYTES: Final = 16
_MEMORY_MAX: Final = 256 << 20
"""An entry that needs more than this is refused: it would be a way to stop the console."""


@dataclass(frozen=True, slots=True)
class PasswordEntry:
    """A salted hash, and what it takes to make it."""

    n: int
    r: int
    p: int
    salt: bytes
    hash: bytes

    def matches(self, password: str) -> bool:
        """Whether it is this one's. It takes about a tenth of a second: not for an event loop."""
        made = _hashed(password, self.salt, self.n, self.r, self.p, len(self.hash))
        return hmac.compare_digest(made, self.hash)

    def text(self) -> str:
        """As it stands in the file."""
        salt, made = (base64.b64encode(each).decode() for each in (self.salt, self.hash))
        return f"scrypt${self.n}${self.r}${self.p}${salt}${made}"


def entry_of(password: str) -> PasswordEntry:
    """A new entry. Raises OperationError for a password that is empty or too long."""
    if not 1 <= len(password) <= PASSWORD_MAX:
        raise OperationError(f"a password has 1 to {PASSWORD_MAX} characters")
    salt = secrets.token_bytes(_SALT_BYTES)
    return PasswordEntry(_N, _R, _P, salt, _hashed(password, salt, _N, _R, _P, 32))


NOBODY: Final = PasswordEntry(_N, _R, _P, b"\0" * _SALT_BYTES, b"\0" * 32)
"""What the password of an unknown name is compared with, so that it takes as long as a known one's."""


def _hashed(password: str, salt: bytes, n: int, r: int, p: int, length: int) -> bytes:
    # What a terminal or a browser sent may have lone surrogates.
    data = password.encode(errors="surrogatepass")
    return hashlib.scrypt(data, salt=salt, n=n, r=r, p=p, dklen=length, maxmem=_MEMORY_MAX)


class PasswordFile:
    """The entries by name, as the file has them now."""

    def __init__(self, path: Path) -> None:
        self._file = WatchedFile(path, parsed)

    def entry(self, name: str) -> PasswordEntry | None:
        """Of this name. Raises UnreadableFileError."""
        return self._file.read().get(name)


def parsed(text: str) -> dict[str, PasswordEntry]:
    """The entries of a file. Raises ValueError, which repeats nothing of a line."""
    found = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, rest = line.strip().partition(":")
        try:
            if not colon:
                raise ValueError
            check_name(name)
            found[name] = _parsed_entry(rest)
        except (ValueError, OperationError):
            raise ValueError(f"line {number} is no NAME:scrypt$...") from None
    return found


def _parsed_entry(text: str) -> PasswordEntry:
    scheme, *numbers, salt, made = text.split("$")
    n, r, p = map(int, numbers)
    entry = PasswordEntry(
        n, r, p, base64.b64decode(salt, validate=True), base64.b64decode(made, validate=True)
    )
    is_bounded = n > 1 and not n & (n - 1) and r > 0 and 0 < p <= 16 and 128 * n * r <= _MEMORY_MAX // 2
    if scheme != "scrypt" or not is_bounded or not 16 <= len(entry.hash) <= 64 or len(entry.salt) < 8:
        raise ValueError
    return entry


def check_name(name: str) -> None:
    """Raises OperationError for what is no name of a user."""
    if not 1 <= len(name) <= NAME_MAX or not name.isprintable() or ":" in name or name != name.strip():
        raise OperationError(f"a name has 1 to {NAME_MAX} printable characters, and no colon")
    if name.startswith("#"):
        raise OperationError("a name does not begin with #")


def set_password(path: Path, name: str, password: str) -> None:
    """Puts an entry into a file, or replaces that of the name, whole or not at all; only its owner reads it.
    Raises OperationError.
    """
    check_name(name)
    line = f"{name}:{entry_of(password).text()}"
    try:
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        parsed("\n".join(lines))
        kept = [each for each in lines if each.strip().partition(":")[0] != name]
        path.parent.mkdir(parents=True, exist_ok=True)
        # mkstemp's file is its owner's alone.
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write("\n".join([*kept, line]) + "\n")
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except (OSError, ValueError, binascii.Error) as error:
        raise OperationError(f"{path} cannot be written: {error}") from error
