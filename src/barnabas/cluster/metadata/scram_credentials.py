"""What brokers know of passwords for SCRAM: /config/users/<user>, kept in memory and watched
(``CredentialProvider``).

A credential that is not one counts as none (`credentials_of`).
"""

from collections.abc import Mapping

from barnabas.cluster.metadata.configs import ConfigStore
from barnabas.cluster.store.znodes import DEFAULT_ENTITY, ConfigChange, desanitize
from barnabas.core.pending import Steps, steps
from barnabas.core.scram import ScramCredential, ScramMechanism, credentials_of


class ScramCredentials:
    """The credentials of all users, as far as the store's notices have come."""

    def __init__(self) -> None:
        self._by_user: dict[tuple[ScramMechanism, str], ScramCredential] = {}
        self._changed: set[str] | None = None

    def find(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        """The credential of a user; None where there is none."""
        return self._by_user.get((mechanism, user))

    @steps
    def start(self, configs: ConfigStore) -> Steps[None]:
        """Reads all users. Changes are to be brought to `config_changed` from before this is called."""
        # What a notice brings meanwhile is newer than what is read here.
        self._changed = set()
        for entity in (yield configs.entities("users")):
            values = yield configs.read("users", entity)
            if entity not in self._changed:
                self._use(entity, values)
        self._changed = None

    def config_changed(self, change: ConfigChange, values: Mapping[str, str]) -> None:
        """Settings of some entity were changed; those of a user's clients have no credentials."""
        if change.entity_type == "users" and "/" not in change.entity:
            if self._changed is not None:
                self._changed.add(change.entity)
            self._use(change.entity, values)

    def _use(self, entity: str, values: Mapping[str, str]) -> None:
        if entity == DEFAULT_ENTITY:
            return
        user = desanitize(entity)
        for mechanism in ScramMechanism:
            self._by_user.pop((mechanism, user), None)
        for mechanism, credential in credentials_of(user, values):
            self._by_user[mechanism, user] = credential

    def __repr__(self) -> str:
        return f"<ScramCredentials {len(self._by_user)}>"
