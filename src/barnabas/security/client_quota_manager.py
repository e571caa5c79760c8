"""`ClientQuotaManager`: how fast each client may do one thing, and how long it waits when it did more
(``ClientQuotaManager``, ``ClientRequestQuotaManager``).

Theory of operation
-------------------
A quota is for a user and a client id, where either may be the default of all, or be left out. A request is
held to the first that is there::

    1 user, client id    2 user, default    3 user    4 default, client id    5 default, default    6 default
    7 client id          8 default client id

With a quota at 3 or 6 all clients of a user share a bucket. At 7 or 8 all users with that client id share
one. At the other levels each pair of user and client id has its own. So a bucket has a user and a client id,
one of which may be empty, and its bound follows from them (``quotaMetricTags``, ``quotaLimit``). When the
bound changes the bucket keeps what it has counted.

The first request of a client finds its bucket by these rules, later ones in a dictionary. A connection keeps
what its last request was held to (`HeldTo`), so that the next one looks nothing up. That ends when a quota
changes, when buckets are forgotten (`QuotaGeneration`), and when the peer logs in. Clients choose their ids.
So there are never more than `BUCKETS_MAX` buckets, and of a long id the first `CLIENT_ID_CHARACTERS_MAX`
characters count. A bucket that was idle for as long as the rate is measured over is as a new one.
"""

import math
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from barnabas.cluster.store.znodes import DEFAULT_ENTITY, desanitize, sanitize
from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.core.sampled_rate import SampledRate, most_used
from barnabas.core.token_bucket import TokenBucket

BUCKETS_MAX: Final = 10_000
CLIENT_ID_CHARACTERS_MAX: Final = 255
"""Ids may have 32 KB, which would be 160 KB a bucket, and 30 ms of work to find it."""
EXPIRATION_MS: Final = 3_600_000
"""What was idle for so long is not shown any longer (``InactiveSensorExpirationTimeSeconds``)."""
_THROTTLE_MS_MAX: Final = 2**31 - 1
_THROTTLE_SAMPLES: Final = 2
_THROTTLE_WINDOW_MS: Final = 30_000


class QuotaWindow(NamedTuple):
    """How a rate is measured: over so many samples of so many milliseconds."""

    samples: int = 11
    window_ms: int = 1000

    @property
    def span_ms(self) -> int:
        """How long all samples last."""
        return self.samples * self.window_ms


class QuotaBucket:
    """What the clients of one bucket did lately (``ClientSensors``)."""

    __slots__ = (
        "_throttle_ms_max",
        "_throttled",
        "_throttled_ms",
        "bound",
        "client_id",
        "rate",
        "tokens",
        "user",
    )

    def __init__(self, user: str, client_id: str, rate: SampledRate, throttle_ms_max: int) -> None:
        self.user = user
        """As in the store; empty where the bucket is not of one user."""
        self.client_id = client_id
        """As clients give it; empty where the bucket is not of one client id."""
        self.rate = rate
        self.bound: float | None = None
        """How much a second may come; None without a limit."""
        self.tokens: TokenBucket | None = None
        """Of mutations: what is left to spend; None without a limit."""
        self._throttle_ms_max = throttle_ms_max
        self._throttled: SampledRate | None = None
        self._throttled_ms: SampledRate | None = None

    def charge(self, value: float, now_ms: float) -> int:
        """Counts what a client did; for how many milliseconds it has to wait now
        (``recordAndGetThrottleTimeMs``).
        """
        bound = self.bound
        if bound is not None and bound > 0:
            excess_ms = self.rate.charge(value, bound, now_ms)
            # A bound next to zero makes an endless time, which is no int.
            return int(min(excess_ms + 0.5, self._throttle_ms_max)) if excess_ms else 0
        self.rate.record(value)
        # Kafka reckons an endless time for a bound of zero, and makes an int of it that is below zero: the
        # client waits only where there is a cap.
        capped = self._throttle_ms_max < _THROTTLE_MS_MAX
        return self._throttle_ms_max if capped and bound == 0 and self.rate.total() > 0 else 0

    def take_back(self, value: float) -> None:
        """Does not count this any more: the client was not given it (``unrecordQuotaSensor``)."""
        self.rate.record(-value)

    def throttled(self, throttle_ms: float, now_ms: Callable[[], float]) -> None:
        """A client was made to wait."""
        if self._throttled is None or self._throttled_ms is None:
            self._throttled, self._throttled_ms = (
                SampledRate(now_ms, samples=_THROTTLE_SAMPLES, window_ms=_THROTTLE_WINDOW_MS)
                for _ in range(2)
            )
        self._throttled.record(1)
        self._throttled_ms.record(throttle_ms)

    @property
    def throttle_time_ms(self) -> float:
        """How long clients were made to wait lately, on average; NaN where none was."""
        if self._throttled is None or self._throttled_ms is None:
            return math.nan
        times = self._throttled.total()
        return self._throttled_ms.total() / times if times else math.nan

    def __repr__(self) -> str:
        return f"<QuotaBucket user={self.user!r} client_id={self.client_id!r} {self.rate} bound={self.bound}>"


