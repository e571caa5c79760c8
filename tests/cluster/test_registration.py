"""How a broker enters the cluster, and who keeps it out."""

import pytest
from brokers_fake import FakeClock

from barnabas.cluster.brokers import Broker
from barnabas.cluster.controller.event_manager import ControllerEventManager, Event
from barnabas.cluster.metadata.registration import (
    BrokerRegistration,
    RegistrationError,
    cluster_id,
    ensure_persistent_paths,
    generate_broker_id,
)
from barnabas.core.pending import Pending
from barnabas.network.endpoints import Endpoint


@pytest.fixture
def ready(loop, cluster):
    store = cluster.session()
    loop.wait(ensure_persistent_paths(store))
    return store


def registration(loop, store, broker_id, port):
    endpoints = (Endpoint("PLAINTEXT", "127.0.0.1", port),)
    return BrokerRegistration(store, Broker(broker_id, endpoints), FakeClock(loop))


def test_persistent_paths_may_be_there_already(loop, ready):
    loop.wait(ensure_persistent_paths(ready))

    assert loop.wait(ready.children("/brokers")) == ["ids", "seqid", "topics"]
    assert loop.wait(ready.children("/config")) == ["brokers", "changes", "clients", "ips", "topics", "users"]


def test_the_first_broker_names_the_cluster(loop, cluster, ready):
    assert loop.wait(cluster_id(ready, lambda: "first")) == "first"
    assert loop.wait(cluster_id(cluster.session(), lambda: "second")) == "first"


def test_generated_ids_are_above_the_reserved(loop, ready):
    assert [loop.wait(generate_broker_id(ready, 1000)) for _ in range(2)] == [1001, 1002]


def test_the_epoch_is_the_czxid_and_grows(loop, cluster, ready):
    first = registration(loop, ready, 1, 9092)
    epoch = loop.wait(first.register())
    assert epoch == loop.wait(ready.exists("/brokers/ids/1")).czxid == first.broker_epoch
    loop.wait(ready.close())

    assert loop.wait(registration(loop, cluster.session(), 1, 9092).register()) > epoch


def test_registering_again_in_one_session_keeps_the_epoch(loop, ready):
    mine = registration(loop, ready, 1, 9092)

    assert loop.wait(mine.register()) == loop.wait(mine.register())


def test_an_id_that_is_taken(loop, cluster, ready):
    loop.wait(registration(loop, ready, 1, 9092).register())
    with pytest.raises(RegistrationError) as caught:
        loop.wait(registration(loop, cluster.session(), 1, 9093).register())

    assert str(caught.value).startswith("broker.id 1 is already registered in this cluster")
    assert "\n" not in str(caught.value)


# The session of a broker that was killed ends some time after it.

OLD_SESSION_MS = 20_000


def waiting(loop, store, clock, port=9092):
    broker = Broker(1, (Endpoint("PLAINTEXT", "127.0.0.1", port),))
    return BrokerRegistration(store, broker, clock, old_session_ms=OLD_SESSION_MS).register()


def settle(loop, store):
    """The calls that were made before are done, and what they led to is under way."""
    for _ in range(10):
        loop.wait(store.exists("/brokers/ids"))


def test_a_broker_waits_for_the_end_of_its_last_session_and_says_so_once(loop, cluster, ready, caplog):
    before = loop.wait(registration(loop, ready, 1, 9092).register())
    store = cluster.session()
    registered = waiting(loop, store, FakeClock(loop))
    settle(loop, store)
    loop.wait(ready.set("/brokers/ids/1", b"{}"))  # a write is no end
    settle(loop, store)
    assert not registered.done
    loop.wait(ready.close())

    assert loop.wait(registered) > before
    assert loop.wait(store.exists("/brokers/ids/1")).ephemeral_owner == store.session_id
    (line,) = [each for each in caplog.messages if "registration_waits" in each]
    assert "broker=1 at_most_ms=20000" in line


def test_an_id_that_stays_taken_is_another_brokers(loop, cluster, ready):
    epoch = loop.wait(registration(loop, ready, 1, 9092).register())
    store, clock = cluster.session(), FakeClock(loop)
    registered = waiting(loop, store, clock)
    settle(loop, store)
    clock.advance(OLD_SESSION_MS - 1)
    settle(loop, store)
    assert not registered.done
    clock.advance(1)

    with pytest.raises(RegistrationError, match=r"broker\.id 1 is already registered"):
        loop.wait(registered)
    assert loop.wait(store.exists("/brokers/ids/1")).czxid == epoch


def test_an_id_that_another_broker_takes_meanwhile_is_not_waited_for_again(loop, cluster, ready):
    loop.wait(registration(loop, ready, 1, 9092).register())
    stores = [cluster.session(), cluster.session()]
    both = [waiting(loop, store, FakeClock(loop), 9092 + number) for number, store in enumerate(stores)]
    for store in stores:
        settle(loop, store)
    loop.wait(ready.close())
    loop.until(lambda: all(each.done for each in both))

    refused = [each.error for each in both if each.error is not None]
    assert [type(each) for each in refused] == [RegistrationError]


def test_an_address_that_is_taken(loop, cluster, ready):
    loop.wait(registration(loop, ready, 1, 9092).register())
    with pytest.raises(RegistrationError) as caught:
        loop.wait(registration(loop, cluster.session(), 2, 9092).register())

    assert str(caught.value) == (
        "Configured end points 127.0.0.1:9092 in advertised listeners are already registered by broker 1"
    )


# -------------------------------------------------------------------------------------- event queue


class Queue:
    def __init__(self):
        self.failed = []
        self.queue = ControllerEventManager(self._failed)

    def _failed(self, event, error):
        self.failed.append((event.name, error))
        return Pending.of(None)


def test_events_run_one_at_a_time():
    queue, order, first = Queue().queue, [], Pending()
    queue.put(Event("first", lambda: (order.append("first"), first)[1]))
    queue.put(Event("second", lambda: (order.append("second"), Pending.of(None))[1]))
    assert order == ["first"]
    assert repr(queue) == "<ControllerEventManager running=first waiting=['second']>"
    first.complete(None)

    assert order == ["first", "second"]


def test_a_failing_event_does_not_stop_the_next():
    fixture, order = Queue(), []

    def broken():
        raise RuntimeError("a bug")

    fixture.queue.put(Event("broken", broken))
    fixture.queue.put(Event("failing", lambda: Pending.failed(ValueError())))
    fixture.queue.put(Event("next", lambda: (order.append("next"), Pending.of(None))[1]))

    assert [name for name, _ in fixture.failed] == ["broken", "failing"]
    assert order == ["next"]


def test_clearing_answers_those_who_wait():
    queue, first, preempted, order = Queue().queue, Pending(), [], []
    queue.put(Event("first", lambda: first))
    queue.put(Event("second", lambda: order.append("second"), lambda: preempted.append("second")))
    queue.clear_and_put(Event("expire", lambda: (order.append("expire"), Pending.of(None))[1]))
    assert (preempted, order) == (["second"], [])
    first.complete(None)

    assert order == ["expire"]


def test_a_closed_queue_takes_nothing():
    queue, preempted = Queue().queue, []
    queue.close()
    queue.put(Event("late", lambda: pytest.fail("it ran"), lambda: preempted.append("late")))

    assert preempted == ["late"]


def test_a_thousand_events_that_are_done_at_once():
    queue, first, ran = Queue().queue, Pending(), []
    queue.put(Event("first", lambda: first))
    for number in range(5000):
        queue.put(Event("each", lambda number=number: (ran.append(number), Pending.of(None))[1]))
    first.complete(None)

    assert ran == list(range(5000))
