"""Groups whose members agree among themselves: the classic rebalance protocol."""
