"""``barnabas dump-log``: kafka-dump-log.sh."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from barnabas.cli.index_dump import IndexDump
    from barnabas.cli.log_dump import LogDump
    from barnabas.cli.record_parsers import RecordParser

_STRING_DECODER: Final = "org.apache.kafka.tools.api.StringDecoder"
_INT_MAX: Final = 2**31 - 1
_REFUSED: Final = {
    "cluster-metadata-decoder": "a cluster with ZooKeeper has no metadata log",
    "remote-log-metadata-decoder": "there is no tiered storage here",
}


@click.command()
@click.option("--files", metavar="LIST", help="The files, with commas.")
@click.option("--print-data-log", is_flag=True, help="Print keys and values too; a decoder implies it.")
@click.option("--deep-iteration", is_flag=True, help="Print each record; --print-data-log implies it.")
@click.option("--offsets-decoder", is_flag=True, help="Records are those of __consumer_offsets.")
@click.option("--transaction-log-decoder", is_flag=True, help="Records are those of __transaction_state.")
@click.option(
    "--key-decoder-class",
    metavar="CLASS",
    is_flag=False,
    flag_value=_STRING_DECODER,
    help=f"{_STRING_DECODER}, LongDecoder or IntegerDecoder of the same package.",
)
@click.option(
    "--value-decoder-class",
    metavar="CLASS",
    is_flag=False,
    flag_value=_STRING_DECODER,
    help="The same for values.",
)
@click.option("--skip-record-metadata", is_flag=True, help="Print nothing of a record but key and value.")
@click.option(
    "--max-bytes",
    type=click.IntRange(0, _INT_MAX),
    default=_INT_MAX,
    metavar="BYTES",
    help="Read no more than so many bytes of a log.  [default: all]",
)
@click.option("--index-sanity-check", is_flag=True, help="Check indexes as a broker does when it starts.")
@click.option("--verify-index-only", is_flag=True, help="Compare indexes with logs, print no entries.")
@click.option(
    "--max-message-size",
    type=click.IntRange(1, _INT_MAX),
    default=5 * 1024 * 1024,
    show_default=True,
    metavar="BYTES",
    help="The largest batch that an index may point to.",
)
@click.option("--cluster-metadata-decoder", is_flag=True, hidden=True)
@click.option("--remote-log-metadata-decoder", is_flag=True, hidden=True)
def dump_log(files: str | None, **given: Any) -> None:
    """Print segments (.log), indexes (.index, .timeindex, .txnindex) and producer snapshots (.snapshot) as
    kafka-dump-log.sh does. The broker need not run, and its files are only read.

    An index is compared with the log beside it; what does not fit is printed on stderr at the end.

    \b
    Examples:
      barnabas dump-log --files data/orders-0/00000000000000000000.log
      barnabas dump-log --print-data-log --files data/orders-0/00000000000000000000.log
      barnabas dump-log --offsets-decoder --files data/__consumer_offsets-34/00000000000000000000.log
      barnabas dump-log --index-sanity-check --files data/orders-0/00000000000000000000.index
    """
    from barnabas.cli.index_dump import IndexDump
    from barnabas.cli.log_dump import LogDump
    from barnabas.cli.record_parsers import deprecations

    if files is None:
        raise click.UsageError('Missing required argument "[files]"')
    for flag, reason in _REFUSED.items():
        if given[flag.replace("-", "_")]:
            raise click.UsageError(f"--{flag}: {reason}")
    parse = _parser(given)
    logs = LogDump(
        parse,
        deep=given["deep_iteration"] or parse is not None,
        record_metadata=not given["skip_record_metadata"],
        bytes_max=given["max_bytes"],
        notices=deprecations(given["value_decoder_class"] or "", given["key_decoder_class"] or ""),
    )
    indexes = IndexDump(
        given["index_sanity_check"], given["verify_index_only"], message_bytes_max=given["max_message_size"]
    )
    for name in files.split(","):
        _dump(re.sub("/+", "/", name), logs, indexes)
    for complaints in (indexes.offset_complaints(), indexes.time_complaints(), logs.complaints()):
        for line in complaints:
            click.echo(line, err=True)


def _parser(given: Mapping[str, Any]) -> "RecordParser | None":
    """What prints keys and values; None when they are not asked for."""
    from barnabas.cli.record_parsers import decoding_parser, parse_offsets, parse_transaction

    key_decoder, value_decoder = given["key_decoder_class"], given["value_decoder_class"]
    if given["offsets_decoder"]:
        return parse_offsets
    if given["transaction_log_decoder"]:
        return parse_transaction
    if given["print_data_log"] or key_decoder or value_decoder:
        return decoding_parser(key_decoder or _STRING_DECODER, value_decoder or _STRING_DECODER)
    return None


def _dump(name: str, logs: "LogDump", indexes: "IndexDump") -> None:
    from barnabas.cli.index_dump import snapshot_lines, transaction_lines

    path = Path(name)
    printers: dict[str, Callable[[Path], Iterator[str]]] = {
        ".log": logs.lines,
        ".index": indexes.offset_lines,
        ".timeindex": indexes.time_lines,
        ".snapshot": snapshot_lines,
        ".txnindex": transaction_lines,
    }
    lines = printers.get(path.suffix)
    try:
        if lines is not None:
            path.open("rb").close()  # a missing file is one line: Kafka says that it dumps it, and then fails
        click.echo(f"Dumping {name}")
        if lines is None:
            click.echo(f"Ignoring unknown file {name}", err=True)
            return
        for line in lines(path):
            sys.stdout.write(f"{line}\n")
    except OSError as error:
        raise click.ClickException(f"{error.filename or name}: {error.strerror}") from error
