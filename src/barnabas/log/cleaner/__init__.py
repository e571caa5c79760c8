"""The log cleaner: of each key of a compacted topic the last record stays (``kafka.log.LogCleaner``).

Theory of operation
-------------------
A log has a *clean* part, below `Log.first_dirty_offset`, in which each key occurs once, and a *dirty* part
behind it. `LogCleaner` takes the log with the greatest share of dirty bytes (`dirtiest`) and has a child
process

1. read the dirty part and note the last offset of each key in an `OffsetMap`, until the map is full
   (`work.build_map`),
2. write each group of neighbouring segments again without the records that the map says are superseded
   (`work.clean_segments`), and sync what it wrote.

The broker's own process only puts the result in the place of the group (`swap`). The child works on files
that do not change and is not trusted to know what happens meanwhile: a result for a log that was deleted,
truncated below the end of the map or changed in its configuration is thrown away. To stop a child at once,
its output file is removed: it looks for the file before each block. All that a crash leaves behind is put
right by `log.leftovers`.

==================  ==========================================================================================
`log_cleaner`       which log is cleaned when, several at a time; what failed; the checkpoint
`in_progress`       which logs are being cleaned: who must know, and what a truncation gives up
`dirtiest`          how dirty a log is, and up to where it may be cleaned
`grouping`          which segments become one
`work`              what the child process does, as functions of plain values
`offset_map`        the last offset of each key, in a flat buffer
`filtering`         what is left of one batch
`frames`            where the records of a batch begin and end, without decoding them
`transactions`      which batches belong to aborted transactions, and which markers nothing depends on any
                    more
`swap`              the cleaned segment takes the place of its sources, safe against a crash at each step
==================  ==========================================================================================

Records are copied as bytes wherever they keep their timestamps: a rewritten batch holds the same records as
Kafka's, with time deltas against the base timestamp of the original batch where Kafka counts from the first
record that is left.
"""
