"""Runs of a pipeline: `supervisor` keeps its query going, `trial` tries it on a few records, `rewind` takes
back what runs have done.
"""
