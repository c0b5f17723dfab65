"""A small certificate authority of one's own: enough for tests, a first use, and servers that only we talk to."""

import datetime
import ipaddress
from collections.abc import Iterable
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from infra import clock
from infra.embedded.store import write

CA_DAYS = 3650
DAYS = 397
RENEW_DAYS = 30
"""A certificate that ends sooner is made again."""
LOCAL = ("localhost", "127.0.0.1")


class Authority:
    """Kept in a directory: `ca.pem`, which everybody may have, and `ca-key.pem`, which only this needs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (directory / "ca-key.pem").exists():
            self._found()
        self._key = _read_key(directory / "ca-key.pem")
        self._certificate = x509.load_pem_x509_certificate((directory / "ca.pem").read_bytes())

    def ensure(self, name: str, hosts: Iterable[str]) -> bool:
        """`NAME.pem` and `NAME-key.pem`, for servers and clients alike. False where they were there and hold on."""
        wanted = list(dict.fromkeys([*hosts, name, *LOCAL]))
        file = self._directory / f"{name}.pem"
        if file.exists() and self._serves(x509.load_pem_x509_certificate(file.read_bytes()), wanted):
            return False
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([_general(host) for host in wanted])
        builder = _builder(name, self._certificate.subject, key, DAYS).add_extension(names, critical=False)
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = builder.add_extension(usage, critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        certificate = builder.add_extension(issuer, critical=False).sign(self._key, hashes.SHA256())
        _write(self._directory, name, key, certificate)
        return True

    def _found(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name("Cloche private CA")
        builder = _builder("Cloche private CA", subject, key, CA_DAYS)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_signs_only(), critical=True)
        identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        certificate = builder.add_extension(identifier, critical=False).sign(key, hashes.SHA256())
        _write(self._directory, "ca", key, certificate)

    def _serves(self, certificate: x509.Certificate, hosts: list[str]) -> bool:
        left = certificate.not_valid_after_utc - clock.now()
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return left.days > RENEW_DAYS and set(names) >= {_general(host) for host in hosts}


def _builder(name: str, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int) -> x509.CertificateBuilder:
    now = clock.now()
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Another machine's clock may be behind ours.
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _signs_only() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return x509.DNSName(host)


def _read_key(file: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(file.read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError(f"{file} is no key of an elliptic curve")
    return key


def _write(directory: Path, name: str, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
    """The certificate last: where it is, its key is too."""
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write(directory / f"{name}-key.pem", secret.decode())
    write(directory / f"{name}.pem", certificate.public_bytes(serialization.Encoding.PEM).decode())
