"""The options of TLS. They stand alone: who only names them needs nothing of TLS itself."""

from typing import Final

STORE_KEYS: Final = (
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
"""Where the keys and certificates of a connection are from (``SslConfigs.RECONFIGURABLE_CONFIGS``)."""
CONTEXT_KEYS: Final = (
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    *STORE_KEYS,
)
"""What a context is made of."""
