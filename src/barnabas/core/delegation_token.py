"""Delegation tokens as values (KIP-48): who may act as whom, until when, and the secret that proves it.

A token's secret is HMAC-SHA-512 of its id with the cluster's ``delegation.token.secret.key``, so every broker
knows it without having it stored. Who logs in with a token says its id as the user, and the secret in base64
as the password of SCRAM.
"""

import base64
import hmac
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from barnabas.core.scram import ScramCredential, ScramMechanism

USER: Final = "User"
"""The one type of principals that tokens are for."""


@dataclass(frozen=True, slots=True)
class TokenInformation:
    """What is known of a token (``TokenInformation``). Principals are texts, ``User:alice``; times are those
    of the wall clock in milliseconds.
    """

    token_id: str
    owner: str
    requester: str
    """Who asked for it."""
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    """When it ends unless it is renewed."""
    max_ms: int
    """When it ends in any case."""

    def concerns(self, principal: str) -> bool:
        """Whether it is the principal's own (``ownerOrRenewer``)."""
        return principal in (self.owner, self.requester) or principal in self.renewers

    def may_be_renewed_by(self, principal: str) -> bool:
        """Whether the principal may change when it ends (``allowedToRenew``)."""
        return principal == self.owner or principal in self.renewers

    @property
    def owner_is_user(self) -> bool:
        """Whether who logs in with it is its owner: everybody who has logged in is a user. Kafka looks at
        renewers only, and with a token for ``Group:alice`` lets ``User:alice`` in.
        """
        return self.owner.startswith(f"{USER}:")

    def expired(self, now_ms: float) -> bool:
        return self.max_ms < now_ms or self.expires_ms < now_ms


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token with its secret."""

    information: TokenInformation
    hmac: bytes = field(repr=False)


class TokenCredential(NamedTuple):
    """What a broker needs to let somebody in with a token."""

    scram: ScramCredential
    owner: str
    """The name of the principal that is let in."""
    expires_ms: int


def secret_of(token_id: str, key: str) -> bytes:
    """The secret of a token (``createHmac``)."""
    return hmac.digest(key.encode(), token_id.encode(), "sha512")


def credential_of(mechanism: ScramMechanism, information: TokenInformation, secret: bytes) -> TokenCredential:
    """The credential of a token (``prepareScramCredentials``); 1 to 3 ms of work.

    The salt is made of the secret, not drawn: nothing here is random, and the password is no one's choice.
    """
    salt = mechanism.hmac(secret, b"salt")[:16]
    password = base64.b64encode(secret).decode()
    scram = ScramCredential.of_password(mechanism, password, salt)
    return TokenCredential(scram, information.owner.partition(":")[2], information.expires_ms)
