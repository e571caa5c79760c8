"""The records that coordinators keep in Kafka's internal topics: a module for each kind of thing they keep.

`record` holds what their keys and values have in common, `topics` which types each topic has.
"""
