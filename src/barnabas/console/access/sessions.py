"""`Sessions`: who has logged in. A token is kept as its hash, except those of scrapers (`gate`).

A session is bound to the address and the program that it was begun from, to the password that it was begun
with, and ends after a time, by the clock that nobody sets (`operations.clock.monotonic_ms`); a restart of the
console ends all.
"""

import hashlib
import secrets
from dataclasses import dataclass
from typing import Final, NamedTuple

LIFETIME_MS: Final = 12 * 3_600_000
IDLE_MS: Final = 3_600_000
_EACH_MAX: Final = 20
"""Sessions of one user: a further one ends the oldest."""
_ALL_MAX: Final = 2_000


class Origin(NamedTuple):
    """Where a request comes from."""

    address: str
    agent: str


@dataclass(slots=True)
class LoginSession:
    """Somebody who has logged in."""

    user: str
    origin: Origin
    proof: str
    """The password entry at that time: with another one the session is over."""
    begun_ms: int
    seen_ms: int
    roles: tuple[str, ...] = ()
    """Those that an identity provider has given."""
    lifetime_ms: int = LIFETIME_MS

    def is_over(self, now_ms: int) -> bool:
        """Whether its time is over."""
        return now_ms - self.begun_ms >= self.lifetime_ms or now_ms - self.seen_ms >= IDLE_MS


class Sessions:
    """The sessions by the hash of their token."""

    def __init__(self) -> None:
        self._sessions: dict[bytes, LoginSession] = {}

    def begin(
        self,
        user: str,
        origin: Origin,
        proof: str,
        now_ms: int,
        roles: tuple[str, ...] = (),
        lifetime_ms: int = LIFETIME_MS,
    ) -> str:
        """A new session's token: 256 random bits."""
        for key in [key for key, one in self._sessions.items() if one.is_over(now_ms)]:
            del self._sessions[key]
        own = [key for key, one in self._sessions.items() if one.user == user]
        for key in own:
            # They are the user's roles from now on: the end of this session brings no earlier ones back.
            self._sessions[key].roles = roles
        surplus = own[: len(own) - _EACH_MAX + 1] if len(own) >= _EACH_MAX else []
        for key in surplus:
            del self._sessions[key]
        while len(self._sessions) >= _ALL_MAX:
            del self._sessions[next(iter(self._sessions))]
        token = secrets.token_urlsafe(32)
        self._sessions[_key(token)] = LoginSession(user, origin, proof, now_ms, now_ms, roles, lifetime_ms)
        return token

    def find(self, token: str, origin: Origin, now_ms: int) -> LoginSession | None:
        """The session of a token, if it comes from where it was begun. One that comes from elsewhere is
        stolen, and ends.
        """
        key = _key(token)
        found = self._sessions.get(key)
        if found is None:
            return None
        if found.is_over(now_ms) or found.origin != origin:
            del self._sessions[key]
            return None
        found.seen_ms = now_ms
        return found

    def roles_of(self, user: str) -> tuple[str, ...]:
        """The roles that a provider gave to a user with the newest session."""
        # Pages are drawn on threads, while the loop begins and ends sessions: of a copy.
        newest = (one for one in reversed(list(self._sessions.values())) if one.user == user)
        return next((one.roles for one in newest), ())

    def end(self, token: str) -> None:
        """Ends a session; harmless when repeated."""
        self._sessions.pop(_key(token), None)


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogatepass")).digest()
