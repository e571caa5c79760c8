"""`OpenIdProvider`: a log-in by OpenID Connect, the authorization code with PKCE (RFC 6749, RFC 7636).

Theory of operation
-------------------
`begin` remembers a try (state, nonce and code verifier are random, ten minutes) and names the provider's
page. The browser keeps the state in a cookie, so that a try that somebody else has begun cannot be ended with
it. Tries are bounded by address: one that begins many drops its own. `end` is called with what the provider
sent the browser back with. A state counts once. The code is changed for an ID token at the provider itself;
PyJWT looks at its signature with the provider's keys, then issuer, audience, times and nonce are compared.
What the provider says of its addresses (discovery) and its keys is kept for some minutes; a token with a key
that is not among these has them read again, once. Keys that cannot be read again count until an hour after
they were. All times but those in a token are of a clock that nobody sets.

It refuses to know: access and refresh tokens, the UserInfo endpoint, symmetric signatures (HS256), logging
out at the provider.
"""

import base64
import hashlib
import hmac
import json
import secrets
import threading
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, quote_plus, urlencode, urlsplit

from barnabas.console.fair_shares import make_room
from barnabas.core.errors import BarnabasError
from barnabas.core.eventlog import EventLog
from barnabas.network.errors import FetchError
from barnabas.network.http_fetch import fetch
from barnabas.network.sasl.oauthbearer.jwks import ALGORITHMS, VerificationKey, read_keys
from barnabas.network.sasl.oauthbearer.token import TokenRefusedError, json_object, parts_of
from barnabas.network.sasl.oauthbearer.validator import Expected, JwtValidator
from barnabas.network.tls_context import https_context
from barnabas.operations.clock import monotonic_ms, now_ms
from barnabas.operations.errors import OperationError

_log = EventLog("console")

CALLBACK: Final = "/login/oidc/callback"
TRY_MS: Final = 600_000
_TRIES_MAX: Final = 1_000
_TRIES_EACH_MAX: Final = 100
"""Of one address, which several people behind a proxy have together: a further one drops its oldest."""
_KEPT_MS: Final = 600_000
"""How long addresses and keys of the provider are kept."""
_AGAIN_MS: Final = 10_000
"""Keys are read again for an unknown one, or after a failure, this often at most."""
_KEYS_MAX_MS: Final = 3_600_000
"""How long keys count that cannot be read again, since they were read."""
_TIMEOUT_S: Final = 10.0
_BYTES_MAX: Final = 256 * 1024
_USER_MAX: Final = 100
_ROLES_MAX: Final = 200
_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_SYMMETRIC: Final = ALGORITHMS["oct"]
PREFIX: Final = "oidc:"
"""Of the names of users who come this way. No name in a file of passwords has a colon."""


class OidcRefusedError(BarnabasError):
    """A log-in that the provider did not grant, or that is not what was asked for (HTTP 401)."""


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """What ``--oidc FILE`` says."""

    issuer: str
    client_id: str
    redirect: str
    """The console's own address with `CALLBACK`, as the provider knows it."""
    client_secret: str = field(default="", repr=False)
    """Empty for a public client, which PKCE alone proves."""
    user_claim: str = "preferred_username"
    roles_claim: str = ""
    """Where the names of roles are; a dot goes into what is in it (``realm_access.roles``), unless
    the claim is called so.
    """
    scopes: str = "openid profile"
    label: str = "Log in with OpenID Connect"
    ca: str = field(default="", repr=False)
    """The PEM of the authorities that the provider's certificate is checked by; empty for the system's."""


def parsed(text: str, folder: Path) -> OidcSettings:
    """The settings of a TOML file; files that it names are in `folder`. Raises ValueError."""
    table = tomllib.loads(text)
    secret_file, ca_file = table.pop("client_secret_file", None), table.pop("ca_file", None)
    names = {
        "issuer",
        "client_id",
        "redirect",
        "client_secret",
        "user_claim",
        "roles_claim",
        "scopes",
        "label",
    }
    if unknown := set(table) - names:
        raise ValueError(f"there is no key {min(unknown)!r}")
    if not all(isinstance(value, str) and value for value in table.values()):
        raise ValueError("every value is a text")
    for key in ("issuer", "client_id", "redirect"):
        if key not in table:
            raise ValueError(f"{key} is missing")
    for key in ("issuer", "redirect"):
        _check_url(table[key], key)
    if urlsplit(table["redirect"]).path != CALLBACK:
        raise ValueError(f"redirect is the console's address with {CALLBACK}")
    if secret_file is not None:
        if "client_secret" in table:
            raise ValueError("there are client_secret and client_secret_file: leave one of them out")
        table["client_secret"] = _read(folder, secret_file, "client_secret_file").strip()
        if not table["client_secret"]:
            raise ValueError("client_secret_file is empty: leave it out for a public client")
    ca = "" if ca_file is None else _read(folder, ca_file, "ca_file")
    try:
        if ca_file is not None:
            https_context(ca)
    except ValueError as error:
        raise ValueError(f"ca_file {error}") from None
    found = OidcSettings(**table, ca=ca)
    if "openid" not in found.scopes.split():
        raise ValueError("scopes have openid among them")
    return found


