"""Where groups have come to: committed offsets, their reading, their expiry."""
