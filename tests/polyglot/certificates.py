"""An authority made for one case, and what it signs. Keys are elliptic: they cost nothing."""

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_DAY = datetime.timedelta(days=1)


class Authority:
    """Signs certificates for servers and clients. All files lie in one folder."""

    def __init__(self, folder, name="authority"):
        self._folder, self._name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(f"ackgate test {name}")
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        self._certificate = (
            _builder(subject, subject, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.file = self._write(f"{name}.pem", _pem(self._certificate))

    def server(self, *names):
        """Files of a certificate for these names and addresses, and of its key."""
        return self._issue("server", names, ExtendedKeyUsageOID.SERVER_AUTH)

    def client(self, name):
        """Files of a client's certificate and of its key."""
        return self._issue("client", [name], ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issue(self, role, names, usage):
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _builder(_subject(names[0]), self._certificate.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.SubjectAlternativeName([_name(n) for n in names]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        # PKCS #8, which every language reads.
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        stem = f"{self._name}-{role}"
        return self._write(f"{stem}.pem", _pem(certificate)), self._write(f"{stem}.key", secret)

    def _write(self, name, content):
        path = self._folder / name
        path.write_bytes(content)
        # A key is for its owner alone.
        path.chmod(0o600)
        return str(path)


def _subject(name):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _name(text):
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _builder(subject, issuer, public):
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
    )


def _pem(certificate):
    return certificate.public_bytes(serialization.Encoding.PEM)
