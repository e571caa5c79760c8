"""What the data source raises: wrong options, offsets that do not fit, data that is gone.

Kafka's own connector has error conditions with names; a message here begins with that name in brackets
where there is one, so that what people search for is the same.
"""

from barnabas.core.errors import BarnabasError


class OptionError(BarnabasError, ValueError):
    """An option of the data source is missing, unknown, or has a value that cannot be used."""


class OffsetError(BarnabasError):
    """Offsets that were asked for do not fit the partitions that there are."""


class DataLossError(BarnabasError):
    """Records that the query should have read are not in Kafka any more (``failOnDataLoss``)."""

    def __init__(self, condition: str, reason: str) -> None:
        super().__init__(
            f"[KAFKA_DATA_LOSS.{condition}] Some data may have been lost because they are not available in "
            "Kafka any more; either the data was aged out by Kafka or the topic may have been deleted before "
            "all the data in the topic was processed. If you don't want your streaming query to fail on such "
            f"cases, set the source option failOnDataLoss to false. Reason: {reason}"
        )
        self.condition = condition
        self.reason = reason
