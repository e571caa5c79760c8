"""`Sender`: takes batches out of the accumulator and gets them to the leaders of their partitions.

Theory of operation
-------------------
`pump` runs whenever something changed: a batch is full or old enough, an answer came, metadata is new. It
groups the batches that are due by leader, one for each partition, and sends at most
``max.in.flight.requests.per.connection`` requests to each broker. The outcome of a batch is one of three:
stored; sent again after a pause (the broker's code is retriable and the delivery time is not over); given up.

There is no task for a request: it is with the `NetworkClient` as soon as its batches are taken, and its end
is dealt with in the turn in which the connection learns of it. So no newer batch of a partition can be sent
between the failure of an older one and its return to the queue.

Idempotence rests on `PartitionQueue`: a retry keeps its sequence and its place. One decision is taken here.
OUT_OF_ORDER_SEQUENCE_NUMBER for a batch behind one that failed follows from that failure, so it
is sent again; for the oldest batch of its partition it means that the broker lost or forgot what came
before, and the batch goes under a new epoch.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from barnabas.client.accumulator import RecordAccumulator
from barnabas.client.broker_delays import BrokerDelays
from barnabas.client.cluster import Cluster, Versions
from barnabas.client.errors import ClientClosedError, ClientTimeoutError, DeliveryError
from barnabas.client.home_loop import end
from barnabas.client.partition_queue import NO_IDENTITY, PartitionQueue, ProducerIdentity
from barnabas.client.producer_batch import ProducerBatch
from barnabas.client.producer_metrics import ProducerMetrics
from barnabas.client.retries import Deadline
from barnabas.client.transactions import TransactionManager
from barnabas.core.config import Config
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.core.eventlog import EventLog
from barnabas.core.ids import ZERO_UUID, TopicPartition, Uuid
from barnabas.core.pending import Pending
from barnabas.network.errors import DisconnectedError
from barnabas.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

_log = EventLog("client.producer")
_ACKS: Final = {"all": -1, "-1": -1, "0": 0, "1": 1}
_BY_NAME_MAX: Final = 12
_EXPIRY_S: Final = 0.5
_LOST_SEQUENCE: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
    }
)
_TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
"""For the topic's ``max.message.bytes``, and for its ``segment.bytes``. Batches of Kafka's client seldom come
to that; ours grow (decision 0093).
"""
_STORED_PERHAPS: Final = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Refusals of a batch that the leader may have in its log."""

Sent = list[tuple[PartitionQueue, ProducerBatch]]


def _by_name(versions: Versions | None) -> Versions:
    """Those of them in which topics have names."""
    low, high = versions or (ProduceRequest.min_version, _BY_NAME_MAX)
    return low, min(high, _BY_NAME_MAX)


