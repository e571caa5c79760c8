"""`ClientQuotaAdmin`: shows and changes the quotas of users, client ids and addresses
(KIP-546, ``ZkAdminManager.describeClientQuotas`` and ``alterClientQuotas``).

They lie where Kafka 3.9 has them, beside the credentials of users. What is there and is no quota is not
shown, and one line of the log says so.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from barnabas.cluster.metadata.configs import ConfigStore
from barnabas.cluster.store.contract import StoreError
from barnabas.cluster.store.znodes import DEFAULT_ENTITY, ConfigChange, desanitize, sanitize
from barnabas.core.client_quotas import OF_ADDRESSES, OF_CLIENTS, is_address, parse_quota
from barnabas.core.config import INT_MAX, LONG_MAX, ConfigType, double_text
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Pending, Steps, steps
from barnabas.core.scram import MECHANISMS

_log: Final = EventLog("cluster.client_quota_admin")

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"

EXACT, DEFAULT, SPECIFIED = range(3)
"""Which names of a type a filter takes, numbered as on the wire: one, the default, any."""

Entity = Mapping[str, str | None]
"""For whom a quota is: names by type, None for the default of all."""


class QuotaComponent(NamedTuple):
    """A condition on the names of one type; `name` counts where the match is EXACT."""

    entity_type: str
    match: int
    name: str | None


class QuotaAlteration(NamedTuple):
    """Quotas to set, by key, or to remove where there is no value."""

    entity: Entity
    values: Sequence[tuple[str, float | None]]


class ClientQuotaAdmin:
    """Reads and writes quotas in the metadata store."""

    def __init__(self, configs: ConfigStore) -> None:
        self._configs = configs

    # ------------------------------------------------------------------------------------- describing

    @steps
    def find(
        self, components: Iterable[QuotaComponent], *, strict: bool
    ) -> Steps[list[tuple[ConfigChange, Entity]]]:
        """The entities that meet all conditions, and where their quotas lie; `strict`: and that have no
        further type. Some may have no quotas.

        Raises KafkaError with Kafka's words.
        """
        wanted = _by_type(components)
        candidates = yield self._candidates(wanted, strict=strict)
        return [each for each in candidates if _meets(each[1], wanted)]

    @steps
    def quotas(self, place: ConfigChange) -> Steps[Mapping[str, float]]:
        """The quotas that lie at a place that `find` has given."""
        keys = OF_ADDRESSES if place.entity_type == "ips" else OF_CLIENTS
        return _quotas(place, (yield self._configs.read(place.entity_type, place.entity)), keys)

    @steps
    def _candidates(
        self, wanted: Mapping[str, QuotaComponent], *, strict: bool
    ) -> Steps[list[tuple[ConfigChange, Entity]]]:
        """Where quotas may lie that meet the conditions: one place where they name it, else all there are."""
        found: list[tuple[ConfigChange, Entity]] = []
        user, client, ip = wanted.get(USER), wanted.get(CLIENT_ID), wanted.get(IP)
        if ip or not (wanted or strict):
            names = yield self._names("ips", ip)
            found += [(ConfigChange("ips", name), {IP: _name(name)}) for name in names]
        if ip:
            return found
        users: list[str] = []
        if user or not strict:
            users = yield self._names("users", user)
        for name in users:
            found.append((ConfigChange("users", name), {USER: _name(name)}))
            if client or not strict:
                for below in (yield self._names(f"users/{name}/clients", client)):
                    entity = {USER: _name(name), CLIENT_ID: _name(below)}
                    found.append((ConfigChange("users", f"{name}/clients/{below}"), entity))
        if not user and (client or not strict):
            names = yield self._names("clients", client)
            found += [(ConfigChange("clients", name), {CLIENT_ID: _name(name)}) for name in names]
        return found

    def _names(self, kind: str, component: QuotaComponent | None) -> Pending[list[str]]:
        """The one name of a condition, as the store has it, or all names that are there."""
        if component is None or component.match == SPECIFIED:
            return self._configs.entities(kind)
        if component.match == DEFAULT:
            return Pending.of([DEFAULT_ENTITY])
        return Pending.of([sanitize(component.name)] if component.name else [])

    # --------------------------------------------------------------------------------------- altering

    @steps
    def alter(self, alteration: QuotaAlteration, *, validate_only: bool) -> Steps[KafkaError | None]:
        """Sets and removes quotas of one entity; the error, if nothing was changed for it."""
        try:
            path, keys = _place(alteration.entity)
            values = dict((yield self._configs.read(path.entity_type, path.entity)))
            for key, value in alteration.values:
                if value is None:
                    values.pop(key, None)
                else:
                    values[key] = _text(key, value, keys)
            if not validate_only:
                _validate(path, values, keys)
                yield self._configs.write(path.entity_type, path.entity, values)
        except KafkaError as error:
            return error
        except StoreError as error:
            _log.error("quotas.not_altered", entity=alteration.entity, reason=error)
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return None


# ------------------------------------------------------------------------------------------------ filters


def _by_type(components: Iterable[QuotaComponent]) -> dict[str, QuotaComponent]:
    """The conditions by type. Raises KafkaError for those that cannot be, in Kafka's order."""
    wanted: dict[str, QuotaComponent] = {}
    components = list(components)
    if any(each.match not in (EXACT, DEFAULT, SPECIFIED) for each in components) or any(
        each.match == EXACT and each.name is None for each in components
    ):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    for each in components:
        kind = each.entity_type
        if not kind:
            raise _invalid("Unexpected empty filter component entity type")
        if kind not in (USER, CLIENT_ID, IP):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Custom entity type '{kind}' not supported")
        if kind in wanted:
            noun = {USER: "user", CLIENT_ID: "client", IP: "ip"}[kind]
            raise _invalid(f"Duplicate {noun} filter component entity type")
        wanted[kind] = each
    if IP in wanted and len(wanted) > 1:
        raise _invalid(
            "Invalid entity filter component combination, IP filter component should not be used with "
            "user or clientId filter component."
        )
    return wanted


