"""The keys with which an authorization server signs its tokens (``RefreshingHttpsJwks``, RFC 7517).

Theory of operation
-------------------
The set of keys is read before the listener serves, and again every ``jwks.endpoint.refresh.ms``. A token that
names a key which is not in the set is refused, and brings the next reading forward: the server may have new
keys. A key that is not there either is not asked for again within a minute, and clients that name keys at
random cause one reading in ten seconds at most. One reading is under way at a time, on a thread of its own; a
server that hangs, fails or lies leaves the keys that are known as they are.
"""

import json
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from barnabas.core.clock import Clock, Timer
from barnabas.core.errors import BarnabasError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending
from barnabas.network.errors import FetchError
from barnabas.network.sasl.oauthbearer.token import shown_url
from barnabas.network.threads import in_thread

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

_log: Final = EventLog("network.jwks")

TIMEOUT_S: Final = 20.0
BYTES_MAX: Final = 256 * 1024
KEYS_MAX: Final = 100
RSA_BITS_MIN: Final = 2048
MISSING_IDS_MAX: Final = 16
MISSING_ID_MS: Final = 60_000
"""For how long a key that is not in the set is not looked for again."""
EXPEDITED_MS: Final = 10_000
"""The least time between two readings that tokens bring forward."""

ALGORITHMS: Final = {
    "RSA": frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
    "P-256": frozenset({"ES256"}),
    "P-384": frozenset({"ES384"}),
    "P-521": frozenset({"ES512"}),
    "Ed25519": frozenset({"EdDSA"}),
    "oct": frozenset({"HS256", "HS384", "HS512"}),
}
"""By the type of a key, or its curve: a key is good for nothing else, whatever a token says."""


class JwksEndpoint(NamedTuple):
    """Where the keys are, and how often they are read."""

    url: str
    refresh_ms: int
    retry_ms: int
    retry_max_ms: int
    tls_options: tuple[tuple[str, str], ...] = ()
    """The ``ssl.*`` of the line of JAAS."""

    @property
    def shown(self) -> str:
        """The URL as logs and errors name it."""
        return shown_url(self.url)


class VerificationKey(NamedTuple):
    """One key of the set."""

    id: str | None
    key: Any
    algorithms: frozenset[str]


