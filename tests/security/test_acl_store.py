"""Rules in the metadata store: as Kafka writes them, and how brokers hear of each other's changes."""

import random

import pytest

from barnabas.cluster.metadata.change_notices import NOTICE_LIFE_MS
from barnabas.cluster.store import acl_znodes
from barnabas.core.acl import (
    AccessControlEntry,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    Resource,
    ResourcePattern,
)
from barnabas.core.errors import ErrorCode
from barnabas.core.slices import SLICE_MS, sliced_pending
from barnabas.security.acl_store import RETRIES_MAX, AclStore
from standing_clock import TickingClock

TOPIC = ResourcePattern(Resource.TOPIC, "orders")
GROUPS = ResourcePattern(Resource.GROUP, "g-", PatternType.PREFIXED)
READ = AccessControlEntry("User:alice", "*", Operation.READ, Permission.ALLOW)
DESCRIBE = AccessControlEntry("User:alice", "*", Operation.DESCRIBE, Permission.ALLOW)
DENY = AccessControlEntry("User:bob", "*", Operation.ALL, Permission.DENY)
DENIED_TO_ALL = AccessControlEntry("User:*", "*", Operation.ALL, Permission.DENY)

# Of a genuine Kafka 3.9.2, made by kafka-acls.sh.
KAFKAS = {
    "/kafka-acl/Topic/orders": b'{"acls":[{"principal":"User:alice","permissionType":"Allow","host":"*",'
    b'"operation":"Read"},{"principal":"User:alice","permissionType":"Allow","host":"*","operation":'
    b'"Describe"}],"version":1}',
    "/kafka-acl-extended/prefixed/Group/g-": b'{"acls":[{"principal":"User:bob","permissionType":"Deny",'
    b'"host":"*","operation":"All"}],"version":1}',
    "/kafka-acl-changes/acl_changes_0000000000": b"TOPIC:orders",
    "/kafka-acl-extended-changes/acl_changes_0000000000": b'{"version":1,"resourceType":"GROUP","name":"g-",'
    b'"patternType":"PREFIXED"}',
}


def entries(acls, pattern=TOPIC):
    return set(acls.index.entries(pattern))


def names(brokers, store, path):
    return brokers.loop.wait(store.children(path))


def data(brokers, store, path):
    return brokers.loop.wait(store.get(path))[0]


def create(brokers, acls, *rules):
    return brokers.loop.wait(acls.create([AclBinding(*rule) for rule in rules]))


def test_znodes_and_notices_are_those_of_kafka(brokers):
    store = brokers.session()
    acls = brokers.acls(store)

    assert create(brokers, acls, (TOPIC, READ), (GROUPS, DENY), (TOPIC, DESCRIBE)) == [None] * 3

    assert {path: data(brokers, store, path) for path in KAFKAS} == KAFKAS
    kinds = ["Cluster", "DelegationToken", "Group", "Topic", "TransactionalId", "User"]
    assert names(brokers, store, "/kafka-acl") == kinds
    assert names(brokers, store, "/kafka-acl-extended/prefixed") == kinds


def test_what_another_broker_wrote_is_read_at_the_start_and_when_it_is_noticed(brokers):
    other = brokers.acls()
    create(brokers, other, (TOPIC, READ))
    changes = []
    mine = brokers.acls(on_change=lambda: changes.append(1))
    assert entries(mine) == {READ}

    changes.clear()
    create(brokers, other, (GROUPS, DENY))
    brokers.loop.run()
    assert entries(mine, GROUPS) == {DENY}
    # Decisions that were kept are no longer true.
    assert changes

    brokers.loop.wait(other.delete([AclFilter()]))
    brokers.loop.run()
    assert (entries(mine), entries(mine, GROUPS)) == (set(), set())


def test_a_rule_that_comes_while_the_rules_are_read_is_not_missed(brokers):
    other = brokers.acls()
    session = brokers.session()
    mine = brokers.acls(session, started=False)
    children, late = session.children, []

    def watched(path, watch=None):
        # All is read, and what is written now is not in it.
        if path == "/kafka-acl-extended/prefixed/User" and not late:
            late.append(create(brokers, other, (TOPIC, READ)))
        return children(path, watch)

    session.children = watched
    brokers.loop.wait(mine.start(lambda: None))
    brokers.loop.run()

    assert late
    assert entries(mine) == {READ}


