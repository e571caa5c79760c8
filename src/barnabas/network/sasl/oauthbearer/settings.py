"""From Kafka's keys and a line of JAAS to what looks at tokens, and to what gets them."""

import random
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from barnabas.core.errors import ConfigError
from barnabas.core.oauthbearer_config import (
    JWKS_ENDPOINT,
    LOGIN_CLASSES,
    LOGIN_HANDLER,
    LOGIN_KEYS,
    SERVER_HANDLER,
    TOKEN_ENDPOINT,
    VALIDATOR_CLASSES,
    VALIDATOR_KEYS,
)
from barnabas.network.sasl.client import SaslLogin
from barnabas.network.sasl.oauthbearer.access_tokens import AccessTokens, RefreshSettings
from barnabas.network.sasl.oauthbearer.exchange import NAME, OAuthBearerClient, extension_problem
from barnabas.network.sasl.oauthbearer.jwks import JwksEndpoint
from barnabas.network.sasl.oauthbearer.retrieval import Retrieved, TokenEndpoint, TokenFile, TokenFunction
from barnabas.network.sasl.oauthbearer.token import BearerToken, Validate
from barnabas.network.sasl.oauthbearer.unsecured import UnsecuredLogin, UnsecuredValidator
from barnabas.network.sasl.oauthbearer.validator import Expected, JwtValidator, KeySource
from barnabas.network.tls_keys import CONTEXT_KEYS

if TYPE_CHECKING:
    import ssl

CLIENT_KEYS: Final = tuple(key.name for key in LOGIN_KEYS)
"""What a log-in is made of."""
SERVER_KEYS: Final = (*(key.name for key in VALIDATOR_KEYS), "sasl.oauthbearer.sub.claim.name")
"""What a listener looks at tokens by."""


def now_ms() -> float:
    return time.time() * 1000


def client_login(options: Mapping[str, str], values: Mapping[str, Any], key: str) -> SaslLogin:
    """How a client gets tokens and shows them. Raises ConfigError, which shows no secret."""
    handler = values[LOGIN_HANDLER]
    prefix = "extension_"
    extensions = {name[len(prefix) :]: value for name, value in options.items() if name.startswith(prefix)}
    retrieve: Callable[[], BearerToken]
    if callable(handler):
        retrieve = Retrieved(TokenFunction(handler), values["sasl.oauthbearer.sub.claim.name"])
    elif handler in LOGIN_CLASSES:
        retrieve = Retrieved(_source(options, values, key), values["sasl.oauthbearer.sub.claim.name"])
    else:
        unsecured = UnsecuredLogin(options, now_ms, key)
        retrieve, extensions = unsecured, unsecured.extensions
    if (problem := extension_problem(extensions)) is not None:
        raise ConfigError(f"Invalid value [hidden] for configuration {key}: {problem}")
    refresh = RefreshSettings(
        values["sasl.login.refresh.window.factor"],
        values["sasl.login.refresh.window.jitter"],
        values["sasl.login.refresh.min.period.seconds"],
        values["sasl.login.refresh.buffer.seconds"],
    )
    tokens = AccessTokens(retrieve, refresh, now_ms, random.Random(random.getrandbits(64)))
    return SaslLogin(NAME, partial(OAuthBearerClient, tokens.current, extensions), tokens.prepare)


def _source(options: Mapping[str, str], values: Mapping[str, Any], key: str) -> Callable[[], str]:
    url = _checked_url(values[TOKEN_ENDPOINT], TOKEN_ENDPOINT)
    if url.lower().startswith("file:"):
        return TokenFile(url)
    try:
        client_id, secret = options["clientId"].strip(), options["clientSecret"].strip()
    except KeyError as missing:
        raise ConfigError(
            f"Invalid value [hidden] for configuration {key}: The OAuth configuration option "
            f"{missing.args[0]} value must be non-null"
        ) from None
    return TokenEndpoint(
        url=url,
        client_id=client_id,
        client_secret=secret,
        scope=options.get("scope", "").strip(),
        connect_timeout_ms=values["sasl.login.connect.timeout.ms"],
        read_timeout_ms=values["sasl.login.read.timeout.ms"],
        retry_ms=values["sasl.login.retry.backoff.ms"],
        retry_max_ms=values["sasl.login.retry.backoff.max.ms"],
        tls=endpoint_tls(url, tls_options(options)),
    )


def server_validator(
    options: Mapping[str, str],
    values: Mapping[str, Any],
    key: str,
    keys_of: Callable[[JwksEndpoint], KeySource],
    time_ms: Callable[[], float],
) -> Validate:
    """What looks at the tokens of a listener. Raises ConfigError."""
    if values[SERVER_HANDLER] not in VALIDATOR_CLASSES:
        return UnsecuredValidator(options, time_ms, key)
    endpoint = JwksEndpoint(
        _checked_url(values[JWKS_ENDPOINT], JWKS_ENDPOINT),
        values["sasl.oauthbearer.jwks.endpoint.refresh.ms"],
        values["sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"],
        values["sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"],
        tls_options(options),
    )
    if endpoint.refresh_ms <= 0:
        raise ConfigError(
            f"Invalid value {endpoint.refresh_ms} for configuration "
            "sasl.oauthbearer.jwks.endpoint.refresh.ms: Value must be at least 1"
        )
    endpoint_tls(endpoint.url, endpoint.tls_options)
    expected = Expected(
        tuple(values["sasl.oauthbearer.expected.audience"] or ()),
        values["sasl.oauthbearer.expected.issuer"] or None,
        values["sasl.oauthbearer.clock.skew.seconds"],
        values["sasl.oauthbearer.scope.claim.name"],
        values["sasl.oauthbearer.sub.claim.name"],
    )
    return JwtValidator(keys_of(endpoint), expected, time_ms)


def _checked_url(url: str | None, key: str) -> str:
    """The URL, if it is one of these (``validateUrl``). Raises ConfigError."""
    if url is None or not url.strip():
        raise ConfigError(f"Missing required configuration {key}: the callback handler asks for it")
    url = url.strip()
    try:
        parts = urlsplit(url)
        known = (
            parts.scheme.lower() in {"http", "https"}
            and parts.hostname
            and parts.port != 0
            and not any(character <= " " for character in url)
        )
    except ValueError:
        known, parts = False, None
    if not known and not (parts is not None and parts.scheme.lower() == "file" and parts.path):
        # Where its parts are is not known, so neither where a password in it ends.
        shown = "[hidden]" if {"@", "?"} & set(url) else url[:200]
        raise ConfigError(
            f"Invalid value {shown} for configuration {key}: it is a URL of http, https or file"
        )
    return url


def tls_options(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The ``ssl.*`` options of a line of JAAS: how to reach the server that it is about."""
    return tuple(sorted((name, value) for name, value in options.items() if name.startswith("ssl.")))


def endpoint_tls(url: str, options: tuple[tuple[str, str], ...]) -> "ssl.SSLContext | None":
    """How to reach a server of https; None for any other. Raises ConfigError."""
    if not url.lower().startswith("https:"):
        return None
    from barnabas.network.tls_context import client_context  # noqa: PLC0415 - only https loads it

    values: dict[str, Any] = dict.fromkeys(CONTEXT_KEYS)
    values |= {
        "ssl.enabled.protocols": ["TLSv1.2", "TLSv1.3"],
        "ssl.endpoint.identification.algorithm": "https",
    }
    for name, value in options:
        if name in values:
            is_list = name in {"ssl.enabled.protocols", "ssl.cipher.suites"}
            values[name] = [each.strip() for each in value.split(",")] if is_list else value
    return client_context(values)
