"""From a mechanism's name and its JAAS line to log-ins, at either end."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from barnabas.core.errors import ConfigError
from barnabas.core.jaas import LoginModule, parse_jaas
from barnabas.core.login_file import OPTIONS, java_properties, login_modules
from barnabas.core.oauthbearer_config import LOGIN_HANDLER
from barnabas.core.scram import MECHANISMS as SCRAM
from barnabas.core.scram import ScramMechanism
from barnabas.network.sasl import plain, scram
from barnabas.network.sasl.client import SaslLogin
from barnabas.network.sasl.credentials import ServerCredentials
from barnabas.network.sasl.kerberos import exchange as kerberos
from barnabas.network.sasl.kerberos import logins as kerberos_logins
from barnabas.network.sasl.kerberos.names import KEY as LOCAL_RULES
from barnabas.network.sasl.mechanism import SaslServer
from barnabas.network.sasl.oauthbearer import exchange as oauthbearer
from barnabas.network.sasl.oauthbearer import settings as oauthbearer_settings
from barnabas.network.sasl.plain import PlainClient, PlainServer
from barnabas.network.sasl.scram import ScramClient, ScramServer

SUPPORTED: Final = (plain.NAME, *(each.value for each in ScramMechanism), oauthbearer.NAME, kerberos.NAME)
"""The mechanisms that there are at both ends."""

_USER_PREFIX: Final = "user_"
_MODULES: Final = {
    plain.NAME: plain.MODULE,
    oauthbearer.NAME: oauthbearer.MODULE,
    kerberos.NAME: kerberos.MODULE,
}
CLIENT_KEYS: Final = (*oauthbearer_settings.CLIENT_KEYS, kerberos_logins.SERVICE_NAME)
"""What a log-in is made of, beside its JAAS line."""
SERVER_KEYS: Final = (*oauthbearer_settings.SERVER_KEYS, LOCAL_RULES)
"""What a listener looks at log-ins by, beside its JAAS lines."""


def client_login(
    mechanism: str, jaas: str | None, values: Mapping[str, Any], key: str = "sasl.jaas.config"
) -> SaslLogin:
    """How a client logs in: by its JAAS line, and for tokens by the keys in `values`.
    Raises ConfigError, which names `key` and no secret.
    """
    if mechanism not in SUPPORTED:
        raise ConfigError(
            f"Invalid value {mechanism} for configuration sasl.mechanism: this version has "
            f"{', '.join(SUPPORTED)}"
        )
    if mechanism == oauthbearer.NAME and jaas is None and callable(values[LOGIN_HANDLER]):
        # A function of Python needs no login module of Java.
        return oauthbearer_settings.client_login({}, values, key)
    if jaas is None:
        raise ConfigError(f"Missing required configuration {key}: a client of {mechanism} has a login module")
    options = _module(mechanism, jaas, key).options
    if mechanism == oauthbearer.NAME:
        return oauthbearer_settings.client_login(options, values, key)
    if mechanism == kerberos.NAME:
        return kerberos_logins.client_login(options, values[kerberos_logins.SERVICE_NAME], key)
    try:
        user, password = options["username"], options["password"]
    except KeyError:
        raise ConfigError(
            f"Invalid value [hidden] for configuration {key}: it has no username and password"
        ) from None
    if mechanism == plain.NAME:
        if "\0" in user + password:
            raise ConfigError(f"Invalid value [hidden] for configuration {key}: it has a NUL")
        return SaslLogin(mechanism, partial(PlainClient, user, password))
    token_auth = options.get(scram.TOKEN_AUTH, "").lower() == "true"
    return SaslLogin(
        mechanism,
        partial(ScramClient, ScramMechanism(mechanism), user, password, token_auth=token_auth),
    )


def server_mechanism(
    mechanism: str,
    jaas: str | None,
    known: ServerCredentials,
    values: Mapping[str, Any],
    key: str = "sasl.jaas.config",
) -> Callable[[], SaslServer]:
    """What makes a log-in of a mechanism at the broker. Users of PLAIN are in the JAAS line
    (``user_NAME="password"``), the others are `known`; `values` has the keys for tokens. Raises ConfigError.
    """
    if mechanism in SCRAM:
        if jaas is not None:
            _module(mechanism, jaas, key)
        return partial(ScramServer, ScramMechanism(mechanism), known.scram, known.token, known.time_ms)
    if mechanism not in SUPPORTED:
        raise ConfigError(
            f"Invalid value {mechanism} for configuration sasl.enabled.mechanisms: this version has "
            f"{', '.join(SUPPORTED)}"
        )
    if jaas is None:
        raise ConfigError(f"Missing required configuration {key}: it says who logs in with {mechanism}")
    options = _module(mechanism, jaas, key).options
    if mechanism == oauthbearer.NAME:
        validate = oauthbearer_settings.server_validator(options, values, key, known.keys_of, known.time_ms)
        return partial(oauthbearer.OAuthBearerServer, validate, known.time_ms)
    if mechanism == kerberos.NAME:
        return kerberos_logins.server_logins(options, values[LOCAL_RULES], key)
    users = {
        name.removeprefix(_USER_PREFIX): password
        for name, password in options.items()
        if name.startswith(_USER_PREFIX)
    }
    return partial(PlainServer, users)


def line_of_file(mechanism: str, *sections: str) -> str | None:
    """The JAAS line of a mechanism in the file that the environment names (`core.login_file`), of the first
    of these sections that is there; None where it has none. Raises ConfigError (``JaasContext``).
    """
    modules = login_modules(java_properties(os.environ.get(OPTIONS, "")), sections)
    expected = _login_module(mechanism)
    return next((each.line() for each in modules or () if each.name == expected), None)


def _login_module(mechanism: str) -> str | None:
    """The class that logs in with a mechanism."""
    return scram.MODULE if mechanism in SCRAM else _MODULES.get(mechanism)


def _module(mechanism: str, jaas: str, key: str) -> LoginModule:
    module = parse_jaas(jaas, key)
    expected = _login_module(mechanism)
    if module.name != expected:
        raise ConfigError(
            f"Invalid value [hidden] for configuration {key}: {mechanism} logs in with {expected}"
        )
    return module