def test_a_change_keeps_what_another_broker_wrote_that_is_not_heard_of_yet(brokers):
    mine, other = brokers.acls(), brokers.acls()
    change = mine.create([AclBinding(TOPIC, READ)])
    also = other.create([AclBinding(TOPIC, DENY)])
    brokers.loop.run()
    brokers.clock.advance(200)
    assert (brokers.loop.wait(change), brokers.loop.wait(also)) == ([None], [None])
    brokers.loop.run()

    assert entries(mine) == entries(other) == {READ, DENY}


def test_a_change_is_given_up_after_ten_more_tries(brokers):
    session, other = brokers.session(), brokers.session()
    mine = brokers.acls(session)
    create(brokers, mine, (TOPIC, READ))
    path, tries, put = acl_znodes.pattern_path(TOPIC), [], session.set

    def beaten(where, payload, version=-1):
        tries.append(where)
        brokers.loop.wait(other.set(path, acl_znodes.encode_acls([DENY])))
        return put(where, payload, version)

    session.set = beaten
    change = mine.create([AclBinding(TOPIC, DESCRIBE)])
    while not change.done:
        brokers.loop.run()
        brokers.clock.advance(150)
    assert [error.code for error in change.result()] == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert len(tries) == 1 + RETRIES_MAX


def test_a_pattern_without_rules_has_no_znode(brokers):
    store = brokers.session()
    acls = brokers.acls(store)
    create(brokers, acls, (TOPIC, READ), (TOPIC, DESCRIBE))
    some = AclFilter(Resource.TOPIC, "orders", operation=Operation.READ)

    assert brokers.loop.wait(acls.delete([AclFilter(Resource.GROUP), some, some])) == [
        [],
        [(AclBinding(TOPIC, READ), None)],
        [],
    ]
    assert names(brokers, store, "/kafka-acl/Topic") == ["orders"]
    brokers.loop.wait(acls.delete([AclFilter(Resource.TOPIC, "orders")]))
    assert names(brokers, store, "/kafka-acl/Topic") == []
    # To delete nothing leaves no notice.
    notices = names(brokers, store, "/kafka-acl-changes")
    assert brokers.loop.wait(acls.delete([AclFilter(Resource.TOPIC, "orders")])) == [[]]
    assert names(brokers, store, "/kafka-acl-changes") == notices


def test_what_is_no_rule_is_refused_and_the_others_are_kept(brokers):
    acls = brokers.acls()
    bad = [
        (ResourcePattern(Resource.TOPIC, "a/b"), READ),
        (ResourcePattern(Resource.UNKNOWN, "a"), READ),
        (ResourcePattern(Resource.TOPIC, ".."), READ),
        (ResourcePattern(Resource.TOPIC, "a\0"), READ),
        (TOPIC, READ._replace(principal="alice")),
    ]
    errors = create(brokers, acls, (TOPIC, READ), *bad)

    invalid, unknown = ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_SERVER_ERROR
    assert errors[0] is None
    assert [error.code for error in errors[1:]] == [invalid, invalid, unknown, unknown, unknown]
    assert list(acls.index.patterns()) == [TOPIC]
    # A filter may have any name.
    assert brokers.loop.wait(acls.delete([AclFilter(Resource.TOPIC, "a/b"), AclFilter(name="")])) == [[], []]


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"{",
        b"[]",
        b'{"version":1}',
        b'{"version":2,"acls":[]}',
        b'{"version":1,"acls":[{"principal":"User:alice"}]}',
        b'{"version":1,"acls":[{"principal":"alice","permissionType":"Allow","host":"*","operation":"Read"}]}',
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"Allow","host":"*","operation":"Fly"}]}',
    ],
)
def test_nobody_gets_in_by_a_znode_that_is_no_list_of_rules(brokers, damage, caplog):
    store = brokers.session()
    create(brokers, brokers.acls(store), (TOPIC, READ))
    brokers.loop.run()
    brokers.loop.wait(store.set(acl_znodes.pattern_path(TOPIC), damage))
    caplog.clear()

    mine = brokers.acls()

    assert entries(mine) == {DENIED_TO_ALL}
    lines = [line for line in caplog.messages if "znode_unreadable" in line]
    assert len(lines) == 1
    assert "denied to everyone" in lines[0]
    # The rule that counts in its place is removed like any other.
    brokers.loop.wait(mine.delete([AclFilter(Resource.TOPIC, "orders")]))
    assert names(brokers, store, "/kafka-acl/Topic") == []


