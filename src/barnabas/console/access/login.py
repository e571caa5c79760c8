"""`Login`: passwords, sessions and roles of a console that others can reach."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from starlette.concurrency import run_in_threadpool

from barnabas.console.access.oidc import PREFIX, Begun, OidcRefusedError, OpenIdProvider
from barnabas.console.access.passwords import NAME_MAX, NOBODY, PASSWORD_MAX, PasswordFile
from barnabas.console.access.roles import READER, Grants, RoleFile
from barnabas.console.access.sessions import Origin, Sessions
from barnabas.core.errors import BarnabasError
from barnabas.core.eventlog import EventLog
from barnabas.operations.clock import monotonic_ms

T = TypeVar("T")
_log = EventLog("console")
_FAILED_MAX: Final = 10
"""Wrong passwords for one name from one address, in a while; three times as many for all names."""
_WHILE_MS: Final = 300_000
_LINES_MAX: Final = 100
"""Lines of the log about log-ins that were refused, in a while: a stranger who claims to come back from the
provider can be refused a thousand times a second.
"""
OIDC_LIFETIME_MS: Final = 3_600_000
_HASHES_MAX: Final = 2
"""At once: each takes 32 MB and a tenth of a second of a processor."""
_WAITING_MAX: Final = 20
_ASKING_MAX: Final = 8
"""Who waits for the identity provider at once."""
_ASKING_EACH_MAX: Final = 6
"""The same from one address: it leaves others a place."""
_TRACKED_MAX: Final = 10_000


class TooManyError(BarnabasError):
    """Too many tries (HTTP 429)."""


class RefusedLoginError(BarnabasError):
    """A name or a password that is not right; which of them is not said (HTTP 401)."""


@dataclass(slots=True)
class Login:
    """Raises UnreadableFileError everywhere where a file is broken: then nobody gets in, and nobody stays.

    `now_ms` is of a clock that nobody sets (`operations.clock.monotonic_ms`): a time zone or a wrong clock
    that is put right ends no session and prolongs none.
    """

    passwords: PasswordFile | None = None
    """None where everybody comes from the provider."""
    roles: RoleFile | None = None
    provider: OpenIdProvider | None = None
    sessions: Sessions = field(default_factory=Sessions)
    _failed: dict[tuple[str, str | None], deque[int]] = field(default_factory=dict)
    _hashing: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_HASHES_MAX))
    _waiting: int = 0
    _at_provider: Counter[str] = field(default_factory=Counter)
    """Who asks the provider now, by address."""
    _told: deque[int] = field(default_factory=deque)
    """When the log was told of log-ins that were refused."""

    async def log_in(self, user: str, password: str, origin: Origin, now_ms: int) -> str:
        """A token. Raises RefusedLoginError, TooManyError."""
        keys = ((origin.address, user[:NAME_MAX]), (origin.address, None))
        for key, most in zip(keys, (_FAILED_MAX, 3 * _FAILED_MAX), strict=True):
            if self._count(key, now_ms) >= most:
                raise TooManyError("too many wrong passwords: wait some minutes")
        if self._waiting >= _WAITING_MAX:
            raise TooManyError("too many log in at once: try again")
        known = None if self.passwords is None else self.passwords.entry(user)
        entry = known or NOBODY
        # It counts as wrong until it is right: tries that run at once are counted, too.
        for key in keys:
            self._failed.setdefault(key, deque(maxlen=3 * _FAILED_MAX)).append(now_ms)
        self._waiting += 1
        try:
            async with self._hashing:
                is_right = await asyncio.to_thread(entry.matches, password[: PASSWORD_MAX + 1])
        finally:
            self._waiting -= 1
        if known is None or not is_right:
            self._tell_refusal(user=user[:NAME_MAX], address=origin.address)
            raise RefusedLoginError("the name or the password is not right")
        for key in keys:
            if tries := self._failed.get(key):
                tries.pop()
        _log.info("console.login", user=user, address=origin.address)
        return self.sessions.begin(user, origin, known.text(), now_ms)

    def _count(self, key: tuple[str, str | None], now_ms: int) -> int:
        tries = self._failed.get(key)
        if tries is None:
            if len(self._failed) >= _TRACKED_MAX:
                del self._failed[next(iter(self._failed))]
            return 0
        return _recent(tries, now_ms)

    def _tell_refusal(self, **fields: object) -> None:
        now_ms = monotonic_ms()
        if _recent(self._told, now_ms) < _LINES_MAX:
            self._told.append(now_ms)
            _log.warning("console.login_refused", **fields)

    def user(self, token: str, origin: Origin, now_ms: int) -> str | None:
        """Who has this token; None for nobody. A user who is no longer in the file, or has another password
        now, is nobody.
        """
        session = self.sessions.find(token, origin, now_ms)
        if session is None:
            return None
        if session.user.startswith(PREFIX):
            return session.user
        entry = None if self.passwords is None else self.passwords.entry(session.user)
        if entry is None or entry.text() != session.proof:
            self.sessions.end(token)
            return None
        return session.user

    def grants(self, user: str) -> Grants:
        """What a user may do now."""
        if self.roles is None:
            return READER
        return self.roles.grants(user, self.sessions.roles_of(user) if user.startswith(PREFIX) else ())

    async def begin_at_provider(self, target: str, address: str) -> Begun:
        """Where a browser at `address` goes that wants to `target`. Raises OidcRefusedError, TooManyError."""
        assert self.provider is not None, "the route is there with a provider"
        return await self._ask(address, self.provider.begin, target, address)

    async def _ask(self, address: str, question: Callable[..., T], *given: Any) -> T:
        """Asks the provider on a thread; one that hangs takes a few threads, not all: those of asyncio are
        five on a machine with one processor, and passwords are looked at there.
        """
        asking = self._at_provider
        if asking.total() >= _ASKING_MAX or asking[address] >= _ASKING_EACH_MAX:
            raise TooManyError("too many log in at once: try again")
        asking[address] += 1
        try:
            return await run_in_threadpool(question, *given)
        finally:
            asking[address] -= 1
            if not asking[address]:
                del asking[address]

    async def end_at_provider(self, given: Mapping[str, str], state: str, origin: Origin) -> tuple[str, str]:
        """A token for whoever comes back from the provider, and where they wanted to. Their session is short:
        what the provider takes away counts with the next one, which it begins without a question for those
        who are logged in there. Raises OidcRefusedError, TooManyError.
        """
        assert self.provider is not None, "the route is there with a provider"
        try:
            user, target = await self._ask(origin.address, self.provider.end, given, state)
        except OidcRefusedError as error:
            self._tell_refusal(reason=error, address=origin.address)
            raise
        _log.info("console.login", user=user.name, roles=len(user.roles), address=origin.address)
        token = self.sessions.begin(user.name, origin, "", monotonic_ms(), user.roles, OIDC_LIFETIME_MS)
        return token, target


def _recent(times: deque[int], now_ms: int) -> int:
    """How many of the times are in the last `_WHILE_MS`; older ones are removed."""
    while times and now_ms - times[0] > _WHILE_MS:
        times.popleft()
    return len(times)
