"""Certificates for tests: an authority, and what it signs; the paths of PEM files come out."""

import datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """Signs certificates; `certificate` is the file that clients are given."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, _named(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        begun = _begun(self._name, self._name, self._key)
        authority = begun.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.certificate = folder / f"{name}.pem"
        self._write(self.certificate, authority)

    def signed(self, host: str) -> tuple[Path, Path]:
        """The files of a certificate of a host's name, and of its key, which we alone can read."""
        certificate_file, key_file = self._folder / f"{host}.crt", self._folder / f"{host}.key"
        key = ec.generate_private_key(ec.SECP256R1())
        begun = _begun(_named(host), self._name, key)
        names = x509.SubjectAlternativeName([x509.DNSName(host)])
        self._write(certificate_file, begun.add_extension(names, critical=False))
        key_file.touch(mode=0o600)
        pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        key_file.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
        return certificate_file, key_file

    def _write(self, file: Path, begun: x509.CertificateBuilder) -> None:
        signed = begun.sign(self._key, hashes.SHA256())
        file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _begun(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
    )