class Jwks:
    """The keys of one endpoint."""

    def __init__(
        self, endpoint: JwksEndpoint, clock: Clock, tls: "Callable[[], ssl.SSLContext | None]"
    ) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._tls = tls
        self._keys: list[VerificationKey] = []
        self._reading: Pending[None] | None = None
        self._timer: Timer | None = None
        self._backoff_ms = 0
        self._retry_until_ms = 0.0
        self._missing: OrderedDict[str, float] = OrderedDict()
        self._expedite_from_ms = 0.0
        self._closed = False

    def start(self) -> Pending[None]:
        """Reads the keys, and again from time to time. Fails with BarnabasError if there are none now."""
        first: Pending[None] = Pending()

        def read(done: Pending[None]) -> None:
            if isinstance(done.error, BarnabasError):
                first.fail(BarnabasError(f"{self._endpoint.shown} has no keys for tokens: {done.error}"))
            else:
                first.end_as(done)

        self._refresh().when_done(read)
        return first

    def find(self, key_id: str | None, algorithm: str) -> VerificationKey | None:
        """The key that a token's header means. One that is not there is looked for."""
        for each in self._keys:
            if algorithm in each.algorithms and key_id in (None, each.id):
                return each
        if key_id is not None:
            self._expedite(key_id)
        return None

    def _expedite(self, key_id: str) -> None:
        """``maybeExpediteRefresh``."""
        # What is under way may have been answered before the server had the key: the next token that names it
        # asks again. At Kafka (``refreshInProgressFlag``) it would count as missing for a minute.
        if self._reading is not None:
            return
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._expedite_from_ms or now_ms < self._missing.get(key_id, 0) or self._closed:
            return
        self._expedite_from_ms = now_ms + EXPEDITED_MS
        self._missing[key_id] = now_ms + MISSING_ID_MS
        if len(self._missing) > MISSING_IDS_MAX:
            self._missing.popitem(last=False)
        self._refresh()

    def _refresh(self) -> Pending[None]:
        if self._reading is not None:
            return self._reading
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        url, tls = self._endpoint.url, self._tls
        reading = in_thread("jwks", lambda: read_keys(url, tls()))
        self._reading = reading.then(self._use)
        following = self._reading
        following.when_done(self._read)
        return following

    def _use(self, keys: list[VerificationKey]) -> None:
        self._keys = keys
        for each in keys:
            self._missing.pop(each.id or "", None)

    def _read(self, done: Pending[None]) -> None:
        self._reading = None
        if self._closed:
            return
        endpoint, now_ms = self._endpoint, self._clock.monotonic_ms()
        delay_ms: float = endpoint.refresh_ms
        if done.error is None:
            self._backoff_ms = 0
            _log.info("jwks.read", endpoint=endpoint.shown, keys=len(self._keys))
        else:
            _log.warning("jwks.not_read", endpoint=endpoint.shown, reason=done.error, keys=len(self._keys))
            if not self._backoff_ms:
                self._backoff_ms = endpoint.retry_ms
                self._retry_until_ms = now_ms + endpoint.retry_max_ms
            if now_ms + self._backoff_ms <= self._retry_until_ms:
                delay_ms = self._backoff_ms
                self._backoff_ms *= 2
            else:
                # It has failed for as long as it may: what is known stays, until the next regular reading.
                self._backoff_ms = 0
        self._timer = self._clock.call_later(delay_ms, self._refresh)

    def close(self) -> None:
        """Reads no more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def __repr__(self) -> str:
        reading = "" if self._reading is None else " reading"
        return f"<Jwks {self._endpoint.shown} keys={len(self._keys)}{reading}>"


def read_keys(url: str, tls: "ssl.SSLContext | None" = None) -> list[VerificationKey]:
    """Fetches and reads a set of keys; for a thread. Raises BarnabasError."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        try:
            with Path(unquote(parts.path)).open("rb") as file:
                text = file.read(BYTES_MAX + 1)
        except OSError as error:
            raise BarnabasError(f"it cannot be read: {error.strerror}") from error
        if len(text) > BYTES_MAX:
            raise BarnabasError(f"it is larger than {BYTES_MAX} bytes")
    else:
        # Only brokers that ask a server load it.
        from barnabas.network.http_fetch import fetch  # noqa: PLC0415

        headers = {"Accept": "application/json"}
        answer = fetch(
            url,
            headers=headers,
            tls=tls,
            connect_timeout_s=TIMEOUT_S,
            timeout_s=TIMEOUT_S,
            bytes_max=BYTES_MAX,
        )
        if answer.status != 200:
            raise FetchError(f"the server answered with status {answer.status}")
        text = answer.body
    return parse_keys(text)


def parse_keys(text: bytes) -> list[VerificationKey]:
    """The keys of a set. Those that are not for signatures, or that this version does not know, are passed
    over. Raises BarnabasError for what is no set, or one without a key that can be used.
    """
    try:
        found = json.loads(text)["keys"]
        described = [each for each in found[:KEYS_MAX] if isinstance(each, dict)]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise BarnabasError("it is no set of keys (JWKS)") from None
    keys = [key for each in described if (key := _key(each)) is not None]
    if not keys:
        raise BarnabasError("it has no key that can be used")
    return keys


def _key(described: dict[str, Any]) -> VerificationKey | None:
    # Only brokers that look at signatures load it.
    import jwt  # noqa: PLC0415

    kind = described.get("kty")
    algorithms = ALGORITHMS.get(str(described.get("crv") if kind in {"EC", "OKP"} else kind), frozenset())
    if (named := described.get("alg")) is not None:
        algorithms &= {named} if isinstance(named, str) else frozenset()
    if not algorithms or described.get("use", "sig") != "sig":
        return None
    try:
        key = jwt.PyJWK(described, algorithm=min(algorithms)).key
    except (jwt.PyJWTError, ValueError, TypeError, AttributeError):
        return None
    if hasattr(key, "public_key"):
        key = key.public_key()
    if kind == "RSA" and key.key_size < RSA_BITS_MIN:
        return None
    if kind == "oct":
        # A short secret can be guessed from one token.
        algorithms = frozenset(each for each in algorithms if len(key) * 8 >= int(each[2:]))
    key_id = described.get("kid")
    return VerificationKey(key_id, key, algorithms) if isinstance(key_id, str | None) and algorithms else None
