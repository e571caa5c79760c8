"""The metadata store: the contract, and those who keep the tree in memory, in SQLite or in ZooKeeper."""
