"""Kafka's keys for log-ins with tokens (OAUTHBEARER): those of whoever logs in, and those of a listener."""

from typing import Any, Final

from barnabas.core.config import ConfigKey, ConfigType, Scope, at_least

STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS = (
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.SHORT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
    ConfigType.CLASS,
)

LOGIN_HANDLER: Final = "sasl.login.callback.handler.class"
SERVER_HANDLER: Final = "sasl.server.callback.handler.class"
TOKEN_ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - a key's name
JWKS_ENDPOINT: Final = "sasl.oauthbearer.jwks.endpoint.url"

_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
UNSECURED_LOGIN: Final = f"{_PACKAGE}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
UNSECURED_VALIDATOR: Final = f"{_PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
LOGIN_CLASSES: Final = (
    f"{_PACKAGE}.OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}.secured.OAuthBearerLoginCallbackHandler",
)
VALIDATOR_CLASSES: Final = (
    f"{_PACKAGE}.OAuthBearerValidatorCallbackHandler",
    f"{_PACKAGE}.secured.OAuthBearerValidatorCallbackHandler",
)


def _login_handler(value: Any) -> str | None:
    known = (*LOGIN_CLASSES, UNSECURED_LOGIN)
    return None if callable(value) or value in known else f"This version has {known[0]} and {known[-1]}"


def _server_handler(value: Any) -> str | None:
    known = (*VALIDATOR_CLASSES, UNSECURED_VALIDATOR)
    return None if value in known else f"This version has {known[0]} and {known[-1]}"


# One row a key: name, type, default, what it does, what is allowed.
# fmt: off
LOGIN_KEYS: Final = (
    ConfigKey(LOGIN_HANDLER, CLASS, None,
        "Where tokens come from: OAuthBearerLoginCallbackHandler asks a server or reads a file; without it"
        " they are made of the line of JAAS, and have no signature.", _login_handler),
    ConfigKey(TOKEN_ENDPOINT, STRING, None,
        "The server, http or https, that gives tokens for clientId and clientSecret of the line of JAAS, or a"
        " file with one (file:)."),
    ConfigKey("sasl.login.connect.timeout.ms", INT, None,
        "How long to wait for a connection to that server."),
    ConfigKey("sasl.login.read.timeout.ms", INT, None, "How long to wait for its answer."),
    ConfigKey("sasl.login.retry.backoff.ms", LONG, 100, "The first pause before that server is asked again."),
    ConfigKey("sasl.login.retry.backoff.max.ms", LONG, 10000, "For how long it is asked again."),
    ConfigKey("sasl.login.refresh.window.factor", DOUBLE, 0.8,
        "At which part of a token's life another is got.", scope=Scope.PER_BROKER),
    ConfigKey("sasl.login.refresh.window.jitter", DOUBLE, 0.05,
        "How much later at most, at random.", scope=Scope.PER_BROKER),
    ConfigKey("sasl.login.refresh.min.period.seconds", SHORT, 60,
        "How long a token is kept at least.", scope=Scope.PER_BROKER),
    ConfigKey("sasl.login.refresh.buffer.seconds", SHORT, 300,
        "How long before its end it is replaced at the latest.", scope=Scope.PER_BROKER),
    ConfigKey("sasl.oauthbearer.sub.claim.name", STRING, "sub", "The claim that says whose a token is."),
)
"""Of whoever logs in: a client, or a broker at another."""

VALIDATOR_KEYS: Final = (
    ConfigKey(SERVER_HANDLER, CLASS, None,
        "What looks at tokens: OAuthBearerValidatorCallbackHandler asks for a signature; without it tokens"
        " have none, and anybody can make one. Obeyed with listener.name.<name>.oauthbearer in front.",
        _server_handler),
    ConfigKey(JWKS_ENDPOINT, STRING, None,
        "Where the keys are that tokens are signed with: http, https or file."),
    ConfigKey("sasl.oauthbearer.jwks.endpoint.refresh.ms", LONG, 3_600_000, "How often they are read."),
    ConfigKey("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", LONG, 100,
        "The first pause before they are read again after a failure."),
    ConfigKey("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", LONG, 10000,
        "For how long that is tried."),
    ConfigKey("sasl.oauthbearer.expected.audience", LIST, None,
        "For whom a token must be: one of these in its claim aud."),
    ConfigKey("sasl.oauthbearer.expected.issuer", STRING, None, "Who must have issued it: its claim iss."),
    ConfigKey("sasl.oauthbearer.clock.skew.seconds", INT, 30,
        "How far the clocks of issuer and broker may be apart.", at_least(0)),
    ConfigKey("sasl.oauthbearer.scope.claim.name", STRING, "scope", "The claim with a token's scopes."),
)
"""Of a listener that takes tokens; its `sub.claim.name` is among those of log-ins."""
# fmt: on
