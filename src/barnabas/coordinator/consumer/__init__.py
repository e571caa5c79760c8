"""Groups that the coordinator assigns partitions to: the consumer rebalance protocol (KIP-848)."""
