"""Real brokers on damaged files do what docs/damage.md says."""

import damage
import pytest
from damage_rig import ALL, SECURED, STATES, look_at_brokers, look_at_partitions

from seeds import drawn_by_this_run

READERS_KNOW = ("bad CRC", "a closed connection", "refuses: Error")
"""The client finds the first itself; the log has the reason of the others without the name of a partition."""


def differences(found, state):
    """Every line that is not as the page says, and every loss that nobody hears of."""
    expected = damage.expected(state)
    for what, seen in found.items():
        if str(seen) != expected.get(what):
            yield f"{what}: {seen}, and the page says {expected.get(what)}"
        told = seen.events or any(each in seen.readers for each in READERS_KNOW)
        if not told and not seen.readers.startswith(ALL):
            yield f"{what}: {seen.readers}, and nobody says anything"
        yield from (
            f"{what}: nobody knows what {event} means" for event in seen.events if event not in damage.EVENTS
        )


@pytest.mark.campaign
@pytest.mark.timeout(300)
@pytest.mark.parametrize("state", STATES)
def test_damaged_partitions(state, tmp_path):
    found = look_at_partitions(damage.PARTITION, state, tmp_path, damage.expected(state))
    assert not list(differences(found, state))


@pytest.mark.campaign
@pytest.mark.timeout(300)
@pytest.mark.parametrize("state", drawn_by_this_run(STATES, "brokers"))
def test_damaged_brokers(state, tmp_path):
    found = look_at_brokers(damage.BROKER, state, tmp_path, damage.expected(state))
    assert not list(differences(found, state))


@pytest.mark.campaign
@pytest.mark.timeout(300)
@pytest.mark.parametrize("state", drawn_by_this_run(STATES, "znodes"))
def test_damaged_znodes(state, tmp_path):
    found = look_at_brokers(damage.ZNODES, state, tmp_path, damage.expected(state))
    assert not list(differences(found, state))


@pytest.mark.campaign
@pytest.mark.timeout(300)
@pytest.mark.parametrize("state", drawn_by_this_run(STATES, "security"))
def test_damaged_znodes_of_users_rules_quotas_and_tokens(state, tmp_path):
    found = look_at_brokers(damage.SECURITY, state, tmp_path, damage.expected(state), SECURED)
    assert not list(differences(found, state))


def test_the_page_has_every_damage_once():
    whats = [each.what for damages in damage.SECTIONS.values() for each in damages]
    assert len(set(whats)) == len(whats)
    assert set(damage.expected("clean")) == {*whats, "damage"}
