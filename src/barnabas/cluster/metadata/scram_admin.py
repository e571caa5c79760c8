"""`ScramAdmin`: shows and changes the SCRAM credentials of users (KIP-554, ``ZkAdminManager``).

They lie with the quotas of a user in /config/users, one value a mechanism, as Kafka 3.9 writes them.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from barnabas.cluster.metadata.configs import ConfigStore
from barnabas.cluster.store.contract import StoreError
from barnabas.cluster.store.znodes import DEFAULT_ENTITY, desanitize, sanitize
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.pending import Steps, steps
from barnabas.core.scram import ITERATIONS_MAX, ITERATIONS_MIN, NUMBERS, ScramCredential, credentials_of

_log: Final = EventLog("cluster.scram_admin")

_NO_NAME: Final = "Username must not be empty"


class CredentialAlteration(NamedTuple):
    """A credential to set, or to remove where there are no iterations."""

    user: str
    mechanism: int
    iterations: int | None = None
    salt: bytes = b""
    salted_password: bytes = b""

    def __repr__(self) -> str:
        return f"<CredentialAlteration {self.user} mechanism={self.mechanism}>"


class ScramAdmin:
    """Reads and writes credentials in the metadata store."""

    def __init__(self, configs: ConfigStore) -> None:
        self._configs = configs

    @steps
    def describe(self, users: Sequence[str] | None) -> Steps[dict[str, dict[int, int] | KafkaError]]:
        """The iterations of each mechanism, by number, of these users or of all that have credentials."""
        found: dict[str, dict[int, int] | KafkaError] = {}
        if not users:
            for entity in (yield self._configs.entities("users")):
                if entity != DEFAULT_ENTITY:
                    described = yield self._iterations(entity)
                    if described:
                        found[desanitize(entity)] = described
            return dict(sorted(found.items()))
        for user, times in Counter(users).items():
            if not user:
                found[user] = KafkaError(ErrorCode.RESOURCE_NOT_FOUND, _NO_NAME)
            elif times > 1:
                found[user] = KafkaError(
                    ErrorCode.DUPLICATE_RESOURCE,
                    f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}",
                )
            else:
                described = yield self._iterations(sanitize(user))
                found[user] = described or KafkaError(
                    ErrorCode.RESOURCE_NOT_FOUND,
                    f"Attempt to describe a user credential that does not exist: {user}",
                )
        return found

    @steps
    def _iterations(self, entity: str) -> Steps[dict[int, int]]:
        """Of each mechanism, by its number."""
        settings = yield self._configs.read("users", entity)
        return {
            mechanism.number: credential.iterations
            for mechanism, credential in credentials_of(desanitize(entity), settings)
        }

    @steps
    def alter(self, alterations: Sequence[CredentialAlteration]) -> Steps[dict[str, KafkaError | None]]:
        """Sets and removes credentials; the error of each user, of whom then nothing was changed."""
        by_user: dict[str, list[CredentialAlteration]] = {}
        for each in alterations:
            by_user.setdefault(each.user, []).append(each)
        results: dict[str, KafkaError | None] = {}
        for user, those in by_user.items():
            error = _problem(those)
            results[user] = error if error is not None else (yield self._alter_user(user, those))
        return results

    @steps
    def _alter_user(self, user: str, alterations: Iterable[CredentialAlteration]) -> Steps[KafkaError | None]:
        entity = sanitize(user)
        values = dict((yield self._configs.read("users", entity)))
        for each in alterations:
            mechanism = NUMBERS[each.mechanism]
            if each.iterations is not None:
                values[mechanism.value] = ScramCredential.of_salted(
                    mechanism, each.salted_password, each.salt, each.iterations
                ).text()
            elif values.pop(mechanism.value, None) is None:
                return KafkaError(
                    ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
                )
        try:
            yield self._configs.write("users", entity, values)
        except StoreError as error:
            _log.error("scram.not_altered", user=user, reason=error)
            return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return None


def _problem(alterations: Sequence[CredentialAlteration]) -> KafkaError | None:
    """What is wrong with what is asked for one user, in Kafka's order."""
    if not alterations[0].user:
        return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, _NO_NAME)
    for each in sorted(alterations, key=lambda one: one.iterations is None):
        if each.mechanism not in NUMBERS:
            return KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
        if each.iterations is not None and not ITERATIONS_MIN <= each.iterations <= ITERATIONS_MAX:
            too = "many" if each.iterations > ITERATIONS_MAX else "few"
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"Too {too} iterations")
    if len({each.mechanism for each in alterations}) < len(alterations):
        return KafkaError(
            ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
        )
    return None
