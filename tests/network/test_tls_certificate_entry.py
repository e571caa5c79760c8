"""Which certificate may follow another on a listener that is open."""

import pytest
from cryptography.x509.oid import NameOID

from barnabas.core.errors import ConfigError
from barnabas.network.tls_certificate_entry import CertificateEntry
from tls_certificates import Authority

ACME = [
    (NameOID.COUNTRY_NAME, "DE"),
    (NameOID.ORGANIZATION_NAME, "Acme"),
    (NameOID.COMMON_NAME, "broker-1"),
]


def entry(*names, subject=ACME):
    return CertificateEntry.of_chain(Authority().sign(*names, subject=subject).chain_pem.encode())


def follow(old, new, *, dn=False, san=False):
    old.ensure_followed_by(new, dn_may_change=dn, san_may_change=san)


def test_another_key_of_another_authority_with_the_same_names_may_follow():
    follow(entry("localhost", "127.0.0.1"), entry("127.0.0.1", "localhost"))


def test_more_names_may_follow_and_fewer_not():
    few, many = entry("localhost"), entry("localhost", "127.0.0.1")
    follow(few, many)
    with pytest.raises(ConfigError) as refused:
        follow(many, few)
    assert str(refused.value) == (
        "Validation of dynamic config update of SSLFactory failed: Keystore SubjectAltNames do not match:  "
        "existing={SAN=[[2, localhost], [7, 127.0.0.1]]}, new={SAN=[[2, localhost]]}"
    )
    follow(many, few, san=True)
    with pytest.raises(ConfigError, match="SubjectAltNames"):
        follow(many, few, dn=True)


def test_another_subject_may_not_follow_unless_it_is_allowed():
    old, new = entry(), entry(subject=[(NameOID.COMMON_NAME, "broker-2")])
    with pytest.raises(ConfigError) as refused:
        follow(old, new)
    assert str(refused.value) == (
        "Validation of dynamic config update of SSLFactory failed: "
        "Keystore DistinguishedName does not match:  "
        "existing={DN=CN=broker-1, O=Acme, C=DE}, new={DN=CN=broker-2}"
    )
    with pytest.raises(ConfigError, match="DistinguishedName"):
        follow(old, new, san=True)
    follow(old, new, dn=True)


def test_case_and_spaces_make_no_other_subject_but_order_does():
    follow(entry(), entry(subject=[(oid, value.upper()) for oid, value in ACME]))
    spaced = [(NameOID.COMMON_NAME, "one  two")]
    follow(entry(subject=spaced), entry(subject=[(NameOID.COMMON_NAME, "ONE two")]))
    with pytest.raises(ConfigError, match="DistinguishedName"):
        follow(entry(), entry(subject=ACME[::-1]))


def test_what_is_no_certificate_is_one_line():
    with pytest.raises(ConfigError, match="cannot be read"):
        CertificateEntry.of_chain(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with pytest.raises(ConfigError, match="cannot be read"):
        CertificateEntry.of_chain(b"nothing")
