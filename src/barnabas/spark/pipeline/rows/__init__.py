"""From records to rows, as DataFrames.

`frames` makes what the file describes of a topic, `debezium` opens the envelope of a change, `changes` finds
the newest row of a key, `expectations` are the rules for rows, `records` makes records of them for a topic.
"""