def _meets(entity: Entity, wanted: Mapping[str, QuotaComponent]) -> bool:
    for kind, component in wanted.items():
        if kind not in entity:
            return False
        if component.match == EXACT and entity[kind] != component.name:
            return False
        if component.match == DEFAULT and entity[kind] is not None:
            return False
    return True


def _name(entity: str) -> str | None:
    return None if entity == DEFAULT_ENTITY else desanitize(entity)


def _quotas(
    path: ConfigChange, values: Mapping[str, str], keys: Mapping[str, ConfigType]
) -> dict[str, float]:
    found: dict[str, float] = {}
    for key, text in values.items():
        if key in keys:
            try:
                found[key] = float(parse_quota(key, text))
            except ValueError as error:
                _log.error("quotas.unreadable", entity=f"{path.entity_type}/{path.entity}", reason=error)
    return found


# ----------------------------------------------------------------------------------------------- entities


def _place(entity: Entity) -> tuple[ConfigChange, Mapping[str, ConfigType]]:
    """Where the quotas of an entity lie, and which it can have. Raises KafkaError INVALID_REQUEST."""
    if not entity:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in entity.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    names = {kind: DEFAULT_ENTITY if name is None else sanitize(name) for kind, name in entity.items()}
    if IP in names:
        if len(names) > 1:
            raise _invalid(
                "Invalid quota entity combination, IP entity should not be used with user/client ID entity."
            )
        # The colons of IPv6 are escaped there, and no Kafka reads them so.
        if names[IP] != DEFAULT_ENTITY and not is_address(names[IP]):
            raise _invalid(f"{names[IP]} is not a valid IP or resolvable host.")
        return ConfigChange("ips", names[IP]), OF_ADDRESSES
    if USER not in names:
        return ConfigChange("clients", names[CLIENT_ID]), OF_CLIENTS
    if CLIENT_ID in names:
        return ConfigChange("users", f"{names[USER]}/clients/{names[CLIENT_ID]}"), _OF_USERS
    return ConfigChange("users", names[USER]), _OF_USERS


_OF_USERS: Final[Mapping[str, ConfigType]] = {**OF_CLIENTS, **dict.fromkeys(MECHANISMS, ConfigType.STRING)}
"""What the znode of a user can have: its credentials too (``DynamicConfig.User``)."""

_EPSILON: Final = 1e-6


def _text(key: str, value: float, keys: Mapping[str, ConfigType]) -> str:
    """A value as the store has it. Raises KafkaError."""
    kind = keys.get(key)
    if kind is None:
        raise _invalid(f"Invalid configuration key {key}")
    if kind is ConfigType.STRING:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)  # Kafka fails over it
    if kind is ConfigType.DOUBLE:
        return double_text(value)
    whole = (
        0 if math.isnan(value) else _whole(value + _EPSILON, LONG_MAX if kind is ConfigType.LONG else INT_MAX)
    )
    if abs(whole - value) > _EPSILON:
        raise _invalid(f"Configuration {key} must be a {kind.name} value")
    return str(whole)


def _whole(value: float, most: int) -> int:
    """As Java makes an integer of a float."""
    if math.isinf(value):
        return most if value > 0 else -most - 1
    return min(max(int(value), -most - 1), most)


def _validate(path: ConfigChange, values: Mapping[str, str], keys: Mapping[str, ConfigType]) -> None:
    """Raises KafkaError UNKNOWN_SERVER_ERROR where the znode would have what none can (``DynamicConfig``)."""
    # That of all users' default, and that of a user's client, have no credentials.
    names = keys if "/" not in path.entity and path.entity != DEFAULT_ENTITY else keys.keys() - MECHANISMS
    for key, text in values.items():
        try:
            if key not in names:
                raise ValueError("it is no quota")
            if key not in MECHANISMS:
                parse_quota(key, text)
        except ValueError as error:
            _log.error(
                "quotas.not_altered", entity=f"{path.entity_type}/{path.entity}", key=key, reason=error
            )
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR) from error


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
