"""Quotas of clients: which there are, for whom one can be, and what a value of one is
(``QuotaConfigs``, ``ClientQuotaEntity``).

A quota is for a user, for a client id, for both together, or for an address; or for everybody of these that
has none of their own.
"""

import math
import re
from collections.abc import Mapping
from ipaddress import IPv4Address
from typing import Final

from barnabas.core.config import INT_MAX, LONG_MAX, ConfigType

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"

OF_CLIENTS: Final[Mapping[str, ConfigType]] = {
    PRODUCER_BYTE_RATE: ConfigType.LONG,
    CONSUMER_BYTE_RATE: ConfigType.LONG,
    REQUEST_PERCENTAGE: ConfigType.DOUBLE,
    CONTROLLER_MUTATION_RATE: ConfigType.DOUBLE,
}
"""What a user or a client id can have a quota of."""
OF_ADDRESSES: Final[Mapping[str, ConfigType]] = {CONNECTION_CREATION_RATE: ConfigType.INT}
"""What an address can have a quota of."""

_MOST: Final = {ConfigType.LONG: LONG_MAX, ConfigType.INT: INT_MAX}


def parse_quota(key: str, text: str) -> float:
    """The value of a quota as it stands in the store. Raises ValueError for what Kafka could not read."""
    kind = OF_ADDRESSES.get(key) or OF_CLIENTS[key]
    if kind is ConfigType.DOUBLE:
        value = float(text)
        if math.isnan(value) or "_" in text:
            raise ValueError(f"{key} is no number")
        return value
    if not re.fullmatch(r"[-+]?[0-9]{1,19}", text) or not -_MOST[kind] - 1 <= int(text) <= _MOST[kind]:
        raise ValueError(f"{key} is no whole number: {text[:40]!r}")
    if key in OF_ADDRESSES and int(text) < 0:
        raise ValueError(f"{key} is below zero")
    return int(text)


def is_address(name: str) -> bool:
    """Whether a connection can have a quota under this name: an address of IPv4. Kafka also takes names of
    hosts, which this broker does not look up.
    """
    try:
        IPv4Address(name)
    except ValueError:
        return False
    return True
