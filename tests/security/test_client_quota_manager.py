"""Quotas of clients: which one holds a client, for how long it waits, what is left to spend."""

import math

import pytest

from barnabas.core.errors import ErrorCode, KafkaError
from barnabas.security.client_quota_manager import (
    BUCKETS_MAX,
    CLIENT_ID_CHARACTERS_MAX,
    ClientQuotaManager,
    QuotaWindow,
)
from standing_clock import Time

ALICE = "User:alice"
WINDOW = QuotaWindow(samples=11, window_ms=1000)
DEFAULT = "<default>"


@pytest.fixture
def time():
    return Time(5_000.0)


@pytest.fixture
def quotas(time):
    return ClientQuotaManager(time, WINDOW)


LEVELS = [
    ("alice", "app"),
    ("alice", DEFAULT),
    ("alice", ""),
    (DEFAULT, "app"),
    (DEFAULT, DEFAULT),
    (DEFAULT, ""),
    ("", "app"),
    ("", DEFAULT),
]
"""From the one that counts before all others."""


@pytest.mark.parametrize("first", range(len(LEVELS)), ids=[":".join(level) for level in LEVELS])
def test_the_nearest_quota_counts(quotas, first):
    for number, level in enumerate(LEVELS[first:], first):
        quotas.update_quota(*level, 100 + number)

    bucket = quotas.bucket(ALICE, "app")

    assert bucket.bound == 100 + first
    user, client = LEVELS[first]
    assert (bucket.user, bucket.client_id) == (user and "alice", client and "app")


def test_who_is_none_of_these_has_no_quota(quotas):
    quotas.update_quota("bob", "app", 1)
    quotas.update_quota("alice", "other", 1)
    quotas.update_quota("", "third", 1)

    assert quotas.bucket(ALICE, "app").bound is None
    assert quotas.record(ALICE, "app", 1e12) == 0


def test_names_are_found_as_the_store_has_them(quotas):
    quotas.update_quota("CN%3Dalice%2CO%3Dus", "my%20app", 7)
    bucket = quotas.bucket("User:CN=alice,O=us", "my app")
    assert bucket.bound == 7
    assert (bucket.user, bucket.client_id) == ("CN%3Dalice%2CO%3Dus", "my app")
    assert quotas.bucket("User:CN=alice,O=us", "<default>").bound is None


def test_a_user_shares_its_quota_among_its_clients_and_a_client_id_among_users(quotas):
    quotas.update_quota("alice", "", 1)
    assert quotas.bucket(ALICE, "one") is quotas.bucket(ALICE, "two")
    quotas.update_quota("", "three", 1)
    assert quotas.bucket("User:bob", "three") is quotas.bucket("User:carol", "three")
    quotas.update_quota(DEFAULT, "", 1)
    assert quotas.bucket("User:bob", "three") is not quotas.bucket("User:carol", "three")


def test_the_time_is_what_brings_the_rate_back(quotas, time):
    quotas.update_quota("", "app", 100)
    # Ten whole samples and the current one: the first second counts as ten.
    assert quotas.record(ALICE, "app", 1000) == 0
    assert quotas.record(ALICE, "app", 500) == 5000
    time.now_ms += 3000
    # 1,500 in 10 s, though 3 s have passed.
    assert quotas.record(ALICE, "app", 0) == 5000
    time.now_ms += 9500
    assert quotas.record(ALICE, "app", 0) == 0


def test_nothing_lately_is_forgotten(quotas, time):
    quotas.update_quota("", "app", 100)
    quotas.record(ALICE, "app", 1_000_000)
    time.now_ms += WINDOW.span_ms
    assert quotas.record(ALICE, "app", 1000) == 0


def test_a_quota_that_is_changed_counts_at_once_for_what_was_done(quotas):
    quotas.update_quota("", "app", 1000)
    assert quotas.record(ALICE, "app", 10_000) == 0
    quotas.update_quota("", "app", 500)
    assert quotas.record(ALICE, "app", 0) == 10_000
    quotas.update_quota("", "app", None)
    assert not quotas.enabled
    assert quotas.record(ALICE, "app", 0) == 0


def test_the_quota_of_time_throttles_for_a_sample_at_most(time):
    quotas = ClientQuotaManager(time, WINDOW, throttle_ms_max=1000)
    quotas.update_quota("", DEFAULT, 1)
    assert quotas.record(ALICE, "app", 10.5) == 500
    assert quotas.record(ALICE, "app", 500) == 1000


def test_a_quota_of_nothing_throttles_where_the_time_is_capped(time, quotas):
    capped = ClientQuotaManager(time, WINDOW, throttle_ms_max=1000)
    for each in (quotas, capped):
        each.update_quota("", "app", 0)
    assert quotas.record(ALICE, "app", 5) == 0, "Kafka's int of an endless time is -1"
    assert capped.record(ALICE, "app", 5) == 1000


def test_an_endless_time_is_as_long_as_an_int_can_say(quotas):
    quotas.update_quota("", "app", 1)
    assert quotas.record(ALICE, "app", 1e15) == 2**31 - 1


