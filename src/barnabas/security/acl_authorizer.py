"""`AclAuthorizer`: answers by access rules (``kafka.security.authorizer.AclAuthorizer``).

Theory of operation
-------------------
Allowed is a super user; whoever the rules allow it to; and, with ``allow.everyone.if.no.acl.found``, everyone
where no rule is for the resource. Requests that this process sends itself, as the controller does to the
broker beside it, are no client's and are allowed.

Each answer is kept until any rule changes: a client asks the same of the same names with every request
(docs/decisions/0040). Every answer, kept or not, may have a line in the log ``kafka.authorizer.logger``, in
Kafka's words: denials at INFO, grants at DEBUG, and at TRACE where the client did not ask for the resource by
its name.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from barnabas.core.acl import (
    AclBinding,
    AclFilter,
    Operation,
    Resource,
    is_principal,
    pascal_name,
)
from barnabas.core.errors import ConfigError, KafkaError
from barnabas.core.eventlog import AUTHORIZER, shown
from barnabas.core.pending import Pending
from barnabas.core.slices import Sliced
from barnabas.network.peer import THIS_BROKER
from barnabas.protocol.api import ApiKey
from barnabas.security.acl_store import AclStore

CLASS_NAME: Final = "kafka.security.authorizer.AclAuthorizer"
"""The value of ``authorizer.class.name`` that stands for this one."""
TRACE: Final = logging.DEBUG // 2
DECISIONS_MAX: Final = 20_000
"""How many answers are kept: all of them go when there are more, some 4 MB."""
NAME_CHARACTERS_MAX: Final = 255
"""Of a longer name no answer is kept: clients may ask for names of 32 KB, and no topic has one."""

_audit: Final = logging.getLogger(AUTHORIZER)


class AclAuthorizer:
    """Decides by the rules of an `AclStore`."""

    def __init__(self, store: AclStore, super_users: frozenset[str], *, allow_without_rules: bool) -> None:
        self._store = store
        self._super_users = super_users
        self._allow_without_rules = allow_without_rules
        self._decisions: dict[tuple[str, str, int, int, str | None], bool] = {}

    def start(self) -> Pending[None]:
        """Reads the rules, and follows their changes from then on."""
        return self._store.start(self._decisions.clear)

    def authorize(
        self,
        request: Any,
        operation: Operation,
        resource: Resource,
        name: str,
        count: Callable[[str], int] | None = None,
        *,
        log_if_allowed: bool = True,
        log_if_denied: bool = True,
    ) -> bool:
        """See `broker.authorizer.Authorizer`."""
        principal = request.principal
        key = (principal, request.client_host, int(operation), int(resource), name)
        allowed = self._decisions.get(key)
        if allowed is None:
            allowed = self._is_always_allowed(principal) or self._store.index.decide(
                principal, key[1], operation, resource, name, without_rules=self._allow_without_rules
            )
            self._keep(key, allowed)
        level = (
            (logging.DEBUG if log_if_allowed else TRACE)
            if allowed
            else (logging.INFO if log_if_denied else TRACE)
        )
        if _audit.isEnabledFor(level):
            named = 1 if count is None else count(name)
            _write(level, request, operation, f"{pascal_name(resource)}:LITERAL:{name}", allowed, named)
        return allowed

    def authorize_any(self, request: Any, operation: Operation, resource: Resource) -> bool:
        """See `broker.authorizer.Authorizer`."""
        principal = request.principal
        key = (principal, request.client_host, int(operation), int(resource), None)
        allowed = self._decisions.get(key)
        if allowed is None:
            allowed = self._is_always_allowed(principal) or self._store.index.decide_any(
                principal, key[1], operation, resource, without_rules=self._allow_without_rules
            )
            self._keep(key, allowed)
        level = logging.DEBUG if allowed else logging.INFO
        if _audit.isEnabledFor(level):
            _write(level, request, operation, f"{pascal_name(resource)}:UNKNOWN:NONE", allowed, 0)
        return allowed

    def acls(self, wanted: AclFilter) -> Sliced[list[AclBinding]]:
        """See `broker.authorizer.AclAdmin`."""
        return self._store.index.matching(wanted)

    def create_acls(self, bindings: Sequence[AclBinding]) -> Pending[list[KafkaError | None]]:
        """See `broker.authorizer.AclAdmin`."""
        return self._store.create(bindings)

    def delete_acls(
        self, filters: Sequence[AclFilter]
    ) -> Pending[list[list[tuple[AclBinding, KafkaError | None]]]]:
        """See `broker.authorizer.AclAdmin`."""
        return self._store.delete(filters)

    def _is_always_allowed(self, principal: str) -> bool:
        return principal == THIS_BROKER or principal in self._super_users

    def _keep(self, key: tuple[str, str, int, int, str | None], allowed: bool) -> None:
        if len(key[-1] or "") > NAME_CHARACTERS_MAX:
            return
        if len(self._decisions) >= DECISIONS_MAX:
            self._decisions.clear()
        self._decisions[key] = allowed

    def __repr__(self) -> str:
        return f"<AclAuthorizer {self._store.index!r}>"


def parse_super_users(text: str) -> frozenset[str]:
    """``super.users``: principals, separated by semicolons, as names in certificates have commas.

    Raises ConfigError for what is no principal.
    """
    users = frozenset(part.strip() for part in text.split(";") if part.strip())
    for user in users:
        if not is_principal(user):
            raise ConfigError(
                f"super.users: expected a string in format principalType:principalName but got {shown(user)}"
            )
    return users


def _write(
    level: int,
    request: Any,
    operation: Operation,
    resource: str,
    allowed: bool,
    count: int,
) -> None:
    _audit.log(
        level,
        "Principal = %s is %s Operation = %s from host = %s on resource = %s for request = %s "
        "with resourceRefCount = %d",
        shown(request.principal),
        "Allowed" if allowed else "Denied",
        pascal_name(operation),
        request.client_host,
        shown(resource),
        pascal_name(ApiKey(request.api_key)),
        count,
    )