class Sender:
    """The sending half of a producer; lives on one event loop."""

    def __init__(
        self,
        config: Config,
        cluster: Cluster,
        accumulator: RecordAccumulator,
        on_finished: Callable[[ProducerBatch, Exception | None], object],
        transactions: TransactionManager | None,
        metrics: ProducerMetrics,
        delays: BrokerDelays,
    ) -> None:
        self._config = config
        self._metrics = metrics
        self._delays = delays
        self._cluster = cluster
        self._accumulator = accumulator
        self._on_finished = on_finished
        self._transactions = transactions
        self._acks = _ACKS[config["acks"]]
        self._linger_s = config["linger.ms"] / 1000
        self._delivery_s = config["delivery.timeout.ms"] / 1000
        self._request_bytes_max = config["max.request.size"]
        self._in_flight_max = config["max.in.flight.requests.per.connection"]
        self._identity: ProducerIdentity | None = None if config["enable.idempotence"] else NO_IDENTITY
        self._identifying: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._expire_at = 0.0
        self._pumping = False
        """Whether `pump` runs in the next turn of the loop."""
        self._closed = False
        self.hurry = 0
        """While above 0 (a caller flushes) no batch lingers."""

    def pump(self) -> None:
        """Sends what is due and arms the timer for what will be (``Sender.runOnce``)."""
        self._pumping = False
        if self._closed:
            return
        now = time.monotonic()
        # Before anything is sent: what has waited longer than ``delivery.timeout.ms`` must not go out now.
        if now >= self._expire_at:
            self._expire(now)
        self._cluster.refresh_if_old()
        ending = self._transactions is not None and self._transactions.is_ending
        # A flush, or the end of a transaction, waits for the records: nothing lingers then.
        due = self._accumulator.due(0.0 if self.hurry or ending else self._linger_s)
        ready = [queue for at, queue in due if at <= now]
        if self._transactions is not None:
            ready = self._admitted(ready, self._transactions)
        # KIP-98: no idempotent batch can be numbered before the producer has an id.
        if ready and self._identity is None:
            self._identify()
        elif ready:
            self._send_ready(ready)
        later = [at for at, _ in due if at > now]
        # Awake for the next batch that is due, and for the next look at what has expired.
        if due or self._accumulator.waiting_bytes:
            self._arm(min([*later, self._expire_at]) - now)

    def _admitted(
        self, ready: list[PartitionQueue], transactions: TransactionManager
    ) -> list[PartitionQueue]:
        """Those of them that may be sent in the transaction as it is; under its id and epoch."""
        if transactions.identity is not NO_IDENTITY:
            self._identity = transactions.identity
        return [
            queue
            for queue in ready
            if transactions.admits(queue.tp, sent_before=queue.waiting[0].attempts > 0)
        ]

    def _pump_soon(self) -> None:
        """In the next turn: many answers may come in one, and the caller may be inside of `pump`."""
        if not self._pumping and not self._closed:
            self._pumping = True
            asyncio.get_running_loop().call_soon(self.pump)

    def _arm(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(max(delay_s, 0.0005), self.pump)

    def _send_ready(self, ready: list[PartitionQueue]) -> None:
        by_leader: dict[int, list[PartitionQueue]] = {}
        for queue in ready:
            leader = self._cluster.metadata.leader(queue.tp)
            # -1: nobody leads it; it waits for new metadata.
            if leader < 0 or self._may_send(queue, leader):
                by_leader.setdefault(leader, []).append(queue)
        if by_leader.pop(-1, None):
            self._cluster.refresh_soon()
        for node_id, queues in by_leader.items():
            # Partitions that do not fit into one request go into the next, as long as the broker has room for
            # one.
            while queues and self._has_room(node_id):
                self._send(node_id, self._drain(node_id, queues))
            self._delays.looked_at(node_id, keeps_waiting=bool(queues))

    def _may_send(self, queue: PartitionQueue, leader: int) -> bool:
        """Whether no batch of an idempotent producer overtakes one whose answer another broker owes.

        The earlier leader may have stored and replicated that batch. The next one would take the newer ones,
        and after five of them not recognise it when it is sent again. (librdkafka drains a partition in the
        same way.)

        Of another producer no batch follows one that is larger than all that the topic has taken so far: it
        may have to be split, and without sequences the broker would store the newer one before its halves.
        """
        if not queue.in_flight:
            return True
        if self._identity is NO_IDENTITY:
            return self._accumulator.was_taken(queue)
        return queue.sent_to == leader

    def _has_room(self, node_id: int) -> bool:
        """Whether a request to the node may be made now.

        Only one waits for a connection: each has its own time-out, and a newer batch of a partition must not
        be sent when an older one has just been given back.
        """
        network = self._cluster.network
        requests = network.in_flight_request_count(node_id)
        return not requests or (requests < self._in_flight_max and network.is_ready(node_id))

    def _drain(self, node_id: int, queues: list[PartitionQueue]) -> Sent:
        """The first batches of as many of these partitions as fit into one request; they leave the list."""
        assert self._identity is not None
        sent: Sent = []
        size = 0
        while queues and (not sent or size + queues[0].waiting[0].size_bytes <= self._request_bytes_max):
            queue = queues.pop(0)
            # From here on the batch has its sequence number, which it keeps in every retry.
            batch = self._accumulator.take(queue, self._identity)
            queue.sent_to = node_id
            size += batch.size_bytes
            sent.append((queue, batch))
        return sent

    def _send(self, node_id: int, sent: Sent) -> None:
        """One request (``sendProduceRequest``)."""
        try:
            request = self._request(sent)
        except Exception as error:
            self._refuse(node_id, sent, error)
            return
        versions = None if self._transactions is None else self._transactions.produce_versions
        # Topics go by id from v13 on; where one has none (its cluster is older), all go by name.
        if any(topic.topic_id == ZERO_UUID for topic in request.topic_data):
            versions = _by_name(versions)
        # The answer names topics as the request did: by then one may have been made anew, with another id.
        names = {topic.topic_id: topic.name for topic in request.topic_data}
        now = time.monotonic()
        self._metrics.sent(sent, now)
        call = self._cluster.request(node_id, request, versions=versions, expects_response=self._acks != 0)
        call.when_done(lambda done: self._completed(node_id, sent, names, now, done))

    def _completed(
        self, node_id: int, sent: Sent, names: Mapping[Uuid, str], sent_at: float, call: Pending[Any]
    ) -> None:
        """A request has its answer, or failed (``handleProduceResponse``)."""
        if self._closed:
            return
        try:
            if call.error is None:
                self._metrics.answered(time.monotonic() - sent_at)
                self._answered(sent, names, call.result())
            else:
                self._request_failed(sent, call.error)
        except Exception as error:
            self._refuse(node_id, sent, error)
        self._pump_soon()

    def _refuse(self, node_id: int, sent: Sent, error: Exception) -> None:
        """A request that cannot be made, or an answer that cannot be read:
        its batches would wait without end.
        """
        _log.error("request.failed", node=node_id, error=repr(error))
        for queue, batch in sent:
            # Those whose outcome was known before the error are not touched.
            if batch in queue.in_flight:
                self._give_up(queue, batch, error)
        self._pump_soon()

    def _request(self, sent: Sent) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for queue, batch in sent:
            name = queue.tp.topic
            if name not in topics:
                topics[name] = TopicProduceData(
                    name=name, topic_id=self._cluster.metadata.topic_id(name), partition_data=[]
                )
            data = PartitionProduceData(index=queue.tp.partition, records=queue.encode(batch))
            topics[name].partition_data.append(data)
        return ProduceRequest(
            transactional_id=self._config["transactional.id"],
            acks=self._acks,
            timeout_ms=self._config["request.timeout.ms"],
            topic_data=list(topics.values()),
        )

    def _request_failed(self, sent: Sent, error: BaseException) -> None:
        assert isinstance(error, Exception)
        for queue, batch in sent:
            if isinstance(error, DisconnectedError | OSError):
                # With acks=0 as well: a request that needs no answer was not sent then.
                batch.may_be_stored = True
                self._again(queue, batch, error)
            else:
                self._give_up(queue, batch, error)

    def _answered(self, sent: Sent, names: Mapping[Uuid, str], response: ProduceResponse) -> None:
        # No answer comes: what is on its way counts as stored, at an offset that nobody knows.
        if self._acks == 0:
            for queue, batch in sent:
                self._stored(queue, batch, -1, -1)
            return
        answers = {
            TopicPartition(topic.name or names.get(topic.topic_id, ""), one.index): one
            for topic in response.responses
            for one in topic.partition_responses
        }
        # KIP-951: a broker that leads a partition no longer says who does, and where that one is.
        moved = self._cluster.leaders_changed(
            {tp: one.current_leader for tp, one in answers.items() if one.current_leader is not None},
            response.node_endpoints,
        )
        for queue, batch in sent:
            answer = answers.get(queue.tp)
            if answer is None:
                batch.may_be_stored = True
                self._again(queue, batch, DisconnectedError(f"the broker left out {queue.tp}"))
            else:
                self._judge(queue, batch, answer, at_once=queue.tp in moved)

    def _judge(
        self, queue: PartitionQueue, batch: ProducerBatch, answer: PartitionProduceResponse, *, at_once: bool
    ) -> None:
        code = ErrorCode.of(answer.error_code)
        if code is ErrorCode.NONE:
            self._stored(queue, batch, answer.base_offset, answer.log_append_time_ms)
        elif code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            self._stored(queue, batch, -1, -1)  # the broker has it, but forgot where
        # The broker does not know what came before this batch.
        elif code in _LOST_SEQUENCE and batch.base_sequence >= 0:
            error = DeliveryError(queue.tp, code, answer.error_message)
            # An older batch failed: this one follows when that one is stored.
            if not queue.is_first_unacknowledged(batch):
                self._again(queue, batch, error)
            elif self._transactions is not None or batch.whole_may_be_stored:
                # What came before may be lost, or this producer be fenced: the transaction cannot be whole.
                # Or the batch that this is a piece of is stored: a new epoch would store it once more.
                self._give_up(queue, batch, error)
            # KIP-360: all before it are acknowledged, so a new epoch may begin to count at 0.
            else:
                queue.restart()
                self._again(queue, batch, error)
        elif code in _TOO_LARGE and batch.count > 1:
            self._split(queue, batch)
        else:
            error = DeliveryError(queue.tp, code, answer.error_message)
            # Most of these mean that another broker leads the partition by now.
            if code.retriable:
                batch.may_be_stored |= code in _STORED_PERHAPS
                self._cluster.refresh_soon()
                self._again(queue, batch, error, at_once=at_once)
            else:
                self._give_up(queue, batch, error)

    def _stored(self, queue: PartitionQueue, batch: ProducerBatch, offset: int, append_time: int) -> None:
        self._accumulator.finished(queue, batch)
        batch.complete(offset, append_time)
        self._on_finished(batch, None)

    def _split(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """The topic takes no batch as large as this one (``max.message.bytes``, or ``segment.bytes``): its
        halves are sent, as often as it takes.
        """
        _log.debug("batch.split", partition=queue.tp, records=batch.count, size=batch.size_bytes)
        self._metrics.split()
        self._accumulator.split(queue, batch)

    def _again(
        self, queue: PartitionQueue, batch: ProducerBatch, error: Exception, *, at_once: bool = False
    ) -> None:
        """Sends it again, after a pause unless `at_once`: a new leader is known already."""
        now = time.monotonic()
        # KIP-91: ``delivery.timeout.ms`` bounds all tries together.
        if now - batch.created_at >= self._delivery_s:
            self._give_up(queue, batch, self._expired(batch, error))
            return
        # Another producer has the id: every batch that is sent again is refused.
        if self._transactions is not None and self._transactions.is_fatal:
            self._give_up(queue, batch, error)
            return
        _log.debug("batch.retry", partition=queue.tp, attempts=batch.attempts, error=error)
        self._metrics.retried(batch)
        pause_s = 0.0 if at_once else self._cluster.pause_s(batch.attempts - 1)
        self._accumulator.retry(queue, batch, now + pause_s)

    def _give_up(self, queue: PartitionQueue, batch: ProducerBatch, error: Exception) -> None:
        self._accumulator.give_up(queue, batch)
        self._metrics.failed(batch)
        if self._transactions is not None:
            self._transactions.records_failed(error)
        batch.fail(error)
        self._on_finished(batch, error)

    def give_up_waiting(self, error: Callable[[], Exception], *, never_sent: bool) -> None:
        """Gives up the batches that no broker is being asked about; or those of them that were never sent."""
        for queue, batch in self._accumulator.waiting():
            # What was sent may be stored: only a broker's answer can say so.
            if not (never_sent and batch.attempts):
                self._give_up(queue, batch, error())

    def _expire(self, now: float) -> None:
        """Gives up what has waited longer than ``delivery.timeout.ms``."""
        self._expire_at = now + min(_EXPIRY_S, self._delivery_s / 4)
        self._accumulator.close_grown()
        for queue, batch in self._accumulator.waiting():
            if now - batch.created_at >= self._delivery_s:
                self._give_up(queue, batch, self._expired(batch, None))

    def _expired(self, batch: ProducerBatch, last: Exception | None) -> Exception:
        reason = f"; the last failure: {last}" if last else ""
        return ClientTimeoutError(
            f"Expiring {batch.count} record(s) for {batch.tp}: delivery.timeout.ms"
            f" ({self._config['delivery.timeout.ms']}) has passed since the batch was created{reason}"
        )

    def _identify(self) -> None:
        if self._identifying is None or self._identifying.done():
            self._identifying = asyncio.create_task(self._ask_for_identity())

    async def _ask_for_identity(self) -> None:
        """Asks for a producer id; when that fails for good, everything that waits fails with it."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        deadline = Deadline(self._config["delivery.timeout.ms"])

        async def attempt() -> ProducerIdentity:
            answer = await self._cluster.ask_any(request, InitProducerIdResponse)
            if answer.error_code:
                raise KafkaError(ErrorCode.of(answer.error_code))
            return ProducerIdentity(answer.producer_id, answer.producer_epoch)

        try:
            self._identity = await self._cluster.retrying(attempt, deadline, "No producer id was given")
        except BarnabasError as error:
            for queue, batch in self._accumulator.waiting():
                self._give_up(queue, batch, error)
        self.pump()

    async def close(self) -> None:
        """Stops sending; what is not stored yet fails with ClientClosedError."""
        self._closed = True
        self._accumulator.refuse_with(lambda: ClientClosedError("The producer was closed"))
        if self._timer is not None:
            self._timer.cancel()
        # Before the first wait, which may be cancelled: no record may be left without an end.
        for queue, batch in self._accumulator.unfinished():
            self._give_up(
                queue, batch, ClientClosedError("The producer was closed before the record was sent")
            )
        await end(self._identifying)
        if self._transactions is not None:
            await self._transactions.close()
