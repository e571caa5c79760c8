"""`DelegationTokenManager`: the tokens of the cluster, kept in memory, changed and watched
(``DelegationTokenManagerZk``).

Theory of operation
-------------------
Every broker knows all tokens: it reads them when it starts, and a notice names each one that came, changed or
went since (`ChangeNotices`). Any broker makes, renews and ends tokens; the store has the last word. Changes
and readings of one broker are one queue. After a new session all tokens are read again.

With an unreadable znode nobody gets in. The controller removes tokens that have expired.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple

from barnabas.cluster.metadata.change_notices import ChangeNotices, in_background
from barnabas.cluster.metadata.registration import ensure_paths
from barnabas.cluster.store import token_znodes
from barnabas.cluster.store.absent import children_if_there, delete_if_there
from barnabas.cluster.store.contract import MetadataStore, NoNodeError
from barnabas.cluster.store.unreadable import readable
from barnabas.core.clock import Clock
from barnabas.core.config import Config
from barnabas.core.delegation_token import (
    DelegationToken,
    TokenCredential,
    TokenInformation,
    credential_of,
    secret_of,
)
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.in_order import InOrder
from barnabas.core.pending import Pending, Steps, steps
from barnabas.core.scram import ScramMechanism

_log: Final = EventLog("cluster.delegation_tokens")


class TokenSettings(NamedTuple):
    """What the configuration says of tokens."""

    key: str | None = None
    """delegation.token.secret.key; without one there are no tokens."""
    max_lifetime_ms: int = 604_800_000
    expiry_ms: int = 86_400_000
    """How long a token is good until it is renewed."""

    @classmethod
    def of(cls, config: Mapping[str, object] | Config) -> "TokenSettings":
        """Of a broker's configuration."""
        new = config["delegation.token.secret.key"]
        key = config["delegation.token.master.key"] if new is None else new
        lifetime, expiry = (
            config["delegation.token.max.lifetime.ms"],
            config["delegation.token.expiry.time.ms"],
        )
        assert isinstance(lifetime, int)
        assert isinstance(expiry, int)
        return cls(str(key) if key else None, lifetime, expiry)

    def __repr__(self) -> str:
        return f"<TokenSettings {'on' if self.key else 'off'}>"


