"""`AddedClusters`: the clusters that were added while the console ran, kept in its folder.

``clusters.json`` is of its owner alone, as it has what clients log in with; nothing of that is ever
answered. What a browser sends may name no file of this machine and no address but the cluster's own:
certificates and keys come as text, and log-ins are of the mechanisms that ask nobody else.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from barnabas.admin import AsyncAdmin
from barnabas.client.config import bootstrap_addresses
from barnabas.console.stores.private_files import replace_json
from barnabas.core.broker_config import read_properties
from barnabas.core.errors import BarnabasError
from barnabas.operations.errors import OperationError

CLUSTERS_MAX: Final = 50
_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
_ALLOWED: Final = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "sasl.jaas.config",
        "ssl.truststore.type",
        "ssl.truststore.certificates",
        "ssl.keystore.type",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
        "ssl.enabled.protocols",
        "ssl.cipher.suites",
    }
)
_MECHANISMS: Final = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})
_CLIENT_ID: Final = "barnabas-console"


@dataclass(frozen=True, slots=True)
class AddedCluster:
    """What it is called, where its brokers are, and how clients log in to them."""

    name: str
    bootstrap: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def options(self) -> dict[str, str]:
        """Those of a client."""
        return {"client.id": _CLIENT_ID, **self.properties, "bootstrap.servers": self.bootstrap}

    def described(self) -> str:
        """What the audit log has of it: of secrets the keys alone."""
        protocol = self.properties.get("security.protocol", "PLAINTEXT")
        keys = ", ".join(sorted(key for key in self.properties if key != "security.protocol"))
        return f"{self.bootstrap}, {protocol}" + (f", with {keys}" if keys else "")


def added_cluster(name: str, bootstrap: str, properties: str) -> AddedCluster:
    """One that may be looked at. Raises OperationError that names what is wrong, and shows no value."""
    if not _NAME.fullmatch(name) or name in {".", ".."}:
        raise OperationError("a cluster's name has up to 100 letters, digits, dots, hyphens and underscores")
    try:
        given = read_properties(properties)
    except BarnabasError:
        # Its words would repeat the line, which may have a password.
        raise OperationError("the properties are KEY=VALUE, one a line") from None
    for key in sorted(given):
        if key.endswith(".location"):
            raise OperationError(
                f"{key} names a file of the console's machine: give certificates and keys as text, with"
                " ssl.truststore.certificates, ssl.keystore.certificate.chain and ssl.keystore.key"
            )
        if key not in _ALLOWED:
            raise OperationError(f"{key} is no option of a cluster that is added here")
    logs_in = given.get("security.protocol", "").strip().upper().startswith("SASL_")
    if logs_in and not (given.get("sasl.mechanism") in _MECHANISMS and given.get("sasl.jaas.config")):
        # A client that is told nothing logs in with what the console's own process has.
        raise OperationError(
            f"a cluster that is added here has sasl.mechanism ({', '.join(sorted(_MECHANISMS))}) and"
            " sasl.jaas.config; others are named when the console starts"
        )
    found = AddedCluster(name, bootstrap.strip(), given)
    try:
        bootstrap_addresses([one for one in found.bootstrap.split(",") if one.strip()])
        options: dict[str, Any] = {key.replace(".", "_"): value for key, value in found.options.items()}
        AsyncAdmin(**options)
    except BarnabasError as error:
        words = str(error)
        if any(value and value in words for key, value in given.items() if key != "security.protocol"):
            words = "an option has a value that cannot be used"
        raise OperationError(words) from None
    return found


class AddedClusters:
    """The file."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "clusters.json"

    def read(self) -> dict[str, AddedCluster]:
        """By name. Raises OperationError for a file that cannot be read: it is not written over."""
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            return {
                one["name"]: AddedCluster(one["name"], one["bootstrap"], dict(one["properties"]))
                for one in found
            }
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise OperationError(f"{self._path} cannot be read: {type(error).__name__}") from None

    def write(self, clusters: Mapping[str, AddedCluster]) -> None:
        """Replaces the file as a whole. Raises OperationError."""
        rows = [
            {"name": one.name, "bootstrap": one.bootstrap, "properties": dict(one.properties)}
            for one in clusters.values()
        ]
        replace_json(self._path, rows)
