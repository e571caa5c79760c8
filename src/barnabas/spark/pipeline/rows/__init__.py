"""From records to rows, as DataFrames.

`frames` makes what the file describes of a topic, `debezium` opens the envelope of a change, `changes` finds
the newest row of a key, `tombstones` asks the brokers which of them are deleted further on, `expectations`
are the rules for rows, `records` makes records of them for a topic.
"""
