"""The table of the controller's events that changes of znodes cause.

To add an event, write the function that processes it, and add one row here. The row says everything: a new
term leaves the watch by it, the queue and the log take the event's name from it, and the function is called
with the term (and with the znode's name, where the row is for each znode below a path). The function reads
the znode through `Term.watches`, which leaves the watch for the next change. Rows with ``*`` need such a read
once at the beginning of a term, when it is known which znodes there are.

An event without a znode is one call in `controller`: `KafkaController._ask` with its name and its function
where a caller waits for the answer (a request), `KafkaController._put` where no caller does (a timer, a
broker's response).
"""

from typing import Final

from barnabas.cluster.controller.broker_events import (
    process_broker_change,
    process_broker_modification,
    process_log_dir_event_notification,
)
from barnabas.cluster.controller.election_events import process_zk_preferred_replica_election
from barnabas.cluster.controller.isr_events import process_isr_change_notification
from barnabas.cluster.controller.reassignment import process_zk_partition_reassignment
from barnabas.cluster.controller.topic_events import (
    process_partition_modifications,
    process_topic_change,
    process_topic_deletion,
)
from barnabas.cluster.controller.znode_watches import ZnodeEvent
from barnabas.cluster.store import znodes
from barnabas.cluster.store.contract import Change

# fmt: off
ZNODE_EVENTS: Final = (
    ZnodeEvent(znodes.BROKER_IDS, Change.CHILDREN, "BrokerChange", process_broker_change),
    ZnodeEvent(f"{znodes.BROKER_IDS}/*", Change.DATA, "BrokerModifications", process_broker_modification),
    ZnodeEvent(znodes.TOPICS, Change.CHILDREN, "TopicChange", process_topic_change),
    ZnodeEvent(f"{znodes.TOPICS}/*", Change.DATA, "PartitionModifications", process_partition_modifications),
    ZnodeEvent(znodes.DELETE_TOPICS, Change.CHILDREN, "TopicDeletion", process_topic_deletion),
    ZnodeEvent(znodes.ISR_CHANGES, Change.CHILDREN, "IsrChangeNotification", process_isr_change_notification),
    ZnodeEvent(znodes.LOG_DIR_EVENTS, Change.CHILDREN, "LogDirEventNotification",
        process_log_dir_event_notification),
    ZnodeEvent(znodes.REASSIGN_PARTITIONS, Change.CREATED, "ZkPartitionReassignment",
        process_zk_partition_reassignment),
    ZnodeEvent(znodes.PREFERRED_REPLICA_ELECTION, Change.CREATED, "ReplicaLeaderElection",
        process_zk_preferred_replica_election),
)
# fmt: on
