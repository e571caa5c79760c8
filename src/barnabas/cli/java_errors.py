"""Errors as Kafka's tools print them: the Java class, then the text.

Scripts look for these names, so the lines of our tools carry them where those of Kafka do.
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
    ErrorCode.CORRUPT_MESSAGE: "CorruptRecordException",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "DelegationTokenAuthorizationException",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "DelegationTokenDisabledException",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "UnsupportedByAuthenticationException",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "DuplicateSequenceException",
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: "FetchSessionTopicIdException",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "GroupAuthorizationException",
    ErrorCode.INVALID_CONFIG: "InvalidConfigurationException",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "InvalidPidMappingException",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "InvalidTopicException",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "InvalidTxnTimeoutException",
    ErrorCode.KAFKA_STORAGE_ERROR: "KafkaStorageException",
    ErrorCode.MESSAGE_TOO_LARGE: "RecordTooLargeException",
    ErrorCode.NETWORK_EXCEPTION: "NetworkException",
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmptyException",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "OffsetMetadataTooLarge",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "OutOfOrderSequenceException",
    ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE: "PrincipalDeserializationException",
    ErrorCode.RECORD_LIST_TOO_LARGE: "RecordBatchTooLargeException",
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "SaslAuthenticationException",
    ErrorCode.STALE_CONTROLLER_EPOCH: "ControllerMovedException",
    ErrorCode.TOPIC_ALREADY_EXISTS: "TopicExistsException",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "TopicAuthorizationException",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "TransactionalIdAuthorizationException",
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
    return f"{java_class(error)}: {error}"


def java_class(error: BarnabasError) -> str:
    """The name of the class of that exception."""
    if isinstance(error, KafkaError):
        words = error.code.name.split("_")
        return _KAFKA + _CLASSES.get(error.code, "".join(map(str.capitalize, words)) + "Exception")
    return next(
        (name for kind, name in _OTHERS if isinstance(error, kind)), "org.apache.kafka.common.KafkaException"
    )
