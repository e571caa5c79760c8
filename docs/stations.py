"""The stations of requests, from the socket to the disk and back, for docs/architecture.md.

A row is what happens, and the functions of `barnabas` where it happens, as ``folder/module:Name``. `make
docs` writes the tables; a test says which function is not there, so that a row cannot be about code that has
gone.
"""

from importlib import import_module
from typing import Final

ARRIVAL: Final = (
    (
        "bytes arrive; the connection reads them into its buffer",
        "network/plain_connection:PlainConnection._on_readable",
    ),
    (
        "they are cut into frames",
        "network/conversation:Conversation.received network/frames:FrameReader.received",
    ),
    ("while the broker starts, all but the controller's requests wait", "node/readiness:Gate.handle"),
    (
        "the header, key and version are read, the body decoded, the handler called",
        "broker/dispatch:Dispatcher.handle protocol/framing:decode_request_header",
    ),
)
"""The way of every request to its handler."""

DEPARTURE: Final = (
    ("the throttle time is set, the answer encoded", "broker/dispatch:Dispatcher._finish"),
    ("answers leave in the order of the requests", "network/conversation:Conversation.take_output"),
    ("they are written to the socket, files by sendfile", "network/send_queue:SendQueue.send"),
)
"""The way of every answer; one that comes later begins here when its `Pending` is done."""

