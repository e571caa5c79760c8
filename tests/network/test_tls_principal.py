"""Names of certificates as Java writes them, and the rules that make principals of them."""

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import Name, NameAttribute
from cryptography.x509.name import _ASN1Type as Type
from cryptography.x509.oid import NameOID as Oid

from barnabas.core.errors import ConfigError
from barnabas.network.errors import AuthenticationError
from barnabas.network.tls_principal import Mapper, distinguished_name
from tls_certificates import Authority

AUTHORITY = Authority()


def certificate(*subject):
    named = Name([NameAttribute(*each) for each in subject])
    return AUTHORITY.sign(subject=named).certificate.public_bytes(Encoding.DER)


@pytest.mark.parametrize(
    ("subject", "name"),
    [
        # What X500Principal.getName() of a Java 17 wrote for these.
        (
            [
                (Oid.COUNTRY_NAME, "DE"),
                (Oid.ORGANIZATION_NAME, 'A, "B" + C; <D> = E\\'),
                (Oid.COMMON_NAME, " lead#trail "),
            ],
            r"CN=\ lead\#trail\ ,O=A\, \"B\" \+ C\; \<D\> \= E\\,C=DE",
        ),
        (
            [
                (Oid.DOMAIN_COMPONENT, "org"),
                (Oid.DOMAIN_COMPONENT, "x"),
                (Oid.USER_ID, "u1"),
                (Oid.STREET_ADDRESS, "s 1"),
                (Oid.STATE_OR_PROVINCE_NAME, "ST"),
                (Oid.LOCALITY_NAME, "Mün中chen"),
                (Oid.ORGANIZATIONAL_UNIT_NAME, "a  b"),
                (Oid.TITLE, "Dr"),
                (Oid.SERIAL_NUMBER, "12"),
            ],
            "2.5.4.5=#13023132,2.5.4.12=#0c024472,OU=a  b,L=Mün中chen,ST=ST,STREET=s 1,UID=u1,DC=x,DC=org",
        ),
        ([(Oid.EMAIL_ADDRESS, "a@b.c")], "1.2.840.113549.1.9.1=#16056140622e63"),
        ([(Oid.COMMON_NAME, "a b ", Type.BMPString)], r"CN=\00a\00 \00b\00\ "),
        ([(Oid.COMMON_NAME, "a\0b", Type.UTF8String)], r"CN=a\00b"),
        ([(Oid.COMMON_NAME, "12", Type.NumericString)], "CN=#12023132"),
    ],
)
def test_a_name_is_javas(subject, name):
    assert distinguished_name(certificate(*subject)) == name


ALICE = [(Oid.COUNTRY_NAME, "DE"), (Oid.ORGANIZATION_NAME, "Acme"), (Oid.COMMON_NAME, "Alice")]


@pytest.mark.parametrize(
    ("rules", "principal"),
    [
        ("DEFAULT", "CN=Alice,O=Acme,C=DE"),
        ("", "CN=Alice,O=Acme,C=DE"),
        (r"RULE:^CN=(.*?),O=(.*?),.*$/$1@$2/L", "alice@acme"),
        (r"RULE:^CN=(.*?),.*$/$1/U", "ALICE"),
        (r"RULE:^CN=Bob,.*$/bob/, RULE:^CN=([^,]*),.*$/$1/ , DEFAULT", "Alice"),
        (r"RULE:CN=Alice/x/,DEFAULT", "CN=Alice,O=Acme,C=DE"),
        (r"RULE:^CN=(.*?),.*$/$1-$2/", "Alice-$2"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_counts(rules, principal):
    assert Mapper(rules).principal_of(certificate(*ALICE)) == f"User:{principal}"


def test_nobody_is_let_in_where_no_rule_applies():
    with pytest.raises(AuthenticationError, match="No rules apply to CN=Alice,O=Acme,C=DE"):
        Mapper(r"RULE:^CN=Bob$/bob/").principal_of(certificate(*ALICE))
    with pytest.raises(AuthenticationError, match="cannot be read"):
        Mapper("DEFAULT").principal_of(b"\x30\x03junk")


@pytest.mark.parametrize(
    "rules", ["RULE:", "RULE:a/b", "RULE:a/b/X", "NONE", "RULE:(/b/", "DEFAULT RULE:a/b/"]
)
def test_rules_that_are_none(rules):
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        Mapper(rules)
