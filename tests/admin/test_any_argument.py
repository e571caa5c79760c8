"""Whatever the admin client is given, a call raises in words that name it, or ends in its time.

Every verb of every noun is called, those that will be added too: arguments come by the parameters that a verb
has, from what is right, nearly right, and wrong.
"""

import inspect
import time
import traceback
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from barnabas.admin import (
    AbortTransactionSpec,
    Admin,
    AlterConfigOp,
    AsyncAdmin,
    ConfigResource,
    FeatureUpdate,
    NewPartitions,
    NewTopic,
    OffsetAndMetadata,
    TopicPartitionReplica,
)
from barnabas.admin.quotas import (
    ClientQuotaAlteration,
    QuotaFilter,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from barnabas.client import BarnabasError, KafkaError, TopicPartition
from barnabas.core.acl import AccessControlEntry, AclBinding, AclFilter, ResourcePattern
from barnabas.core.errors import ErrorCode

TIMEOUT_MS = 20
MORE_S = 10
"""What a call may take more, on a machine that is busy."""

NOUNS = ["acls", "cluster", "configs", "coordinators", "delegation_tokens", "features", "groups", "log_dirs"]
NOUNS += ["offsets", "partitions", "quotas", "topics", "transactions"]
SCALARS: list[Any] = [
    *(None, True, 0, 1, -1, 2**31, 2**63, 2**70, 1.5, float("nan"), float("inf"), "", "t", "0", "\ud800"),
    *("t" * 300, b"t", b"", bytearray(b"t"), object(), int, len, 1j, range(2)),
]
T0 = TopicPartition("t", 0)
scalars = st.sampled_from(SCALARS)
partitions = st.just(T0) | st.builds(TopicPartition, scalars, scalars) | st.tuples(scalars, scalars)
replicas = st.builds(TopicPartitionReplica, scalars, scalars, scalars)
resources = st.just(ConfigResource.topic("t")) | st.builds(ConfigResource, scalars, scalars)


def check_words(error: Exception) -> None:
    """It is raised for what was given, and not by what Python makes of it somewhere."""
    assert isinstance(error, BarnabasError | TypeError | ValueError), repr(error)
    assert "\n" not in str(error)
    raised = traceback.extract_tb(error.__traceback__)[-1]
    assert (raised.line or "").startswith("raise "), f"{error!r} of {raised.filename}:{raised.lineno}"


def taken(build: Callable[..., Any], *parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """What `build` makes of the parts; a text where it refuses them itself, which others judge."""

    def made(*given: Any) -> Any:
        try:
            return build(*given)
        except TypeError as refused:
            check_words(refused)
            return str(refused)

    return st.builds(made, *parts)


def dictionaries(keys: Any, values: Any) -> st.SearchStrategy[Any]:
    return st.dictionaries(keys.filter(is_hashable), values, max_size=2)


def is_hashable(one: Any) -> bool:
    try:
        hash(one)
    except TypeError:
        return False
    return True


brokers = scalars | st.lists(scalars, max_size=2)
THINGS = (
    scalars
    | partitions
    | replicas
    | resources
    | taken(
        NewTopic, scalars, scalars, scalars, dictionaries(scalars, brokers), dictionaries(scalars, scalars)
    )
    | taken(NewPartitions, scalars, st.none() | st.lists(brokers, max_size=2))
    | st.builds(AlterConfigOp, scalars, scalars, scalars)
    | st.builds(FeatureUpdate, scalars, scalars)
    | st.builds(OffsetAndMetadata, scalars, scalars, scalars)
    | st.builds(QuotaFilter, scalars, scalars, scalars)
    | st.builds(
        ClientQuotaAlteration, scalars | dictionaries(scalars, scalars), dictionaries(scalars, scalars)
    )
    | st.builds(UserScramCredentialUpsertion, scalars, scalars | st.just("SCRAM-SHA-256"), scalars, scalars)
    | st.builds(UserScramCredentialDeletion, scalars, scalars)
    | st.builds(AclFilter, scalars, scalars, scalars)
    | st.builds(
        AclBinding,
        scalars | st.builds(ResourcePattern, scalars, scalars, scalars),
        scalars | st.builds(AccessControlEntry, scalars, scalars, scalars, scalars),
    )
    | st.builds(AbortTransactionSpec, scalars | partitions, scalars, scalars, scalars)
)
keys = st.just("t") | st.just(T0) | st.just(ConfigResource.topic("t")) | THINGS
values = THINGS | brokers | dictionaries(scalars, scalars) | st.lists(THINGS, max_size=2)
ARGUMENTS = (
    THINGS
    | st.lists(THINGS | brokers, max_size=3)
    | st.lists(THINGS, max_size=2).map(tuple)
    | st.lists(THINGS, max_size=2).map(iter)
    | dictionaries(keys, values)
)


TIMES = st.just(TIMEOUT_MS) | st.sampled_from([0, -1, True, "x", b"1", [], 1j, float("nan"), 10**400])


def calls(verbs: dict[str, Callable[..., Any]]) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    """The name of a verb, and arguments for it: all that it needs, some that it does not."""

    def arguments(name: str) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
        own = [one for one in inspect.signature(verbs[name]).parameters.values() if one.name != "timeout_ms"]
        needed = {one.name: ARGUMENTS for one in own if one.default is one.empty}
        others = {one.name: ARGUMENTS for one in own if one.default is not one.empty}
        given = st.fixed_dictionaries({**needed, "timeout_ms": TIMES}, optional=others)
        return st.tuples(st.just(name), given)

    return st.sampled_from(sorted(verbs)).flatmap(arguments)


def verbs_of(noun: Any) -> dict[str, Callable[..., Any]]:
    return {
        name: verb
        for name, verb in inspect.getmembers(noun, inspect.ismethod)
        if not name.startswith("_") and name != "end"
    }


@pytest.mark.parametrize("noun", NOUNS)
def test_a_call_raises_in_words_or_ends_in_its_time(kafka: SimpleNamespace, noun: str) -> None:
    with Admin(kafka.bootstrap_servers) as admin:

        async def asynchronous(twin: AsyncAdmin, name: str, given: dict[str, Any]) -> None:
            await getattr(getattr(twin, noun), name)(**given)

        verbs = verbs_of(getattr(admin, noun))

        @hypothesis.settings(max_examples=60, suppress_health_check=list(hypothesis.HealthCheck))
        @hypothesis.given(calls(verbs), st.booleans())
        def ask(call: tuple[str, dict[str, Any]], by_twin: bool) -> None:
            name, given = call
            started = time.monotonic()
            try:
                admin.using(asynchronous, name, given) if by_twin else verbs[name](**given)
            except Exception as error:
                check_words(error)
            assert time.monotonic() - started < TIMEOUT_MS / 1000 + MORE_S

        ask()
        assert admin.cluster.describe().brokers, "and the client is as good as before"


def test_every_noun_is_asked(kafka: SimpleNamespace) -> None:
    with Admin(kafka.bootstrap_servers) as admin:
        assert [one for one in sorted(vars(admin)) if not one.startswith("_")] == NOUNS


def test_a_time_of_years_fits_into_requests(kafka: SimpleNamespace) -> None:
    years_ms = 2**40
    with Admin(kafka.bootstrap_servers) as admin:
        found = admin.features.try_update({"t": FeatureUpdate(1)}, timeout_ms=years_ms)
        assert isinstance(found["t"], KafkaError)
        with pytest.raises(KafkaError) as refused:
            admin.transactions.fence("t", timeout_ms=years_ms)
        assert refused.value.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_a_password_is_not_hashed_for_ever(kafka: SimpleNamespace) -> None:
    wanted = UserScramCredentialUpsertion("ada", "SCRAM-SHA-256", "secret", 2**31 - 1)
    with Admin(kafka.bootstrap_servers) as admin:
        found = admin.quotas.try_alter_scram_credentials([wanted], timeout_ms=TIMEOUT_MS)
    assert "Too many iterations" in str(found["ada"])