def _read(folder: Path, name: Any, key: str) -> str:
    if not isinstance(name, str):
        raise ValueError(f"{key} is a text")  # noqa: TRY004 - of the file, not of the program
    try:
        return (folder / name).read_text(encoding="utf-8")
    except OSError as error:
        raise ValueError(f"{key} cannot be read: {error.strerror}") from None


def _check_url(url: Any, what: str) -> None:
    """Secrets travel there: over TLS, or on this machine. Raises ValueError."""
    try:
        parts = urlsplit(str(url))
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
        _ = parts.port
    except ValueError:
        is_safe = False
    if not is_safe or not parts.hostname or parts.username is not None or parts.fragment:
        raise ValueError(f"{what} is a URL with https (or http on this machine)")


class OidcUser(NamedTuple):
    """Who has logged in, and the roles that the provider gives."""

    name: str
    roles: tuple[str, ...]


class _Try(NamedTuple):
    address: str
    nonce: str
    verifier: str
    target: str
    expires_ms: int


class Begun(NamedTuple):
    """Where the browser goes, and what it keeps meanwhile."""

    url: str
    state: str


class _Addresses(NamedTuple):
    authorization: str
    token: str
    keys: str


class OpenIdProvider:
    """One provider. Its methods ask it over the network: they are for a thread."""

    def __init__(self, settings: OidcSettings) -> None:
        self.settings = settings
        self._tls = https_context(settings.ca) if settings.ca else None
        self._lock = threading.Lock()
        self._tries: dict[str, _Try] = {}
        self._addresses: tuple[int, _Addresses] | None = None
        self._keys: tuple[int, list[VerificationKey]] | None = None
        self._keys_failed_ms = -_AGAIN_MS

    def begin(self, target: str, address: str) -> Begun:
        """A try of a browser at `address` that wants to `target` afterwards. Raises OidcRefusedError where
        the provider does not answer.
        """
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
        asked = {
            "response_type": "code",
            "client_id": self.settings.client_id,
            "redirect_uri": self.settings.redirect,
            "scope": self.settings.scopes,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge.decode(),
            "code_challenge_method": "S256",
        }
        page = self._addresses_now().authorization
        now = monotonic_ms()
        with self._lock:
            for key in [key for key, one in self._tries.items() if one.expires_ms <= now]:
                del self._tries[key]
            make_room(
                self._tries, lambda one: one.address, address, each_max=_TRIES_EACH_MAX, total_max=_TRIES_MAX
            )
            self._tries[state] = _Try(address, nonce, verifier, target, now + TRY_MS)
        join = "&" if urlsplit(page).query else "?"
        return Begun(f"{page}{join}{urlencode(asked, quote_via=quote)}", state)

    def end(self, given: Mapping[str, str], state: str) -> tuple[OidcUser, str]:
        """Who it is, and where they wanted to. `given` is the query that the browser came back with, `state`
        what it has kept. Raises OidcRefusedError.
        """
        returned = given.get("state", "")
        if not state or not hmac.compare_digest(returned.encode(), state.encode()):
            raise OidcRefusedError("this log-in was not begun in this browser: begin again")
        with self._lock:
            begun = self._tries.pop(returned, None)
        if begun is None or begun.expires_ms <= monotonic_ms():
            raise OidcRefusedError("this log-in is over, or took too long: begin again")
        # RFC 9207: an answer of another provider that was sent here.
        if given.get("iss", self.settings.issuer) != self.settings.issuer:
            raise OidcRefusedError("another provider answered")
        if "code" not in given:
            raise OidcRefusedError(f"the provider says {_plain(given.get('error', 'nothing'))}")
        return self._user(self._token(given["code"], begun.verifier), begun.nonce), begun.target

    # --- what the provider is asked

    def _addresses_now(self) -> _Addresses:
        kept, now = self._addresses, monotonic_ms()
        if kept is not None and now - kept[0] < _KEPT_MS:
            return kept[1]
        answer = self._json(f"{self.settings.issuer.rstrip('/')}/.well-known/openid-configuration")
        if answer.get("issuer") != self.settings.issuer:
            raise OidcRefusedError("the provider is not the issuer that was named")
        try:
            for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                _check_url(answer.get(name), name)
        except ValueError as error:
            raise OidcRefusedError(f"the provider's configuration: {error}") from None
        found = _Addresses(answer["authorization_endpoint"], answer["token_endpoint"], answer["jwks_uri"])
        self._addresses = now, found
        return found

    def _token(self, code: str, verifier: str) -> str:
        settings = self.settings
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": settings.redirect,
            "client_id": settings.client_id,
            "code_verifier": verifier,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        if settings.client_secret:
            pair = f"{quote_plus(settings.client_id)}:{quote_plus(settings.client_secret)}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
        answer = self._json(self._addresses_now().token, urlencode(fields).encode(), headers)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise OidcRefusedError(f"the provider gives no ID token: {_plain(answer.get('error', ''))}")
        return token

    def _json(self, url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Any:
        """An object. What the provider refuses is one, too (RFC 6749, 5.2)."""
        try:
            answer = fetch(
                url,
                headers={"Accept": "application/json", **(headers or {})},
                body=body,
                tls=self._tls,
                connect_timeout_s=_TIMEOUT_S,
                timeout_s=_TIMEOUT_S,
                bytes_max=_BYTES_MAX,
            )
            found = json.loads(answer.body)
        except FetchError as error:
            raise OidcRefusedError(f"the provider does not answer: {error}") from error
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or (answer.status != 200 and body is None):
            raise OidcRefusedError(f"the provider answers with status {answer.status}")
        return found

    # --- the token

    def find(self, key_id: str | None, algorithm: str) -> VerificationKey | None:
        """The key that a token's header means."""
        for is_last in (False, True):
            for one in self._keys_now(0 if is_last else _KEPT_MS):
                if algorithm in one.algorithms - _SYMMETRIC and key_id in (None, one.id):
                    return one
        return None

    def _keys_now(self, fresh_ms: int) -> Sequence[VerificationKey]:
        kept, now = self._keys, monotonic_ms()
        age = _KEYS_MAX_MS if kept is None else now - kept[0]
        if kept is not None and age < max(fresh_ms, _AGAIN_MS):
            return kept[1]
        # After a failure there is a while without a question, as long as there are keys to go on with.
        if kept is not None and age < _KEYS_MAX_MS and now - self._keys_failed_ms < _AGAIN_MS:
            return kept[1]
        try:
            found = read_keys(self._addresses_now().keys, self._tls)
        except BarnabasError as error:
            self._keys_failed_ms = now
            if kept is None or age >= _KEYS_MAX_MS:
                raise OidcRefusedError(
                    f"the provider's keys cannot be read, so nobody can log in there: {error}"
                ) from error
            _log.warning("console.oidc_keys_not_read", reason=error, age_s=age // 1000)
            return kept[1]
        self._keys = now, found
        return found

    def _user(self, token: str, nonce: str) -> OidcUser:
        settings = self.settings
        expected = Expected((settings.client_id,), settings.issuer, skew_s=60)
        try:
            JwtValidator(self, expected, now_ms)(token)
            claims = json_object(parts_of(token)[1])
        except TokenRefusedError as error:
            raise OidcRefusedError(f"the provider's token is not valid: {error}") from error
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise OidcRefusedError("the provider's token is one of another log-in")
        several = isinstance(claims.get("aud"), list) and len(claims["aud"]) > 1
        if claims.get("azp", None if several else settings.client_id) != settings.client_id:
            raise OidcRefusedError("the provider's token is for somebody else")
        name = claims.get(settings.user_claim)
        # One with spaces around it is another user there: it is not cut to a name that somebody else has.
        if (
            not isinstance(name, str)
            or not 1 <= len(name) <= _USER_MAX
            or not name.isprintable()
            or name != name.strip()
        ):
            raise OidcRefusedError(f"the provider's token has no {settings.user_claim} that is a name")
        return OidcUser(PREFIX + name, _roles(claims, settings.roles_claim))


def _claim(claims: Any, path: str) -> Any:
    """What is at a path. Names of claims may have dots (``https://example.com/roles``, a client's id of
    Keycloak): the longest name that is there counts.
    """
    if not isinstance(claims, dict):
        return None
    if path in claims:
        return claims[path]
    steps = path.split(".")
    for count in range(len(steps) - 1, 0, -1):
        name = ".".join(steps[:count])
        if name in claims:
            return _claim(claims[name], ".".join(steps[count:]))
    return None


def _roles(claims: Mapping[str, Any], path: str) -> tuple[str, ...]:
    found = _claim(claims, path)
    names = found.split() if isinstance(found, str) else found if isinstance(found, list) else []
    return tuple(one for one in names if isinstance(one, str))[:_ROLES_MAX]


def _plain(text: Any) -> str:
    """What somebody else has written, in a line of ours."""
    said = str(text)[:200]
    return said if said.isprintable() else "something that is no text"


def provider_of(path: Path) -> OpenIdProvider:
    """The provider of a file. Raises OperationError."""
    try:
        return OpenIdProvider(parsed(path.read_text(encoding="utf-8"), path.parent))
    except OSError as error:
        raise OperationError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise OperationError(f"{path} cannot be read: {error}") from error
