"""The principal of a certificate is the name that Java gives it, to the letter: odd subjects, and others that
are drawn for each run.
"""

import base64
import random
import re
import subprocess
from pathlib import Path

import kafka_harness
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID as Oid

from barnabas.network.tls_principal import distinguished_name
from tls_certificates import Authority

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(120)]

KNOWN = [
    Oid.COMMON_NAME,
    Oid.LOCALITY_NAME,
    Oid.STATE_OR_PROVINCE_NAME,
    Oid.STREET_ADDRESS,
    Oid.ORGANIZATION_NAME,
    Oid.ORGANIZATIONAL_UNIT_NAME,
    Oid.DOMAIN_COMPONENT,
    Oid.USER_ID,
]
OTHERS = [Oid.TITLE, Oid.SERIAL_NUMBER, Oid.EMAIL_ADDRESS, Oid.SURNAME, x509.ObjectIdentifier("1.2.3.99.1")]
TEXTS = [
    "a", "plain name", " ", "   ", " a", "a ", "  a  b  ", "#", "#a", "a#b", "a,b", "a+b", 'a"b', "a\\b",
    "a<b>c;d", "a=b", "a/b", "\\", "\\\\", ",", " ,", "# ", "\u00e4\u00f6\u00fc", "\u4e2d\u6587",
    "\U0001f600", "e\u0301", "\u00a0a\u00a0", "a\tb", "a\nb", "\x7f", "\u200b", "*", "CN=x", "a" * 64,
]  # fmt: skip
"""At most 64 characters: a longer one is no name."""
KINDS = [_ASN1Type.UTF8String, _ASN1Type.IA5String, _ASN1Type.PrintableString, _ASN1Type.BMPString]
STRANGE = [_ASN1Type.T61String, _ASN1Type.UniversalString, _ASN1Type.VisibleString, _ASN1Type.NumericString]
PRINTABLE = re.compile(r"[A-Za-z0-9 '()+,./:=?-]*")


def attribute(oid, text, kind=None):
    return x509.NameAttribute(oid, text, kind)


def drawn(rng):
    """A subject of a few parts, some of which have several attributes."""

    def one():
        text = "".join(rng.choice(TEXTS)[:8] for _ in range(rng.randrange(1, 4)))
        kinds = KINDS if PRINTABLE.fullmatch(text) else KINDS[:2] if text.isascii() else KINDS[:1]
        return attribute(rng.choice([*KNOWN, *OTHERS]), text, rng.choice(kinds))

    parts = [
        x509.RelativeDistinguishedName({each.oid: each for each in (one() for _ in range(size))}.values())
        for size in rng.choices((1, 2, 3), (6, 2, 1), k=rng.randrange(1, 5))
    ]
    return x509.Name(parts)


def subjects(rng):
    for text in TEXTS:
        yield x509.Name([attribute(Oid.COUNTRY_NAME, "DE"), attribute(Oid.COMMON_NAME, text, KINDS[0])])
    for oid in (*KNOWN, *OTHERS):
        yield x509.Name([attribute(oid, "some one")])
    for kind in KINDS:
        yield x509.Name([attribute(Oid.COMMON_NAME, " a+b ", kind), attribute(Oid.TITLE, "x", kind)])
    for kind in STRANGE:
        for oid in (Oid.COMMON_NAME, Oid.TITLE):
            yield x509.Name([attribute(oid, "12 3", kind)])
    for kind in (KINDS[0], KINDS[3]):
        yield x509.Name([attribute(Oid.COMMON_NAME, "a\0b \0", kind)])
    yield x509.Name([attribute(Oid.COMMON_NAME, "\u4e2d\u00fcx", KINDS[3])])
    for _ in range(100):
        yield drawn(rng)


def test_the_name_of_a_certificate_is_javas():
    # pytest-randomly seeds this and prints the seed.
    authority = Authority()
    certificates = [
        authority.sign(subject=each).certificate.public_bytes(Encoding.DER)
        for each in subjects(random.Random(random.random()))
    ]
    source = Path(__file__).with_name("CertificateNames.java")
    done = subprocess.run(
        [kafka_harness.java(), str(source)],
        input=b"".join(base64.b64encode(each) + b"\n" for each in certificates),
        capture_output=True,
        check=True,
        timeout=100,
    )
    names = [base64.b64decode(line).decode() for line in done.stdout.splitlines()]
    assert len(names) == len(certificates)
    assert [distinguished_name(each) for each in certificates] == names