def test_a_damaged_notice_is_passed_over_and_the_next_is_obeyed(brokers, caplog):
    mine, store = brokers.acls(), brokers.session()
    for where in acl_znodes.NOTICES.values():
        for damage in (b"", b"TOPIC", b"\xff", b"{}", b"FLY:orders", b"TOPIC:a/b", b'{"version":2}'):
            brokers.loop.wait(store.create(f"{where}/acl_changes_", damage, sequence=True))
    brokers.loop.run()
    create(brokers, brokers.acls(), (TOPIC, READ), (GROUPS, DENY))
    brokers.loop.run()

    assert (entries(mine), entries(mine, GROUPS)) == ({READ}, {DENY})


def test_unknown_kinds_of_resources_are_passed_over(brokers):
    store = brokers.session()
    create(brokers, brokers.acls(store), (TOPIC, READ))
    for path in ("/kafka-acl/Planet", "/kafka-acl/Planet/mars"):
        brokers.loop.wait(store.create(path, b"{}"))
    assert list(brokers.acls().index.patterns()) == [TOPIC]


def test_a_new_session_reads_everything(brokers):
    session, other = brokers.session(), brokers.acls()
    mine = brokers.acls(session)
    create(brokers, other, (TOPIC, READ), (GROUPS, DENY))
    brokers.loop.run()
    brokers.ensemble.expire(session.session_id)
    brokers.loop.wait(other.delete([AclFilter(Resource.TOPIC)]))
    for where in acl_znodes.NOTICES.values():
        for name in names(brokers, store := brokers.session(), where):
            brokers.loop.wait(store.delete(f"{where}/{name}"))
    brokers.loop.run()
    assert (entries(mine), entries(mine, GROUPS)) == (set(), {DENY})

    create(brokers, other, (TOPIC, DESCRIBE))
    brokers.loop.run()
    assert entries(mine) == {DESCRIBE}


def test_old_notices_go(brokers):
    store, acls = brokers.session(), brokers.acls()
    create(brokers, acls, (TOPIC, READ))
    brokers.clock.advance(NOTICE_LIFE_MS + 1)
    create(brokers, acls, (TOPIC, DESCRIBE))
    brokers.loop.run()
    assert len(names(brokers, store, "/kafka-acl-changes")) == 1


def test_changes_of_one_broker_are_done_one_after_the_other(brokers):
    acls = AclStore(brokers.session(), brokers.clock, random.Random(1))
    brokers.loop.wait(acls.start(lambda: None))
    changes = [
        acls.create([AclBinding(TOPIC, READ._replace(principal=f"User:{number}"))]) for number in range(5)
    ]
    for each in changes:
        assert brokers.loop.wait(each) == [None]
    assert len(entries(acls)) == 5
    # None of them had to try again.
    assert brokers.clock.waiting == 0


def test_rules_are_made_found_and_removed_in_slices(brokers):
    """As many rules and filters as there are hold the loop for one slice at a time."""
    clock = brokers.clock = TickingClock()
    acls = brokers.acls()
    count, per_slice = 200, SLICE_MS / 0.5
    rules = [AclBinding(ResourcePattern(Resource.TOPIC, f"t{number}"), READ) for number in range(count)]
    rules += [AclBinding(TOPIC, READ._replace(principal=f"User:{number}")) for number in range(count)]

    def others_served(work):
        """How often others were served while the work went on."""
        before = clock.turns
        while not work.done:
            brokers.loop.run()
            clock.advance()
        work.result()
        return clock.turns - before

    assert others_served(acls.create(rules)) >= 0.8 * 2 * count / per_slice
    found = sliced_pending(acls.index.matching(AclFilter()), clock)
    assert others_served(found) >= 0.8 * 2 * count / per_slice
    assert set(found.result()) == set(rules)
    nothing = sliced_pending(acls.index.matching(AclFilter(name="none")), clock)
    assert others_served(nothing) >= 0.8 * count / per_slice
    in_vain = acls.delete([AclFilter(name="none")] * 20)
    assert others_served(in_vain) >= 0.8 * 20 * count / per_slice
    filters = [AclFilter(principal="User:nobody")] * 20 + [AclFilter()]
    removed = acls.delete(filters)
    # Each filter is compared with each pattern, and with each rule.
    assert others_served(removed) >= 0.8 * 2 * count * len(filters) / per_slice
    assert [len(each) for each in removed.result()] == [0] * 20 + [2 * count]
    assert not acls.index.patterns()
