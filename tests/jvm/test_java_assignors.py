"""Kafka's own assignors as the judge of ours."""

import random
import subprocess
from pathlib import Path

import kafka_harness
import pytest

from barnabas.client import TopicPartition
from barnabas.client.assignors import Subscription, assignors_named

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]


def problems():
    for seed in range(600):
        rng = random.Random(seed)
        letters = rng.choice(["", "abc"])
        topics = {
            name: [
                frozenset(rng.sample(letters, rng.randint(1, 2)) if letters else "")
                for _ in range(rng.randint(1, 8))
            ]
            for name in rng.sample("tuvw", rng.randint(1, 4))
        }
        same = rng.sample(sorted(topics), rng.randint(1, len(topics))) if rng.random() < 0.5 else None
        left = [TopicPartition(name, number) for name in topics for number in range(len(topics[name]))]
        rng.shuffle(left)
        members = {}
        for member in rng.sample("ABCDEF", rng.randint(1, 6)):
            names = same or rng.sample(sorted(topics), rng.randint(1, len(topics)))
            owned, left = left[: rng.randint(0, 4)], left[4:]
            members[member] = Subscription(
                topics=sorted(names),
                owned=sorted(tp for tp in owned if tp.topic in names),
                generation=3,
                rack=rng.choice(letters) if letters else None,
                group_instance_id=rng.choice([None, f"i{member}"]),
            )
        yield topics, members


def as_line(name, topics, members):
    written = ";".join(
        f"{topic}={'|'.join(''.join(sorted(racks)) for racks in partitions)}"
        for topic, partitions in topics.items()
    )
    subscriptions = ";".join(
        f"{member}={','.join(one.topics)}/{one.rack or ''}/{one.group_instance_id or ''}/{one.generation}/"
        + ",".join(f"{tp.topic}:{tp.partition}" for tp in one.owned)
        for member, one in members.items()
    )
    return f"{name}\t{written}\t{subscriptions}"


def as_answer(divided):
    return ";".join(
        f"{member}=" + ",".join(sorted(f"{tp.topic}:{tp.partition}" for tp in divided[member]))
        for member in sorted(divided)
    )


@pytest.mark.parametrize("name", ["range", "roundrobin", "cooperative-sticky"])
def test_ours_divide_as_those_of_java(name):
    try:
        jars = kafka_harness.artifacts(kafka_harness.ZOOKEEPER_ERA)
    except kafka_harness.UnavailableError as missing:
        pytest.skip(f"JUDGE DID NOT SPEAK: Kafka's assignors: {missing}")
    cases = list(problems())
    source = Path(__file__).with_name("JavaAssignors.java")
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    done = subprocess.run(
        [kafka_harness.java(), quiet, "-cp", f"{jars}/*", str(source)],
        input="".join(as_line(name, *case) + "\n" for case in cases),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    theirs = done.stdout.splitlines()
    assert len(theirs) == len(cases), done.stderr[-2000:]
    (assignor,) = assignors_named([name])
    differing = [
        (as_line(name, *case), answer, ours)
        for case, answer in zip(cases, theirs, strict=True)
        if (ours := as_answer(assignor.assign(*case))) != answer
    ]
    assert not differing, f"{len(differing)} of {len(cases)}: {differing[:3]}"
