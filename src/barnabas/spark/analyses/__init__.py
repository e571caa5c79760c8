"""Analyses of logs: what fills the disk, how keys spread over partitions, and what other codecs would take.

::

    from barnabas.spark import session
    from barnabas.spark.analyses import disk_usage

    usage = disk_usage(session("what fills the disk"), ["/var/lib/kafka"])
    usage.write("usage")  # usage/report.html, and a Parquet file a table
    usage.tables["topics"].rows  # the same as dictionaries

An analysis is some tables, which print themselves on a terminal, as HTML with charts and as Parquet.
``barnabas analyze`` is the same as a command.
"""

from barnabas.spark.analyses.analysis import Analysis
from barnabas.spark.analyses.codec_choices import codecs
from barnabas.spark.analyses.directories import directories
from barnabas.spark.analyses.disk import disk_usage
from barnabas.spark.analyses.key_skew import partition_counts, skew
from barnabas.spark.analyses.retention import Retention, retention_of
from barnabas.spark.analyses.table import AnalysisTable

__all__ = [
    "Analysis",
    "AnalysisTable",
    "Retention",
    "codecs",
    "directories",
    "disk_usage",
    "partition_counts",
    "retention_of",
    "skew",
]
