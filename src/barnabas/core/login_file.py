"""The file of JAAS that ``KAFKA_OPTS`` names, as for a JVM: a section for each purpose.

``-Djava.security.auth.login.config=FILE`` is what names it. Its sections:

    <listener>.KafkaServer, KafkaServer   who logs in at a listener, and who this broker is at the others
    KafkaClient                           who a client is
    Client                                who a broker is to ZooKeeper
"""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from barnabas.core.errors import ConfigError
from barnabas.core.jaas import LENGTH_MAX, LoginModule, parse_login_file

OPTIONS: Final = "KAFKA_OPTS"
"""The variable of the environment with the properties of Java."""
LOGIN_FILE: Final = "java.security.auth.login.config"


def java_properties(options: str) -> dict[str, str]:
    """What ``-DNAME=VALUE`` says in a text such as that of `OPTIONS`. Raises ConfigError."""
    try:
        words = shlex.split(options)
    except ValueError as error:
        raise ConfigError(f"Invalid value [hidden] for configuration {OPTIONS}: {error}") from None
    given = (word[2:].partition("=") for word in words if word.startswith("-D"))
    return {name: value for name, _, value in given}


def login_file(properties: Mapping[str, str]) -> str:
    """The path of the file; empty where none is named."""
    # Java takes a path or the URL of one, and a second "=" for "this file alone".
    return properties.get(LOGIN_FILE, "").removeprefix("=").removeprefix("file:")


def login_modules(properties: Mapping[str, str], sections: Sequence[str]) -> list[LoginModule] | None:
    """The login modules of the first of these sections that is in the file; None where none is.
    Raises ConfigError, which shows nothing of the file.
    """
    location = login_file(properties)
    if not location:
        return None
    found = parse_login_file(_text_of(location), f"{LOGIN_FILE}={location}")
    return next((found[section] for section in sections if section in found), None)


def _text_of(location: str) -> str:
    try:
        with Path(location).open(encoding="utf-8") as file:
            return file.read(LENGTH_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Invalid value {location} for configuration {LOGIN_FILE}: {error}") from None