@pytest.mark.parametrize("bound", [1e-320, 4.9e-324])
def test_a_quota_next_to_zero_makes_a_client_wait_as_long_as_can_be(quotas, time, bound):
    quotas.update_quota("", "app", bound)
    assert quotas.record(ALICE, "app", 50) == 2**31 - 1
    mutations = ClientQuotaManager(time, WINDOW, of_tokens=True)
    mutations.update_quota("", "app", bound)
    quota = mutations.mutations(ALICE, "app", strict=False)
    quota.record(10)
    assert quota.throttle_ms == 2**31 - 1


def test_what_was_not_given_is_not_counted(quotas):
    quotas.update_quota("", "app", 100)
    assert quotas.record(ALICE, "app", 2000) == 10_000
    quotas.bucket(ALICE, "app").take_back(2000)
    assert quotas.record(ALICE, "app", 1000) == 0


def test_a_fetch_is_no_larger_than_what_can_ever_be_had(quotas):
    assert quotas.most_in_window(ALICE, "app") == math.inf
    quotas.update_quota("", "app", 100)
    assert quotas.most_in_window(ALICE, "app") == 1000


def test_the_mean_of_the_waits(quotas, time):
    quotas.update_quota("", "app", 100)
    bucket = quotas.bucket(ALICE, "app")
    assert math.isnan(bucket.throttle_time_ms)
    quotas.throttled(ALICE, "app", 100)
    quotas.throttled(ALICE, "app", 300)
    assert bucket.throttle_time_ms == 200
    time.now_ms += 120_000
    assert math.isnan(bucket.throttle_time_ms)


def test_no_number_of_client_ids_takes_memory_without_end(quotas, time):
    quotas.update_quota("", DEFAULT, 100)
    quotas.record(ALICE, "heavy", 1_000_000)
    for number in range(2 * BUCKETS_MAX):
        quotas.record(ALICE, f"id-{number}", 1)
        if number % 5000 == 4999:
            assert sum(1 for _ in quotas.buckets()) <= BUCKETS_MAX
            quotas.update_quota("", "other", number)
    assert quotas.record(ALICE, "heavy", 0) > 0, "the one that used most is remembered"
    time.now_ms += 3_600_001
    assert list(quotas.buckets()) == []


def test_of_a_long_client_id_the_beginning_counts(quotas):
    """A bucket by an id of 32 KB would take 160 KB, and 30 ms to be found."""
    quotas.update_quota("", DEFAULT, 100)
    beginning = "/" * CLIENT_ID_CHARACTERS_MAX
    bucket = quotas.bucket(ALICE, beginning + "a" * 30_000)
    assert bucket is quotas.bucket(ALICE, beginning + "b")
    assert bucket.client_id == beginning
    assert bucket is not quotas.bucket(ALICE, beginning[1:])
    assert quotas.record(ALICE, beginning + "c", 2000) == 10_000


# --- mutations


@pytest.fixture
def mutations(time):
    quotas = ClientQuotaManager(time, WINDOW, of_tokens=True)
    quotas.update_quota("", "app", 2.0)
    return quotas


def test_a_strict_quota_takes_what_begins_within_it_and_refuses_what_follows(mutations, time):
    quota = mutations.mutations(ALICE, "app", strict=True)
    quota.record(30)  # there were 2 x 11
    assert quota.throttle_ms == 0
    with pytest.raises(KafkaError) as refused:
        quota.record(1)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert quota.throttle_ms == 4000
    time.now_ms += 1500
    assert quota.throttle_ms == 2500
    time.now_ms += 2500
    mutations.mutations(ALICE, "app", strict=True).record(5)


def test_a_permissive_quota_takes_all_and_throttles(mutations):
    quota = mutations.mutations(ALICE, "app", strict=False)
    quota.record(22)
    assert quota.throttle_ms == 0
    quota.record(5)
    assert quota.throttle_ms == 2500


def test_tokens_are_not_saved_up_beyond_the_burst(mutations, time):
    mutations.mutations(ALICE, "app", strict=True).record(1)
    time.now_ms += 1_000_000
    assert mutations.bucket(ALICE, "app").tokens.tokens == 22
    mutations.update_quota("", "app", 1)
    assert mutations.bucket(ALICE, "app").tokens.tokens == 11


def test_without_a_quota_mutations_are_counted_only(mutations):
    quota = mutations.mutations(ALICE, "other", strict=True)
    for _ in range(100):
        quota.record(1000)
    assert quota.throttle_ms == 0
    assert mutations.bucket(ALICE, "other").rate.per_second() == 10_000


def test_what_the_objects_say_of_themselves(mutations):
    mutations.mutations(ALICE, "app", strict=True).record(10)
    assert repr(mutations) == "<ClientQuotaManager quotas=1 buckets=1>"
    assert repr(mutations.bucket(ALICE, "app")) == (
        "<QuotaBucket user='' client_id='app' <SampledRate 1/s> bound=2.0>"
    )
    assert repr(mutations.bucket(ALICE, "app").tokens) == "<TokenBucket 12.0 tokens, 2.0/s>"
    assert repr(mutations.mutations(ALICE, "app", strict=False)).startswith("<MutationQuota permissive ")