class QuotaGeneration:
    """Counts up when quotas, or who shares a bucket, change: what was looked up before is looked up again."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0


class HeldTo:
    """The buckets of one client, None for kinds of which nobody has a quota. A connection keeps it from one
    request to the next.
    """

    __slots__ = ("_generation", "_number", "client_id", "fetch", "principal", "produce", "request")

    def __init__(
        self,
        generation: QuotaGeneration,
        principal: str,
        client_id: str | None,
        *,
        produce: QuotaBucket | None,
        fetch: QuotaBucket | None,
        request: QuotaBucket | None,
    ) -> None:
        self._generation = generation
        self._number = generation.number
        self.principal = principal
        self.client_id = client_id
        """As requests give it."""
        self.produce = produce
        self.fetch = fetch
        self.request = request

    def is_of(self, principal: str, client_id: str | None) -> bool:
        """Whether it is what a request of this principal with this client id is held to now."""
        return (
            self._number == self._generation.number
            and self.principal == principal
            and self.client_id == client_id
        )


class ClientQuotaManager:
    """The quotas of one kind, and what was used of them."""

    __slots__ = (
        "_buckets",
        "_generation",
        "_now_ms",
        "_of_client",
        "_of_tokens",
        "_quotas",
        "_throttle_ms_max",
        "_window",
        "enabled",
    )

    def __init__(
        self,
        now_ms: Callable[[], float],
        window: QuotaWindow,
        *,
        generation: QuotaGeneration | None = None,
        throttle_ms_max: int = _THROTTLE_MS_MAX,
        of_tokens: bool = False,
    ) -> None:
        """Managers of one broker have one generation. With `of_tokens` a bound is the rate of a token bucket:
        `mutations` spends it.
        """
        self._generation = generation or QuotaGeneration()
        self._now_ms = now_ms
        self._window = window
        self._of_tokens = of_tokens
        self._throttle_ms_max = throttle_ms_max
        self._quotas: dict[tuple[str, str], float] = {}
        """By user and client id as the store has them, empty for what is left out."""
        self._buckets: dict[tuple[str, str], QuotaBucket] = {}
        self._of_client: dict[tuple[str, str], QuotaBucket] = {}
        """By the principal and the client id of a request."""
        self.enabled = False
        """Whether anybody has a quota of this kind. While nobody has, nothing is measured."""

    def update_quota(self, user: str, client_id: str, bound: float | None) -> None:
        """Sets or removes the quota of a user, a client id or both (``updateQuota``); the names as the
        store has them, empty for what is left out.
        """
        key = (user, client_id)
        if self._quotas.get(key) == bound:
            return
        if bound is None:
            del self._quotas[key]
        else:
            self._quotas[key] = bound
        self.enabled = bool(self._quotas)
        self._look_up_again()
        for bucket in self._buckets.values():
            self._limit(bucket)

    def record(self, principal: str, client_id: str, value: float) -> int:
        """As `QuotaBucket.charge`, of a client's bucket."""
        return self.bucket(principal, client_id).charge(value, self._now_ms())

    def throttled(self, principal: str, client_id: str, throttle_ms: float) -> None:
        """A client waits for this quota (``throttle``)."""
        self.bucket(principal, client_id).throttled(throttle_ms, self._now_ms)

    def most_in_window(self, principal: str, client_id: str) -> float:
        """The most that a client can get at once when it got nothing lately: with more it would wait each
        time (``getMaxValueInQuotaWindow``).
        """
        bound = self.bucket(principal, client_id).bound
        if bound is None:
            return math.inf
        return bound * (self._window.samples - 1) * self._window.window_ms / 1000

    def mutations(self, principal: str, client_id: str, *, strict: bool) -> "MutationQuota":
        """What a request may change (``newQuotaFor``)."""
        return MutationQuota(self.bucket(principal, client_id), self._now_ms, strict=strict)

    def bucket(self, principal: str, client_id: str) -> QuotaBucket:
        """The bucket of a client; `principal` as ``User:alice``, the client id empty where it gave none."""
        client_id = client_id[:CLIENT_ID_CHARACTERS_MAX]
        found = self._of_client.get((principal, client_id))
        if found is not None:
            return found
        # Both are bounded: clients may share a bucket, and since quotas changed a bucket may have no client.
        if max(len(self._of_client), len(self._buckets)) >= BUCKETS_MAX:
            self._forget_some()
        user, client = self._names(sanitize(principal.partition(":")[2]), sanitize(client_id))
        bucket = self._buckets.get((user, client))
        if bucket is None:
            rate = SampledRate(
                self._now_ms,
                samples=self._window.samples,
                window_ms=self._window.window_ms,
                full_windows=True,
            )
            bucket = self._buckets[user, client] = QuotaBucket(
                user, desanitize(client), rate, self._throttle_ms_max
            )
            self._limit(bucket)
        self._of_client[principal, client_id] = bucket
        return bucket

    def _names(self, user: str, client: str) -> tuple[str, str]:
        """By which names a client's bucket goes (``quotaMetricTags``)."""
        quotas = self._quotas
        if (user, client) in quotas or (user, DEFAULT_ENTITY) in quotas:
            return user, client
        if (user, "") in quotas:
            return user, ""
        if (DEFAULT_ENTITY, client) in quotas or (DEFAULT_ENTITY, DEFAULT_ENTITY) in quotas:
            return user, client
        if (DEFAULT_ENTITY, "") in quotas:
            return user, ""
        return "", client

    def _limit(self, bucket: QuotaBucket) -> None:
        """Holds a bucket to what is its quota now (``quotaLimit``)."""
        user, client = bucket.user, sanitize(bucket.client_id)
        levels = [(user, client)]
        if user and client:
            levels += [(user, DEFAULT_ENTITY), (DEFAULT_ENTITY, client), (DEFAULT_ENTITY, DEFAULT_ENTITY)]
        else:
            levels.append((user and DEFAULT_ENTITY, client and DEFAULT_ENTITY))
        bound = next((self._quotas[level] for level in levels if level in self._quotas), None)
        bucket.bound = bound
        if bound is None or not self._of_tokens:
            bucket.tokens = None
        elif bucket.tokens is None:
            bucket.tokens = TokenBucket(self._now_ms, bound, burst_s=self._window.span_ms / 1000)
        else:
            bucket.tokens.rate = bound

    def _look_up_again(self) -> None:
        self._of_client.clear()
        self._generation.number += 1

    def _forget_some(self) -> None:
        """Makes room where clients came with ever more names: what is idle goes, then what used least."""
        self._look_up_again()
        in_use = {
            names: bucket
            for names, bucket in self._buckets.items()
            if not bucket.rate.is_idle or not (bucket.tokens is None or bucket.tokens.full)
        }
        self._buckets = most_used(in_use, lambda bucket: bucket.rate, BUCKETS_MAX // 2)

    def buckets(self) -> Iterator[QuotaBucket]:
        """Those that were used in the last hour."""
        since_ms = self._now_ms() - EXPIRATION_MS
        return (bucket for bucket in list(self._buckets.values()) if bucket.rate.last_ms > since_ms)

    def __repr__(self) -> str:
        return f"<ClientQuotaManager quotas={len(self._quotas)} buckets={len(self._buckets)}>"


class MutationQuota:
    """The changes of one request, in partitions that it makes or removes (``ControllerMutationQuota``).

    A strict quota refuses what comes while the tokens are in debt, and never throttles for what it has
    taken. A permissive one takes all, and throttles for the debt.
    """

    __slots__ = ("_bucket", "_now_ms", "_strict", "_throttle_until_ms")

    def __init__(self, bucket: QuotaBucket, now_ms: Callable[[], float], *, strict: bool) -> None:
        self._bucket = bucket
        self._now_ms = now_ms
        self._strict = strict
        self._throttle_until_ms = 0.0

    def record(self, partitions: int) -> None:
        """Counts partitions. Raises KafkaError THROTTLING_QUOTA_EXCEEDED where a strict quota has no more."""
        tokens = self._bucket.tokens
        if tokens is None:
            self._bucket.rate.record(partitions)
            return
        if self._strict and tokens.tokens < 0:
            self._throttle_until_ms = self._now_ms() + tokens.debt_ms()
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        self._bucket.rate.record(partitions)
        tokens.spend(partitions)
        if not self._strict and tokens.tokens < 0:
            self._throttle_until_ms = self._now_ms() + tokens.debt_ms()

    @property
    def throttle_ms(self) -> int:
        """How long the client has to wait from now on: the request itself may have waited meanwhile."""
        left_ms = self._throttle_until_ms - self._now_ms()
        return int(min(left_ms + 0.5, _THROTTLE_MS_MAX)) if left_ms > 0 else 0

    def __repr__(self) -> str:
        return f"<MutationQuota {'strict' if self._strict else 'permissive'} {self._bucket}>"
