"""Stories of three brokers under load, Apache Kafka's and ours in any mixture; each ends with a judgement.

    python tests/jvm/cluster_story.py churn --brokers jvm,jvm,ours [--controller 1] [--rounds 2]
    python tests/jvm/cluster_story.py churn --brokers ours,ours,ours --store embedded
    python tests/jvm/cluster_story.py office --brokers jvm,ours,jvm
    python tests/jvm/cluster_story.py coordinators --brokers jvm,ours,ours
    python tests/jvm/cluster_story.py replace --brokers jvm,jvm,jvm
    python tests/jvm/cluster_story.py freeze --brokers jvm,ours,ours
    python tests/jvm/cluster_story.py transactions --brokers jvm,jvm,jvm
    python tests/jvm/cluster_story.py secure --brokers jvm,ours,ours

churn: every broker is killed (kill -9) and stopped (SIGTERM) in turn, Kafka's scripts reassign partitions and
elect leaders; with --controller the office returns to that broker after each step. office: the controller
moves from broker to broker, because /controller is deleted and because its broker stops or dies, in the end
while replicas are about to join the ISR. coordinators: the leaders of `__consumer_offsets` move by
reassignment, election and kill while members come and go. freeze: every broker stands still (SIGSTOP) until
its session is over, and goes on: the others lead, it joins again; then for a moment while it is made a
leader; then ZooKeeper for half a minute. replace: each broker is replaced by the other kind on its log
directory, then back; the gap of producers is measured for each, beside a rolling restart without a change of
kind (--restart does that alone). transactions: four clients copy topics in transactions (`copiers`) while
each broker is replaced by the other kind and back, and the leaders of `__transaction_state` move from kind to
kind. secure: brokers reach each other by SASL_SSL with certificates, and rules say what clients may
(`secure_brokers`); each broker gets a new certificate and is killed, users and rules that one kind's tools
make hold on the other, and each broker is replaced by the other kind and back. --secure plays any other story
in such a cluster.

The load of `cluster_load` never pauses. In the end nothing acknowledged may be lost or, with idempotence, be
there twice; groups have read all of it, their generations never fell; every ISR is whole; the copies of each
partition are equal byte for byte; brokers of ours logged no traceback. What JVM brokers warned about may not
have a shape that `jvm_warnings.txt` lacks: those are what clusters of three JVM brokers said in the same
stories (--learn adds them). Short forms of the stories, in `test_cluster_story.py`, do not look at the
warnings: which appear is a matter of moments.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "chaos"))

import kafka_harness
from cluster_load import TOPICS, ClusterLoad
from copiers import CLIENTS, Copying
from secure_brokers import SecureBrokers
from storm import Place
from three_brokers import JVM, LIMIT_S, OURS, ThreeBrokers, until

BROKERS = (1, 2, 3)
STORE_STALLS_S = 30
FROZEN_ON_S = 3
COPIED = 3000
"""Records that come into each partition of the source with each step."""
ELECTED_LATE_S = 0.6
KNOWN_WARNINGS = Path(__file__).with_name("jvm_warnings.txt")
CLASSIC = {"readers": ("confluent-range", "barnabas", "java-3.9")}
BOTH = CLASSIC | {"consumer": ("confluent-consumer", "confluent-consumer")}
CONSUMER_PROTOCOL = {
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "group.consumer.min.session.timeout.ms": 1000,
    "group.consumer.min.heartbeat.interval.ms": 200,
}
"""For brokers of ours: Apache Kafka 3.9 has this protocol only without ZooKeeper."""


def rotated(replicas, by):
    return [*replicas[by % len(replicas) :], *replicas[: by % len(replicas)]]


class Story:
    """A cluster, its load, and one of the stories."""

    def __init__(self, cluster, groups, *, office=None):
        self.cluster = cluster
        self.load = None
        self.gaps_s = {}
        self.warnings = {}
        self.problems = []
        """What a plot itself has found."""
        self.jvm_alone = set(cluster.kinds.values()) == {JVM}
        """Whether no broker of ours has ever been in the cluster."""
        self._groups = groups
        self._office = office

    def run(self, plot):
        """The problems that are left when the story has ended; `plot` gets this story."""
        try:
            self.cluster.start_all(self._office or 1)
            self.load = ClusterLoad(self.cluster, self._groups)
            plot(self)
            self.settle()
            return self._judge()
        finally:
            if self.load is not None:
                self.load.close()
            self.cluster.close()

    def _judge(self):
        cluster = self.cluster
        problems = [*self.problems, *self.load.end()]
        cluster.until_in_sync()
        # The last broker that stops finds nobody to hand over to, and says so.
        self.warnings = cluster.warnings()
        for number in list(cluster.running):
            cluster.stop(number)
        problems += cluster.unequal_logs()
        if tracebacks := cluster.our_warnings()["Traceback"]:
            problems.append(f"brokers of ours logged {tracebacks} tracebacks")
        return problems

    # --- steps --------------------------------------------------------------------------------------------

    def settle(self):
        """All in sync, the preferred replicas lead, the office is where it should be, and the load
        goes on.
        """
        self.cluster.until_in_sync()
        if self._office is not None:
            self.cluster.put_in_office(self._office)
        self.cluster.elect_preferred()
        self.load.until_moving()

    def kill(self, number):
        self._away(number, self.cluster.kill, "killed (kill -9)")

    def stop(self, number):
        self._away(number, self.cluster.stop, "stopped (SIGTERM)")

    def freeze(self, number):
        """SIGSTOP until the others say that the broker is gone and leads nothing, then SIGCONT."""
        cluster = self.cluster
        self.load.reset_gaps()
        with cluster.frozen(number):
            until(lambda: cluster.is_without(number), f"the others are without {cluster.name(number)}")
            # Clients hear of the new leaders while the old one owes them answers.
            time.sleep(FROZEN_ON_S)
        self.settle()
        cluster.tell(
            f"{cluster.name(number)} froze and is back, all in sync after {self.load.gap_s:.1f} s at most "
            "without a record"
        )

    def elect_late(self, topic, number):
        """A broker stands still for a moment while it is made the leader of a topic.

        A producer with several requests under way sends them there as soon as others name it. The first are
        refused by one that does not lead yet, those behind them by one that does: out of order. They are sent
        again, and nothing is lost.
        """
        parts = range(TOPICS[topic])
        others = [each for each in sorted(self.cluster.kinds) if each != number]
        self.cluster.reassign({(topic, p): [*others, number] for p in parts})
        self.settle()
        self.cluster.reassign({(topic, p): [number, *others] for p in parts})
        self.cluster.elect_while_frozen(number, topic, len(parts), ELECTED_LATE_S)
        self.settle()
        self.cluster.tell(f"{topic} is led by {self.cluster.name(number)}, which stood still meanwhile")

    def _away(self, number, how, word):
        cluster = self.cluster
        self.load.reset_gaps()
        how(number)
        self.load.until_moving()
        cluster.tell(f"{cluster.name(number)} {word}: the load goes on after {self.load.gap_s:.1f} s")
        cluster.start(number)
        self.settle()
        cluster.tell(f"{cluster.name(number)} is back, all in sync; the controller is {cluster.controller()}")

    def reassign(self, topics, by):
        """The replicas of these topics become the brokers in another order, the preferred leaders
        with them.
        """
        brokers = sorted(self.cluster.kinds)
        wanted = {
            (topic, p): rotated(brokers, p + by) for topic, parts in topics.items() for p in range(parts)
        }
        self.cluster.reassign(wanted)
        self.settle()
        self.cluster.tell(
            f"{len(wanted)} partitions of {', '.join(topics)} reassigned, led by their new first"
        )

    def shift(self, topic, number):
        """Takes the replicas of a topic off a broker, then gives them back:
        they are copied from the start.
        """
        parts = range(TOPICS[topic])
        others = [each for each in sorted(self.cluster.kinds) if each != number]
        self.cluster.reassign({(topic, p): others for p in parts})
        self.load.until_moving()
        self.cluster.reassign({(topic, p): [number, *others] for p in parts}, "--throttle", "50000000")
        self.settle()
        self.cluster.tell(f"{topic} left {self.cluster.name(number)} and came back, which now leads it")


# --- the plots ----------------------------------------------------------------------------------------------


def churn(story, rounds=1):
    for turn in range(rounds):
        for number in story.cluster.kinds:
            story.kill(number)
        story.reassign({"often": 2, "storm": 6}, turn + 1)
        for number in story.cluster.kinds:
            story.shift("once", number)
        for number in story.cluster.kinds:
            story.stop(number)


def office(story, rounds=1):
    cluster = story.cluster
    for _ in range(rounds):
        for number in cluster.kinds:
            cluster.put_in_office(number)
            story.settle()
            story.reassign({"often": 2}, number)
        for _ in cluster.kinds:
            story.stop(cluster.controller())
        for _ in cluster.kinds:
            story.kill(cluster.controller())
        # Leaders want to take a broker's replicas into the ISR just when there is no controller to ask.
        controller = cluster.controller()
        comer = next(number for number in cluster.kinds if number != controller)
        cluster.stop(comer)
        cluster.start(comer)
        story.kill(controller)


def coordinators(story, rounds=1):
    cluster, places = story.cluster, story.load.places
    offsets = {"__consumer_offsets": int(cluster.settings["offsets.topic.num.partitions"])}
    for turn in range(rounds):
        for number in cluster.kinds:
            # A member that dies or freezes is found missing by the coordinator that takes over.
            dead, frozen, leaver = (places[(turn + number + each) % len(places)] for each in range(3))
            with story.load.away(dead, Place.kill):
                story.reassign(offsets, number)
            with story.load.away(frozen, Place.pause):
                story.kill(number)
            with story.load.away(leaver, Place.stop):
                story.stop(number)


def replace(story, *, restart=False, numbers=BROKERS):
    cluster = story.cluster
    first = {number: cluster.kinds[number] for number in numbers}
    other = {JVM: OURS, OURS: JVM}
    plans = [("restart", first)]
    if not restart:
        plans += [("there", {number: other[kind] for number, kind in first.items()}), ("back", first)]
    story.jvm_alone &= restart
    for word, plan in plans:
        for number, kind in plan.items():
            story.load.reset_gaps()
            cluster.replace(number, kind)
            story.settle()
            gap_s = story.gaps_s[f"{word} {number}"] = round(story.load.gap_s, 2)
            cluster.tell(
                f"{word}: {cluster.name(number)} is in sync; the longest gap of a producer was {gap_s} s"
            )


def transactions(story, rounds=1, *, restart=False, numbers=BROKERS, clients=CLIENTS):
    cluster = story.cluster
    story.jvm_alone &= restart
    copying = Copying(cluster.bootstrap, cluster.folder, clients)
    copying.write(COPIED)
    copying.start()
    states = {"__transaction_state": int(cluster.settings["transaction.state.log.num.partitions"])}
    other = {JVM: JVM, OURS: OURS} if restart else {JVM: OURS, OURS: JVM}
    for turn in range(2 * rounds):
        for number in numbers:
            cluster.replace(number, other[cluster.kinds[number]])
            copying.write(COPIED)
            story.settle()
            cluster.tell(f"{cluster.name(number)} is in sync; {copying}")
        story.reassign(states, turn + 1)
    copying.complete()
    until(lambda: copying.done, lambda: f"all is copied: {copying}", LIMIT_S)
    story.problems += copying.end()


def freeze(story, rounds=1):
    cluster = story.cluster
    for _ in range(rounds):
        for number in cluster.kinds:
            story.freeze(number)
        for number in cluster.kinds:
            story.elect_late("java", number)
        if cluster.store is not None:
            story.load.reset_gaps()
            cluster.freeze_store(STORE_STALLS_S)
            story.settle()
            cluster.tell(
                f"ZooKeeper stood still for {STORE_STALLS_S} s; the longest time without a record was "
                f"{story.load.gap_s:.1f} s"
            )


def secure(story, rounds=1, *, numbers=BROKERS):
    cluster = story.cluster
    cluster.add_user("alice", "alice-secret")
    rule = ("--allow-principal", "User:alice", "--operation", "Describe", "--topic", "once")
    for _ in range(rounds):
        cluster.until_everywhere("alice", "alice-secret", "once", allowed=False)
        cluster.ours("acls", "--add", *rule)
        cluster.until_everywhere("alice", "alice-secret", "once", allowed=True)
        for number in numbers:
            cluster.renew(number)
            story.kill(number)
        replace(story, numbers=numbers)
        cluster.until_everywhere("alice", "alice-secret", "once", allowed=True)
        cluster.tool("kafka-acls", "--remove", "--force", *rule)
        cluster.until_everywhere("alice", "alice-secret", "once", allowed=False)


PLOTS = {each.__name__: each for each in (churn, office, coordinators, freeze, replace, secure, transactions)}


def known_warnings():
    """The shapes that clusters of JVM brokers alone have logged."""
    return set(KNOWN_WARNINGS.read_text().splitlines()) if KNOWN_WARNINGS.exists() else set()


def strange_warnings(story):
    """What JVM brokers of this story warned about, and none did among its own."""
    if not story.jvm_alone:
        for shape in sorted(set(story.warnings) - known_warnings()):
            yield f"a JVM broker warns as none did among its own: {shape}"


def play(folder, plot, kinds, connect, *, store=None, controller=None, groups=None, secured=False, **options):
    """Plays a story in this folder: its problems, and the story itself.
    `store` is ZooKeeper's server, if it is ours.
    """
    settings = {} if JVM in kinds or plot in (replace, secure) else CONSUMER_PROTOCOL
    cluster = (SecureBrokers if secured or plot is secure else ThreeBrokers)(
        folder, kinds, connect, settings, store=store
    )
    story = Story(cluster, groups or (BOTH if settings else CLASSIC), office=controller)
    problems = story.run(lambda told: plot(told, **options))
    if story.gaps_s:
        cluster.tell(f"gaps in s: {json.dumps(story.gaps_s)}")
    return problems, story


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("story", choices=PLOTS)
    parser.add_argument("--brokers", default="jvm,jvm,ours", help="the kinds of the brokers 1, 2 and 3")
    parser.add_argument("--store", choices=["zookeeper", "embedded"], default="zookeeper")
    parser.add_argument("--controller", type=int, help="the broker to which the office returns")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument(
        "--restart", action="store_true", help="replace, transactions: only restarts, for comparison"
    )
    parser.add_argument("--secure", action="store_true", help="SASL_SSL between brokers, and access rules")
    parser.add_argument("--learn", action="store_true", help="add what three JVM brokers warn about")
    parser.add_argument("--keep", type=Path, help="leave data and logs of all brokers here")
    given = parser.parse_args()
    kinds = given.brokers.split(",")
    if len(kinds) != len(BROKERS) or not {JVM, OURS}.issuperset(kinds):
        parser.error(f"--brokers {given.brokers}: name three of {JVM} and {OURS}")
    if given.store == "embedded" and (given.secure or given.story == "secure"):
        parser.error("--store embedded: the users and rules of these stories are in ZooKeeper")
    if given.store == "embedded" and JVM in kinds:
        parser.error("--store embedded: only brokers of ours have it")
    options = {} if given.story == "replace" else {"rounds": given.rounds}
    if given.restart:
        options["restart"] = True
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        zookeeper = None
        if given.store == "zookeeper":
            (folder / "zookeeper").mkdir()
            zookeeper = kafka_harness.start_zookeeper(folder / "zookeeper")
        try:
            connect = zookeeper and f"{kafka_harness.wait_until_serving(zookeeper).bootstrap}/story"
            plot = PLOTS[given.story]
            began = time.monotonic()
            where = {"store": zookeeper, "controller": given.controller, "secured": given.secure}
            problems, story = play(folder, plot, kinds, connect, **where, **options)
        finally:
            if zookeeper is not None:
                zookeeper.kill()
        problems += strange_warnings(story)
        if given.learn and story.jvm_alone:
            shapes = known_warnings() | set(story.warnings)
            KNOWN_WARNINGS.write_text("".join(f"{shape}\n" for shape in sorted(shapes)))
        words = [
            f"ours logged {dict(story.cluster.our_warnings())}",
            f"{time.monotonic() - began:.0f} s, {len(problems)} problems",
        ]
    sys.stdout.write("\n".join([*problems[:60], *words, ""]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
