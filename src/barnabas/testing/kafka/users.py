"""`Users`: who may log in at the brokers of a test, and what their listeners are then.

Clients have a listener on which they log in; the test itself, and the brokers, have one on which they do not,
and may do everything.
"""

import re
from collections.abc import Mapping
from typing import Final

from barnabas.core.jaas import LoginModule
from barnabas.network.peer import ANONYMOUS
from barnabas.network.sasl import plain
from barnabas.security.acl_authorizer import CLASS_NAME

CLIENTS: Final = "CLIENTS"
OWN: Final = "OWN"
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,255}")


class Users:
    """Names and passwords; nobody logs in where there are none."""

    def __init__(self, passwords: Mapping[str, str] | None) -> None:
        """Raises ValueError for a name that is none."""
        for name in passwords or ():
            if not _NAME.fullmatch(name) or f"User:{name}" == ANONYMOUS:
                raise ValueError(f"secure: {name!r} is no name of a user: letters, digits, '.', '_' and '-'")
        self._passwords = None if passwords is None else dict(passwords)

    @property
    def log_in(self) -> bool:
        """Whether clients do."""
        return self._passwords is not None

    def settings(self) -> dict[str, str]:
        """What brokers are told."""
        if self._passwords is None:
            return {}
        users = {f"user_{name}": password for name, password in self._passwords.items()}
        return {
            "listener.security.protocol.map": f"{CLIENTS}:SASL_PLAINTEXT,{OWN}:PLAINTEXT",
            "inter.broker.listener.name": OWN,
            "sasl.enabled.mechanisms": plain.NAME,
            f"listener.name.{CLIENTS.lower()}.plain.sasl.jaas.config": LoginModule(
                plain.MODULE, users
            ).line(),
            "authorizer.class.name": CLASS_NAME,
            "super.users": ANONYMOUS,
        }

    def client(self, name: str) -> dict[str, str]:
        """How a user logs in, by Kafka's keys. Raises KeyError for one that there is not."""
        given = {"username": name, "password": (self._passwords or {})[name]}
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": plain.NAME,
            "sasl.jaas.config": LoginModule(plain.MODULE, given).line(),
        }

    def __repr__(self) -> str:
        return f"<Users {sorted(self._passwords or ())}>"
