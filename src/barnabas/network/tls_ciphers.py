"""``ssl.cipher.suites``: Java's names for the suites of TLS, and OpenSSL's.

A list says two things: which suites, and by that which versions. A list without a suite of TLS 1.3 turns TLS
1.3 off, one with nothing else turns TLS 1.2 off. Python cannot choose among the suites of TLS 1.3: a list has
all three of them or none.
"""

import re
import ssl
from collections.abc import Sequence
from typing import Final

from barnabas.core.errors import ConfigError

OF_TLS_1_3: Final = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
SUITES_MAX: Final = 200

_SIGNAL: Final = "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"
"""No suite: OpenSSL says it always."""
_NAME: Final = re.compile(
    r"TLS_(?:(?P<exchange>ECDHE_ECDSA|ECDHE_RSA|DHE_RSA|RSA)_WITH_)"
    r"(?:(?P<chacha>CHACHA20_POLY1305)_SHA256|AES_(?P<bits>128|256)_(?P<mode>GCM|CBC)_(?P<hash>SHA\d*))"
)


def openssl_name(suite: str) -> str | None:
    """OpenSSL's name of a suite of TLS 1.2, ``ECDHE-RSA-AES128-GCM-SHA256``; None for what has none."""
    match = _NAME.fullmatch(suite)
    if match is None:
        return None
    exchange = "" if match["exchange"] == "RSA" else match["exchange"].replace("_", "-") + "-"
    if match["chacha"]:
        return f"{exchange}CHACHA20-POLY1305"
    mode = "GCM-" if match["mode"] == "GCM" else ""
    return f"{exchange}AES{match['bits']}-{mode}{match['hash']}"


def restrict(context: ssl.SSLContext, suites: Sequence[str], key: str = "ssl.cipher.suites") -> None:
    """Lets a context use these suites alone, and of its versions those that they are for.
    Raises ConfigError.
    """
    wanted = [each for each in suites if each != _SIGNAL]
    newest = [each for each in wanted if each in OF_TLS_1_3]
    older = [each for each in wanted if each not in OF_TLS_1_3]
    if newest and set(newest) != set(OF_TLS_1_3):
        missing = ", ".join(each for each in OF_TLS_1_3 if each not in newest)
        raise _refused(
            ",".join(newest), key, f"of TLS 1.3 all suites can be had or none: add {missing}, or leave it out"
        )
    for each in older[:SUITES_MAX]:
        _check(context, each, key)
    if older:
        context.set_ciphers(":".join(str(openssl_name(each)) for each in older))
    # A version that the list has no suite for is not spoken.
    if not newest:
        context.maximum_version = min(_version(context.maximum_version), ssl.TLSVersion.TLSv1_2)
    if not older:
        context.minimum_version = max(_version(context.minimum_version), ssl.TLSVersion.TLSv1_3)
    if context.minimum_version > context.maximum_version:
        raise _refused(",".join(wanted), key, "the versions of TLS that are enabled have none of them")


def _check(context: ssl.SSLContext, suite: str, key: str) -> None:
    name = openssl_name(suite)
    try:
        if name is not None:
            context.set_ciphers(name)
            return
    except ssl.SSLError:
        pass
    raise _refused(suite, key, "OpenSSL has no such suite")


def _version(version: int) -> ssl.TLSVersion:
    return ssl.TLSVersion(version)


def _refused(value: str, key: str, why: str) -> ConfigError:
    return ConfigError(f"Invalid value {value[:200]} for configuration {key}: {why}")
