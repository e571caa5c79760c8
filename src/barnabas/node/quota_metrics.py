"""The metrics of quotas: what each client does of what it may, and how long it is made to wait.

A kind that nobody has a quota of shows nothing.
"""

from collections.abc import Callable, Iterable
from typing import Final

from barnabas.core.metrics import Kind, Reading, Registry
from barnabas.security.client_quota_manager import ClientQuotaManager, QuotaBucket
from barnabas.security.quota_managers import QuotaManagers

_LABELS: Final = ("user", "client_id")


def add_quotas(registry: Registry, quotas: QuotaManagers) -> None:
    """Adds them; the labels are empty where a quota is not of one user, or not of one client id."""

    def gauge(
        name: str, doc: str, manager: ClientQuotaManager, value: Callable[[QuotaBucket], float | None]
    ) -> None:
        def readings() -> Iterable[Reading | None]:
            for bucket in manager.buckets() if manager.enabled else ():
                found = value(bucket)
                if found is not None:
                    yield (bucket.user, bucket.client_id), found
                yield None

        registry.add(f"kafka_server_{name}", Kind.GAUGE, doc, readings, _LABELS)

    def rate(bucket: QuotaBucket) -> float:
        return bucket.rate.per_second()

    def tokens(bucket: QuotaBucket) -> float | None:
        return None if bucket.tokens is None else bucket.tokens.tokens

    produce, fetch, request, mutations = quotas.produce, quotas.fetch, quotas.request, quotas.mutations
    gauge("produce_byte_rate", "Bytes a second of the Produce requests of a client.", produce, rate)
    gauge("fetch_byte_rate", "Bytes a second of the responses that a consumer was given.", fetch, rate)
    gauge("request_request_time", "Per cent of the loop's time that a client took.", request, rate)
    gauge(
        "controllermutation_mutation_rate",
        "Partitions a second that a client made and removed.",
        mutations,
        rate,
    )
    gauge(
        "controllermutation_tokens",
        "Partitions that a client may make or remove at once; below zero it may none.",
        mutations,
        tokens,
    )
    for kind, manager in (
        ("produce", produce),
        ("fetch", fetch),
        ("request", request),
        ("controllermutation", mutations),
    ):
        gauge(
            f"{kind}_throttle_time",
            "Milliseconds for which a client was made to wait for this quota, on average; NaN where it was "
            "not lately.",
            manager,
            lambda bucket: bucket.throttle_time_ms,
        )
    registry.gauge(
        "kafka_server_request_exempt_request_time",
        "Per cent of the loop's time for requests that no quota holds, while there are quotas.",
        quotas.exempt.per_second,
    )
