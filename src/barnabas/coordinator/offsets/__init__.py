"""Committed offsets of groups: how they are written, seen, loaded, deleted, and when they expire."""
