"""`QuotaManagers`: all quotas of clients, as the store has them (``QuotaFactory.QuotaManagers``,
``UserConfigHandler``, ``ClientIdConfigHandler``, ``IpConfigHandler``).

They lie in /config/users/<user>, /config/clients/<client id>, /config/users/<user>/clients/<client id> and
/config/ips/<address>. What is there and is no quota counts for nothing, and one line of the log says so.
"""

from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Final

from barnabas.cluster.metadata.configs import ConfigStore
from barnabas.cluster.store.znodes import DEFAULT_ENTITY, ConfigChange
from barnabas.core.client_quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    parse_quota,
)
from barnabas.core.config import Config
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Steps, steps
from barnabas.core.sampled_rate import SampledRate
from barnabas.network.address_rates import AddressRates
from barnabas.security.client_quota_manager import (
    ClientQuotaManager,
    HeldTo,
    QuotaGeneration,
    QuotaWindow,
)

_log: Final = EventLog("security.quotas")

USERS: Final = "users"
CLIENTS: Final = "clients"
ADDRESSES: Final = "ips"


class QuotaManagers:
    """What each user and client id may do, and how fast each address may connect."""

    __slots__ = (
        "_changed",
        "_generation",
        "_managers",
        "addresses",
        "enabled",
        "exempt",
        "fetch",
        "mutations",
        "produce",
        "request",
    )

    def __init__(
        self,
        now_ms: Callable[[], float],
        window: QuotaWindow = QuotaWindow(),  # noqa: B008 - a value
        mutation_window: QuotaWindow = QuotaWindow(),  # noqa: B008
    ) -> None:
        self._generation = generation = QuotaGeneration()
        self.produce = ClientQuotaManager(now_ms, window, generation=generation)
        """Of bytes a second that producers send."""
        self.fetch = ClientQuotaManager(now_ms, window, generation=generation)
        """Of bytes a second that consumers get."""
        self.request = ClientQuotaManager(
            now_ms, window, generation=generation, throttle_ms_max=window.window_ms
        )
        """Of the time that requests take, in per cent of the loop's."""
        self.mutations = ClientQuotaManager(now_ms, mutation_window, of_tokens=True)
        """Of partitions a second that are made and removed."""
        self.exempt = SampledRate(
            now_ms, samples=window.samples, window_ms=window.window_ms, full_windows=True
        )
        """The time of requests that no quota holds, in per cent (``exempt-request-time``)."""
        self.addresses = AddressRates(now_ms, samples=window.samples, window_ms=window.window_ms)
        self.enabled = False
        """Whether any user or client id has a quota. While none has, a request costs this look."""
        self._managers = {
            PRODUCER_BYTE_RATE: self.produce,
            CONSUMER_BYTE_RATE: self.fetch,
            REQUEST_PERCENTAGE: self.request,
            CONTROLLER_MUTATION_RATE: self.mutations,
        }
        self._changed: set[ConfigChange] | None = None

    @classmethod
    def from_config(cls, config: Config, now_ms: Callable[[], float]) -> "QuotaManagers":
        """Those of a broker."""
        return cls(
            now_ms,
            QuotaWindow(config["quota.window.num"], config["quota.window.size.seconds"] * 1000),
            QuotaWindow(
                config["controller.quota.window.num"], config["controller.quota.window.size.seconds"] * 1000
            ),
        )

    def held_to(self, principal: str, client_id: str | None) -> HeldTo:
        """What the requests of a client are held to; `principal` as ``User:alice``."""
        name = client_id or ""
        produce, fetch, request = (
            manager.bucket(principal, name) if manager.enabled else None
            for manager in (self.produce, self.fetch, self.request)
        )
        return HeldTo(self._generation, principal, client_id, produce=produce, fetch=fetch, request=request)

    @steps
    def start(self, configs: ConfigStore) -> Steps[None]:
        """Reads all quotas. Changes are to be brought to `config_changed` from before this is called."""
        # What a notice brings meanwhile is newer than what is read here.
        self._changed = set()
        users = yield configs.entities(USERS)
        entities = [ConfigChange(USERS, user) for user in users]
        for user in users:
            below = f"{user}/{CLIENTS}"
            clients = yield configs.entities(f"{USERS}/{below}")
            entities += [ConfigChange(USERS, f"{below}/{client}") for client in clients]
        for kind in (CLIENTS, ADDRESSES):
            entities += [ConfigChange(kind, name) for name in (yield configs.entities(kind))]
        for entity in entities:
            values = yield configs.read(entity.entity_type, entity.entity)
            if entity not in self._changed:
                self._use(entity, values)
        self._changed = None

    def config_changed(self, change: ConfigChange, values: Mapping[str, str]) -> None:
        """Settings of some entity were changed: of a user, a client id or an address they are quotas."""
        if change.entity_type in (USERS, CLIENTS, ADDRESSES):
            if self._changed is not None:
                self._changed.add(change)
            self._use(change, values)

    def _use(self, entity: ConfigChange, values: Mapping[str, str]) -> None:
        if entity.entity_type == ADDRESSES:
            self._use_address(entity.entity, values)
            return
        user, client = entity.entity, ""
        if entity.entity_type == CLIENTS:
            user, client = "", entity.entity
        elif "/" in user:
            user, kind, client = (*user.split("/", 2), "")[:3]
            if kind != CLIENTS or not client or "/" in client:
                _log.error("quotas.unreadable", entity=entity.entity, reason="it names no user and client id")
                return
        for key, manager in self._managers.items():
            manager.update_quota(user, client, _bound(entity, key, values))
        self.enabled = any(manager.enabled for manager in self._managers.values())

    def _use_address(self, entity: str, values: Mapping[str, str]) -> None:
        rate = _bound(ConfigChange(ADDRESSES, entity), CONNECTION_CREATION_RATE, values)
        if entity == DEFAULT_ENTITY:
            self.addresses.default = rate
            return
        try:
            address = str(ip_address(entity))
        except ValueError:
            _log.error("quotas.unreadable", entity=f"{ADDRESSES}/{entity}", reason="it is no address")
            return
        self.addresses.set(address, rate)

    def __repr__(self) -> str:
        return f"<QuotaManagers enabled={self.enabled}>"


def _bound(entity: ConfigChange, key: str, values: Mapping[str, str]) -> float | None:
    """The quota of an entity; None where it has none, or one that cannot be."""
    if key not in values:
        return None
    try:
        return parse_quota(key, values[key])
    except ValueError as error:
        _log.error("quotas.unreadable", entity=f"{entity.entity_type}/{entity.entity}", reason=error)
        return None