WALKS: Final = {
    "FindCoordinator": (
        (
            "DESCRIBE on the group or the transactional id",
            "broker/handlers/find_coordinator:find_coordinator",
        ),
        (
            "the hash of the name gives the partition of `__consumer_offsets`",
            "coordinator/runtime/keys:partition_of core/ids:java_hash",
        ),
        (
            "the topic is not there: it is created, the client asks again",
            "broker/auto_topics:AutoTopics.create cluster/metadata/topics:TopicAdmin.create",
        ),
        (
            "the leader's endpoint on the listener of the request",
            "cluster/metadata/cache:MetadataCache.leader_endpoint",
        ),
    ),
    "The life of a group: join, sync, commit": (
        ("the member's request, with its client's name and host", "broker/handlers/join_group:join_group"),
        (
            "the shard of the group, if it is led here and loaded",
            "coordinator/group_coordinator:GroupCoordinator.join_group",
        ),
        ("is the member accepted?", "coordinator/classic/join_group:classic_group_join"),
        (
            "the others have to join again; the answer waits for them",
            "coordinator/classic/rebalance:prepare_rebalance coordinator/classic/rebalance:complete_join",
        ),
        ("SyncGroup: the leader brings the assignment", "coordinator/classic/sync_group:classic_group_sync"),
        ("OffsetCommit: may this member commit?", "broker/handlers/offset_commit:offset_commit"),
        ("what is committed becomes records", "coordinator/offsets/commits:commit_records"),
        (
            "the group's record, or those of its offsets, is appended",
            "coordinator/runtime/journal:PartitionJournal.append",
        ),
        (
            "**disk**: the leader's log of `__consumer_offsets`",
            "log/log:Log.append log/segment:LogSegment.append",
        ),
        ("the replicas have it: the answer is due", "replica/produce:DelayedProduce.try_complete"),
        (
            "after a change of leader, the new one reads it all again",
            (
                "coordinator/runtime/runtime:CoordinatorRuntime.elected"
                " coordinator/state_machine:GroupStateMachine.loaded"
            ),
        ),
    ),
    "LeaderAndIsr and UpdateMetadata": (
        (
            "the controller collects what changed, by broker",
            "cluster/controller/channel_manager:RequestBatch.add_leader_and_isr",
        ),
        ("it becomes requests", "node/control_requests:ControlRequests.send_leader_and_isr"),
        ("one queue for each broker; this one's is in process", "node/channels:BrokerChannels.send"),
        ("CLUSTER_ACTION, and this life of the broker", "broker/handlers/leader_and_isr:leader_and_isr"),
        ("one after the other, in slices", "replica/control_queue:ControlQueue.run"),
        (
            "is the controller's epoch the newest? then partition by partition",
            "replica/state_changes:StateChanges.leader_and_isr",
        ),
        (
            "the partition leads, or follows",
            "replica/partition:Partition.make_leader replica/partition:Partition.make_follower",
        ),
        (
            "**disk**: the log is made or opened, its directory, its epochs",
            "log/manager:LogManager.get_or_create log/leader_epochs:LeaderEpochCache.assign",
        ),
        ("what follows is fetched", "replica/fetcher/manager:ReplicaFetcherManager.fetch"),
        (
            "UpdateMetadata: all that clients are told is replaced",
            (
                "broker/handlers/update_metadata:update_metadata"
                " cluster/metadata/cache:MetadataCache.apply_in_slices"
            ),
        ),
        (
            "topic creations that waited for it are answered",
            "broker/topic_changes:TopicChanges.metadata_changed",
        ),
    ),
    "ListOffsets": (
        ("DESCRIBE on each topic; duplicates are refused", "broker/handlers/list_offsets:list_offsets"),
        ("the leader answers, in the epoch that the client knows", "replica/partition:Partition.log_for"),
        ("earliest, latest, the greatest timestamp, or a time", "replica/offsets:offset_for"),
        ("the segment, by its greatest timestamp", "log/log:Log.offset_for_timestamp"),
        (
            "**disk**: the time index, then the batches behind it",
            "log/segment:LogSegment.headers_since log/index:TimeIndex.lookup",
        ),
        ("inside a batch, its records", "log/time_search:search_batch"),
    ),
    "CreateTopics through ZooKeeper": (
        (
            "CREATE on the cluster or the topic; duplicates are refused",
            "broker/handlers/create_topics:create_topics",
        ),
        (
            "the name, the counts and the configuration are valid; replicas are placed",
            "cluster/metadata/topics:TopicAdmin.create cluster/metadata/placement:assign_replicas",
        ),
        (
            "**store**: /config/topics and /brokers/topics, in one transaction",
            "cluster/store/znodes:topic_path cluster/store/zookeeper:ZookeeperStore.multi",
        ),
        (
            "the handler's answer waits until the metadata has the topic",
            "broker/topic_changes:TopicChanges.created",
        ),
        (
            "the controller's watch fires, an event is queued",
            (
                "cluster/controller/znode_watches:ZnodeWatches.children"
                " cluster/controller/event_manager:ControllerEventManager.put"
            ),
        ),
        ("the new topic's assignment is read", "cluster/controller/topic_events:process_topic_change"),
        (
            "each partition gets a leader; **store**: its state",
            (
                "cluster/controller/partition_state_machine:PartitionStateMachine.handle"
                " cluster/controller/fenced_store:FencedStore.create_states"
            ),
        ),
        (
            "LeaderAndIsr to the replicas, UpdateMetadata to all",
            "cluster/controller/channel_manager:RequestBatch.send",
        ),
        (
            "the walk above; with UpdateMetadata the answer is due",
            "broker/topic_changes:TopicChanges.metadata_changed",
        ),
    ),
    "Produce": (
        (
            "WRITE on each topic; one whole batch for each partition, which is named once",
            "broker/handlers/produce:produce records/batch:only_header",
        ),
        (
            "does the first batch of a transaction belong to it? Its coordinator is asked",
            "replica/produce:Appender.unverified node/verification:AddPartitionsToTxnManager.verify",
        ),
        (
            "the leader, with enough replicas in sync",
            "replica/produce:Appender.append replica/partition:Partition.append",
        ),
        (
            "size and CRC; the producer's sequence; offset and leader epoch are stamped",
            "log/log:Log.append log/validator:validate log/producers:ProducerStateManager.check",
        ),
        (
            "**disk**: at once, or with what else this turn appends",
            "log/segment:LogSegment.append log/write_turn:WriteTurn.write",
        ),
        ("with acks=all the answer waits for the high watermark", "replica/produce:Appender.acknowledge"),
        ("a follower's fetch moves it", "replica/partition:Partition.record_follower_fetch"),
        ("the replicas have it: the answer is due", "replica/produce:DelayedProduce.try_complete"),
    ),
    "Fetch": (
        (
            "READ on each topic; a session names what has changed",
            "broker/handlers/fetch:fetch broker/fetch_context:new_context",
        ),
        (
            "partition by partition, until the size limits are used up",
            "replica/fetch:Fetch.step replica/fetch_reader:FetchReader.read",
        ),
        (
            "how far the reader may see; whether it has to cut (KIP-595)",
            "replica/partition:Partition.read replica/log_read:read_records",
        ),
        (
            "**disk**: the index, then a piece of the file, which nobody reads yet",
            "log/log:Log.read log/segments:SegmentList.read",
        ),
        (
            "a follower's fetch says how far it has got: the ISR may grow, the high watermark rise",
            "replica/partition:Partition.record_follower_fetch",
        ),
        (
            "too little to answer: it waits for appends, or for max_wait_ms",
            "replica/delayed_fetch:DelayedFetch.try_complete",
        ),
    ),
    "An ISR shrinks": (
        ("every half replica.lag.time.max.ms the leaders look", "replica/manager:ReplicaManager.shrink_isrs"),
        (
            "who has not caught up for so long? The smaller ISR is proposed",
            "replica/partition:Partition.maybe_shrink_isr replica/replica:Replica.is_caught_up",
        ),
        (
            "until the controller answers, the larger ISR counts (KIP-497)",
            "replica/isr:IsrState.propose replica/isr:IsrState.maximal",
        ),
        (
            "AlterPartition: one request at a time, with what else is proposed",
            (
                "replica/alter_partition:AlterPartitionManager.submit"
                " node/isr_channel:IsrChannel.alter_partition"
            ),
        ),
        ("the controller's broker takes it", "broker/handlers/alter_partition:alter_partition"),
        (
            "the epochs are current: **store**: the partition's state",
            (
                "cluster/controller/isr_events:alter_partitions"
                " cluster/controller/fenced_store:FencedStore.update_states"
            ),
        ),
        (
            "the verdict comes back",
            "node/isr_channel:IsrChannel.alter_partition replica/partition:Partition._decided",
        ),
        (
            "the high watermark may rise without the one that left: what waits for it is due",
            "replica/partition:Partition.advance_high_watermark replica/produce:Wake.progressed",
        ),
    ),
    "EndTxn": (
        ("WRITE on the transactional id", "broker/handlers/end_txn:end_txn"),
        (
            "the shard of the id, if it is led here and loaded",
            "coordinator/transaction/transaction_coordinator:TransactionCoordinator.end_transaction",
        ),
        (
            "which state follows, or which code",
            "coordinator/transaction/end_transaction:end_transaction",
        ),
        (
            "**disk**: the decision; it counts, and the answer is due, when the replicas have it",
            "coordinator/transaction/shard:append_transition",
        ),
        (
            "the markers wait for the leaders of the partitions",
            "coordinator/transaction/markers:TransactionMarkerChannelManager.add_markers_to_send",
        ),
        (
            "WriteTxnMarkers: one request a broker at a time",
            "node/marker_channel:TxnMarkerChannel.write_markers",
        ),
        ("**disk**: each leader appends its marker", "broker/handlers/write_txn_markers:write_txn_markers"),
        (
            "all are written: **disk**: CompleteCommit or CompleteAbort",
            "coordinator/transaction/metadata:TransactionMetadata.complete",
        ),
    ),
    "A Spark batch read": (
        ("the options are read and checked", "spark/source:TopicSource.reader spark/options:SourceOptions"),
        (
            "the driver: which partitions, from where, to where",
            "spark/planner:Planner.batch_ranges spark/kafka:KafkaCatalog.offsets",
        ),
        ("the ranges become tasks", "spark/source:BatchTopicReader.partitions spark/ranges:plan_tasks"),
        (
            "a task: fetches its ranges, until all are read",
            "spark/source:_TopicReader.read spark/reading:read_ranges",
        ),
        (
            "Fetch requests of the worker's one consumer; the broker's side is the walk of Fetch",
            "spark/kafka:KafkaFetcher.fetch client/fetcher:Fetcher.send_fetches",
        ),
        ("record batches become columns, without aborted ones", "records/columnar:decode"),
    ),
}


def missing() -> list[str]:
    """The places in the tables that are not there."""
    tables = (ARRIVAL, DEPARTURE, *WALKS.values())
    places = [place for table in tables for _, named in table for place in named.split()]
    return [place for place in places if not _exists(place)]


def _exists(place: str) -> bool:
    module, _, name = place.partition(":")
    try:
        found: object = import_module(f"barnabas.{module.replace('/', '.')}")
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return False
    return True


def tables() -> str:
    """The part of the page."""
    parts = [("Every request, up to its handler", ARRIVAL), *WALKS.items(), ("Every answer", DEPARTURE)]
    return "\n\n".join(_table(title, rows) for title, rows in parts)


def _table(title: str, rows: tuple[tuple[str, str], ...]) -> str:
    head = [f"**{title}**", "", "| station | what happens | where |", "|---|---|---|"]
    lines = [f"| {number} | {what} | {_places(named)} |" for number, (what, named) in enumerate(rows, 1)]
    return "\n".join([*head, *lines])


def _places(named: str) -> str:
    return ", ".join(
        f"`{module}.py` `{name}`" for module, _, name in (each.partition(":") for each in named.split())
    )
