"""An operator without rest: moves partitions between the log directories of their brokers, one after the
other.
"""

import random
import threading

from kill_load import PARTITIONS

from barnabas.admin import Admin, TopicPartitionReplica
from barnabas.core.errors import BarnabasError

PAUSE_S = 0.1
ASK_MS = 2000


class Mover:
    """Asks for moves of partitions of some topics until it is told to end."""

    def __init__(self, bootstrap, topics, folders, seed):
        """`folders` are the log directories of each broker."""
        self.asked = 0
        """Moves that a broker has agreed to; to where the partition is already, too."""
        self._rng = random.Random(f"moves/{seed}")
        self._topics = topics
        self._folders = folders
        self._bootstrap = bootstrap
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        rng = self._rng
        with Admin(self._bootstrap) as admin:
            while not self._stop.wait(PAUSE_S * rng.random()):
                broker = rng.choice(list(self._folders))
                partition = rng.randrange(PARTITIONS)
                target = rng.choice(self._folders[broker])
                move = {TopicPartitionReplica(broker, rng.choice(self._topics), partition): str(target)}
                try:
                    admin.log_dirs.alter_replicas(move, timeout_ms=ASK_MS)
                except BarnabasError:
                    continue  # the broker is dead, or has no such partition
                self.asked += 1

    def end(self):
        """Begins no more moves."""
        self._stop.set()
        self._thread.join()
