"""What stands beside a replica manager in tests without other brokers: its fetchers and its controller."""

from barnabas.core.pending import Pending


class Fetchers:
    """Notes which leaders and epochs are fetched from; copies nothing."""

    def __init__(self):
        self.fetching = {}

    def fetch(self, targets):
        self.fetching |= {each.partition.tp: (each.leader, each.leader_epoch) for each in targets}

    def stop(self, partitions):
        for tp in partitions:
            self.fetching.pop(tp, None)


class IsrDecisions:
    """The controller behind AlterPartition: notes proposals; a test completes their answers."""

    def __init__(self):
        self.proposals = []

    def submit(self, tp, topic_id, proposal):
        answer = Pending()
        self.proposals.append((proposal, answer))
        return answer
