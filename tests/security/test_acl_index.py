"""What rules allow: the index against a plain reading of Kafka's documentation, rule by rule."""

import random

import pytest

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
from barnabas.core.slices import in_one_piece
from barnabas.security.acl_index import AclIndex

ALICE, BOB = "User:alice", "User:bob"
HERE, THERE = "10.0.0.1", "10.0.0.2"
NAMES = ("a", "ab", "abc", "abcd", "b", "bc", "ac", "*")
OPERATIONS = [each for each in Operation if each > Operation.ALL]
IMPLYING = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def rule(name, operation=Operation.READ, permission=Permission.ALLOW, **more):
    entry = AccessControlEntry(more.get("principal", ALICE), more.get("host", "*"), operation, permission)
    pattern_type = PatternType.PREFIXED if more.get("prefixed") else PatternType.LITERAL
    return AclBinding(ResourcePattern(more.get("resource", Resource.TOPIC), name, pattern_type), entry)


def index_of(*rules):
    index = AclIndex()
    for pattern, entry in rules:
        index.put(pattern, index.entries(pattern) | {entry})
    return index


def read_plainly(rules, principal, host, operation, name):
    """The decision, found by looking at every rule."""
    about = [
        entry
        for pattern, entry in rules
        if (pattern.name in (name, "*") and pattern.pattern_type is PatternType.LITERAL)
        or (pattern.pattern_type is PatternType.PREFIXED and name.startswith(pattern.name))
    ]
    if not about:
        return None
    mine = [e for e in about if e.principal in (principal, "User:*") and e.host in (host, "*")]
    denied = {e.operation for e in mine if e.permission is Permission.DENY}
    allowed = {e.operation for e in mine if e.permission is Permission.ALLOW}
    if denied & {operation, Operation.ALL}:
        return False
    return bool(allowed & ({operation, Operation.ALL} | IMPLYING.get(operation, set())))


def any_plainly(rules, principal, host, operation):
    """Whether some name is allowed, of all that rules can tell apart; without what other operations imply."""
    direct = [
        each
        for each in rules
        if each.entry.permission is Permission.DENY or each.entry.operation in (operation, Operation.ALL)
    ]
    names = {
        pattern.name
        for pattern, _ in rules
        if pattern.name != "*" or pattern.pattern_type is PatternType.PREFIXED
    }
    unnamed = {f"{name}{more}" for name in names for more in ("", "~")} | {"~"}
    return any(read_plainly(direct, principal, host, operation, name) for name in unnamed)


@pytest.mark.parametrize("seed", range(40))
def test_the_index_decides_as_every_rule_read_one_by_one(seed):
    rng = random.Random(seed)
    index, rules = AclIndex(), set()
    for _ in range(60):
        each = rule(
            rng.choice(NAMES),
            rng.choice([Operation.ALL, *OPERATIONS]),
            rng.choice([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
            principal=rng.choice([ALICE, BOB, "User:*"]),
            host=rng.choice([HERE, THERE, "*"]),
            prefixed=rng.random() < 0.5,
        )
        if rules and rng.random() < 0.45:
            each = rng.choice(sorted(rules))
        # Rules go, too: what was under a prefix that goes is under the next shorter one again.
        rules.symmetric_difference_update({each})
        index.put(each.pattern, {entry for pattern, entry in rules if pattern == each.pattern})
        for name in ("a", "abx", "abcde", "bcd", "acx", "c", "*"):
            operation, principal = rng.choice(OPERATIONS), rng.choice([ALICE, BOB, "User:eve"])
            host = rng.choice([HERE, THERE])
            expected = read_plainly(rules, principal, host, operation, name)
            for without in (True, False):
                found = index.decide(principal, host, operation, Resource.TOPIC, name, without_rules=without)
                assert found is (without if expected is None else expected), (rules, name)


@pytest.mark.parametrize("seed", range(40))
def test_any_resource_is_found_where_one_is_allowed(seed):
    rng = random.Random(seed)
    rules = {
        rule(
            rng.choice(NAMES),
            rng.choice([Operation.READ, Operation.WRITE]),
            rng.choice([Permission.ALLOW, Permission.DENY]),
            principal=rng.choice([ALICE, BOB, "User:*"]),
            prefixed=rng.random() < 0.5,
        )
        for _ in range(rng.randrange(1, 8))
    }
    index = index_of(*rules)
    expected = any_plainly(rules, ALICE, HERE, Operation.READ)
    found = index.decide_any(ALICE, HERE, Operation.READ, Resource.TOPIC, without_rules=False)
    assert found is expected, rules


def test_a_prefix_that_a_shorter_one_denies_is_no_resource_to_use():
    """KIP-679: the rule for ab is dominated by the denial of a."""
    rules = [rule("ab", prefixed=True), rule("a", permission=Permission.DENY, prefixed=True)]
    ask = (ALICE, HERE, Operation.READ, Resource.TOPIC)
    assert not index_of(*rules).decide_any(*ask, without_rules=False)
    assert index_of(*rules, rule("b")).decide_any(*ask, without_rules=False)
    assert index_of(*rules).decide_any(*ask, without_rules=True)
    everything = rule("*", permission=Permission.DENY)
    assert not index_of(*rules, everything).decide_any(*ask, without_rules=True)


@pytest.mark.parametrize("prefixed", [False, True])
@pytest.mark.parametrize("denied", ["ab", "a"])
def test_what_is_denied_to_everyone_is_no_resource_to_use(prefixed, denied):
    everyone = rule(
        denied, permission=Permission.DENY, principal="User:*", prefixed=prefixed or denied == "a"
    )
    index = index_of(rule("ab", prefixed=prefixed), everyone)
    assert not index.decide_any(ALICE, HERE, Operation.READ, Resource.TOPIC, without_rules=False)


def test_what_holds_without_rules_holds_where_no_rule_names_the_resource_whoever_it_names():
    index = index_of(rule("a"), rule("pre", prefixed=True))

    def found(principal, resource, name):
        ask = (principal, HERE, Operation.READ, resource, name)
        return [index.decide(*ask, without_rules=without) for without in (True, False)]

    assert found(ALICE, Resource.TOPIC, "b") == [True, False]
    assert found(ALICE, Resource.GROUP, "a") == [True, False]
    assert found(BOB, Resource.TOPIC, "a") == [False, False]
    assert found(BOB, Resource.TOPIC, "prefix") == [False, False]


def test_a_filter_finds_rules_by_name_by_kind_and_by_what_holds_for_a_name():
    rules = [rule("abc"), rule("ab", prefixed=True), rule("*"), rule("abc", prefixed=True), rule("b")]
    index = index_of(*rules)

    def found(**wanted):
        return [
            (binding.pattern.name, binding.pattern.pattern_type.name)
            for binding in in_one_piece(index.matching(AclFilter(Resource.TOPIC, **wanted)))
        ]

    literal, prefixed = "LITERAL", "PREFIXED"
    assert found(name="abc", pattern_type=PatternType.LITERAL) == [("abc", literal)]
    assert found(name="abc", pattern_type=PatternType.ANY) == [("abc", literal), ("abc", prefixed)]
    assert found(name="abc", pattern_type=PatternType.MATCH) == [
        ("*", literal),
        ("abc", literal),
        ("ab", prefixed),
        ("abc", prefixed),
    ]
    assert found(name="abc", operation=Operation.WRITE) == []
    assert found(principal=BOB) == []
    assert len(found()) == 5
    assert in_one_piece(index.matching(AclFilter(Resource.GROUP))) == []
