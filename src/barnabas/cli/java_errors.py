"""Errors as Kafka's tools print them: the Java class, then the text.

Scripts look for these names, so the lines of ``barnabas groups`` carry them.
"""

from typing import Final

from barnabas.admin import NotAConsumerGroupError
from barnabas.client.errors import ClientTimeoutError
from barnabas.core.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.network.errors import DisconnectedError, UnsupportedVersionError

_KAFKA: Final = "org.apache.kafka.common.errors."
EXECUTION: Final = "java.util.concurrent.ExecutionException: "
"""What stands before an error that a future gave and that was not unwrapped."""

# Where the name of the class is not that of the code (``org.apache.kafka.common.protocol.Errors``).
_CLASSES: Final = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorizationException",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "GroupAuthorizationException",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "InvalidTopicException",
    ErrorCode.KAFKA_STORAGE_ERROR: "KafkaStorageException",
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmptyException",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "OffsetMetadataTooLarge",
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "SaslAuthenticationException",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "TopicAuthorizationException",
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServerException",
}
_OTHERS: Final = (
    (NotAConsumerGroupError, "java.lang.IllegalArgumentException"),
    (ClientTimeoutError, f"{_KAFKA}TimeoutException"),
    (UnsupportedVersionError, f"{_KAFKA}UnsupportedVersionException"),
    (DisconnectedError, f"{_KAFKA}DisconnectException"),
)


def java_text(error: BarnabasError) -> str:
    """``toString()`` of the exception that Java's client throws for this."""
    return f"{_class_of(error)}: {error}"


def _class_of(error: BarnabasError) -> str:
    if isinstance(error, KafkaError):
        words = error.code.name.split("_")
        return _KAFKA + _CLASSES.get(error.code, "".join(map(str.capitalize, words)) + "Exception")
    return next(
        (name for kind, name in _OTHERS if isinstance(error, kind)), "org.apache.kafka.common.KafkaException"
    )