class DelegationTokenManager:
    """All tokens, as far as the store's notices have come."""

    def __init__(
        self, store: MetadataStore, clock: Clock, settings: TokenSettings, new_id: Callable[[], str]
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._new_id = new_id
        self._tokens: dict[str, TokenInformation] = {}
        self._ids: dict[bytes, str] = {}
        """By the secret."""
        self._credentials: dict[tuple[ScramMechanism, str], TokenCredential] = {}
        """Of tokens that somebody has logged in with."""
        self._queue = InOrder()
        self._notices = ChangeNotices(
            store,
            clock,
            token_znodes.NOTICE,
            decode=token_znodes.decode_notice,
            apply=self._read,
            on_notice=self._read_notices,
        )

    @property
    def enabled(self) -> bool:
        return self._settings.key is not None

    @steps
    def start(self) -> Steps[None]:
        """Watches the notices and reads all tokens, where there may be any."""
        if self.enabled:
            yield ensure_paths(self._store, token_znodes.PATHS)
            self._store.listen(self)
            yield self._queue.run(self._watch_and_load)

    def session_expired(self) -> Pending[None]:
        """Nothing has to happen before the next session."""
        return Pending.of(None)

    def session_renewed(self) -> None:
        """The watch ended with the session, and notices may have come and gone."""
        self._in_background(self._watch_and_load)

    # -------------------------------------------------------------------------------------- log-ins

    def find(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        """What lets somebody in with a token; None where there is no such token, or its owner is no user."""
        information = self._tokens.get(token_id)
        if information is None or not information.owner_is_user:
            return None
        known = self._credentials.get((mechanism, token_id))
        if known is None:
            # Made at the first log-in, not for each of thousands of tokens at the start.
            known = credential_of(mechanism, information, self._secret(token_id))
            self._credentials[mechanism, token_id] = known
        return known

    # -------------------------------------------------------------------------------------- requests

    def create(
        self, owner: str, requester: str, renewers: Iterable[str], max_lifetime_ms: int
    ) -> Pending[DelegationToken]:
        """A new token (``createToken``). Fails with DELEGATION_TOKEN_AUTH_DISABLED."""
        self._require_enabled()
        settings, now_ms = self._settings, int(self._clock.time_ms())
        # 0 and less ask for as long as there may be.
        lifetime_ms = (
            min(max_lifetime_ms, settings.max_lifetime_ms)
            if max_lifetime_ms > 0
            else settings.max_lifetime_ms
        )
        token = TokenInformation(
            self._new_id(),
            owner,
            requester,
            tuple(renewers),
            now_ms,
            min(now_ms + lifetime_ms, now_ms + settings.expiry_ms),
            now_ms + lifetime_ms,
        )
        return self._queue.run(partial(self._write, token, is_new=True))

    def renew(self, principal: str, secret: bytes, period_ms: int) -> Pending[int]:
        """Lets a token live on; when it ends then (``renewToken``). Fails with KafkaError."""
        self._require_enabled()
        return self._queue.run(partial(self._renew, principal, secret, period_ms))

    @steps
    def _renew(self, principal: str, secret: bytes, period_ms: int) -> Steps[int]:
        token = self._owned(principal, secret)
        ends_ms: int = yield self._end_in(token, self._settings.expiry_ms if period_ms < 0 else period_ms)
        return ends_ms

    def expire(self, principal: str, secret: bytes, period_ms: int) -> Pending[int]:
        """Sets when a token ends, at once with less than 0; when it does (``expireToken``).
        Fails with KafkaError.
        """
        self._require_enabled()
        return self._queue.run(partial(self._expire, principal, secret, period_ms))

    @steps
    def _expire(self, principal: str, secret: bytes, period_ms: int) -> Steps[int]:
        token, now_ms = self._owned(principal, secret), int(self._clock.time_ms())
        if period_ms < 0:
            yield self._remove(token)
            return now_ms
        ends_ms: int = yield self._end_in(token, period_ms)
        return ends_ms

    @steps
    def _end_in(self, token: TokenInformation, period_ms: int) -> Steps[int]:
        """Lets a token end in so long, and at its own end at most; when that is."""
        now_ms = int(self._clock.time_ms())
        if token.expired(now_ms):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
        changed = replace(token, expires_ms=min(token.max_ms, now_ms + period_ms))
        yield self._write(changed, is_new=False)
        return changed.expires_ms

    def tokens(self) -> list[TokenInformation]:
        """All of them. Raises DELEGATION_TOKEN_AUTH_DISABLED."""
        self._require_enabled()
        return list(self._tokens.values())

    def with_secret(self, token: TokenInformation) -> DelegationToken:
        """A token as its owner sees it (``getDelegationToken``)."""
        return DelegationToken(token, self._secret(token.token_id))

    def expire_tokens(self) -> None:
        """Removes those that have expired (``expireTokens``); the controller does."""
        if self.enabled:
            self._in_background(self._remove_expired)

    @steps
    def _remove_expired(self) -> Steps[None]:
        now_ms = self._clock.time_ms()
        for token in [each for each in self._tokens.values() if each.expired(now_ms)]:
            yield self._remove(token)

    def _require_enabled(self) -> None:
        if not self.enabled:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)

    def _owned(self, principal: str, secret: bytes) -> TokenInformation:
        """The token of a secret, for one who may change it. Raises KafkaError."""
        token = self._tokens.get(self._ids.get(secret, ""))
        if token is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        if not token.may_be_renewed_by(principal):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
        return token

    # ------------------------------------------------------------------------------------- the store

    @steps
    def _write(self, token: TokenInformation, *, is_new: bool) -> Steps[DelegationToken]:
        """Writes a token, and tells every broker (``updateToken``)."""
        path, payload = token_znodes.token_path(token.token_id), token_znodes.encode_token(token)
        if is_new:
            yield self._store.create(path, payload)
        else:
            try:
                yield self._store.set(path, payload)
            except NoNodeError:
                # Another broker has removed it, and its notice has not come yet: it must not come back.
                self._forget(token.token_id)
                raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND) from None
        self._keep(token)
        yield self._notices.write(token.token_id.encode())
        _log.info("delegation_token.written", id=token.token_id, owner=token.owner, expires=token.expires_ms)
        return self.with_secret(token)

    @steps
    def _remove(self, token: TokenInformation) -> Steps[None]:
        yield delete_if_there(self._store, token_znodes.token_path(token.token_id))
        self._forget(token.token_id)
        yield self._notices.write(token.token_id.encode())
        _log.info("delegation_token.removed", id=token.token_id, owner=token.owner)

    @steps
    def _watch_and_load(self) -> Steps[None]:
        yield self._notices.watch()
        there = yield children_if_there(self._store, token_znodes.TOKENS)
        # After a new session also those whose znode went meanwhile.
        for token_id in dict.fromkeys([*there, *self._tokens]):
            yield self._read(token_id)

    @steps
    def _read(self, token_id: str) -> Steps[None]:
        path = token_znodes.token_path(token_id)
        try:
            data, _ = yield self._store.get(path)
        except NoNodeError:
            self._forget(token_id)
            return
        token = readable(self._store, path, token_znodes.decode_token, data)
        if token is None or token.token_id != token_id:
            self._forget(token_id)
        else:
            self._keep(token)

    def _keep(self, token: TokenInformation) -> None:
        self._drop_credentials(token.token_id)
        self._tokens[token.token_id] = token
        self._ids[self._secret(token.token_id)] = token.token_id

    def _forget(self, token_id: str) -> None:
        self._drop_credentials(token_id)
        if self._tokens.pop(token_id, None) is not None:
            self._ids.pop(self._secret(token_id), None)

    def _drop_credentials(self, token_id: str) -> None:
        for mechanism in ScramMechanism:
            self._credentials.pop((mechanism, token_id), None)

    def _secret(self, token_id: str) -> bytes:
        assert self._settings.key is not None, "without a key there are no tokens"
        return secret_of(token_id, self._settings.key)

    def _read_notices(self) -> None:
        self._in_background(self._notices.read)

    def _in_background(self, work: Callable[[], Pending[None]]) -> None:
        in_background(self._queue, work, lambda error: _log.error("delegation_tokens.not_read", error=error))

    def __repr__(self) -> str:
        return f"<DelegationTokenManager {self._settings!r} {len(self._tokens)}>"
