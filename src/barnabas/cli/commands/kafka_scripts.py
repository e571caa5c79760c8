"""``barnabas kafka-scripts``: a folder that looks like a Kafka installation to those who call its scripts."""

from pathlib import Path

import click

from barnabas.cli.printing import printable


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def kafka_scripts(folder: Path) -> None:
    """Write kafka-topics.sh and the like into FOLDER/bin; they call the commands of this installation.

    kafka-run-class.sh takes the names of Kafka's classes. Files that this command has not written are left
    alone.

    \b
    Examples:
      barnabas kafka-scripts ./kafka
      ./kafka/bin/kafka-topics.sh --list --bootstrap-server 127.0.0.1:9092
      ./kafka/bin/kafka-run-class.sh kafka.tools.GetOffsetShell --topic orders --broker-list 127.0.0.1:9092
    """
    from barnabas.cli.kafka_scripts import write

    try:
        written = write(folder)
    except OSError as error:
        raise click.ClickException(f"{error.filename or folder}: {error.strerror}") from None
    click.echo(printable(f"{len(written)} scripts in {folder / 'bin'}"))
