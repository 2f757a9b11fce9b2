"""The key files that sign cluster tokens.

A folder of `<made>-<id>.pem` files (RSA, PKCS #8), `made` being a UTC stamp such as ``20261130T030000Z`` and `id` the first
sixteen hex digits of the public key's SHA-256: the name alone tells which key signs and which are still published.
Guarantees: the newest key signs; a former one stays published until `overlap` after its successor was made, longer than
any token it signed can live; files are 0600 in a folder of 0700 and are written whole or not at all. Public keys leave
this module as key objects and as a JWKS, never as bytes that another algorithm could take for its secret.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, generate_private_key

ALGORITHM = "RS256"
KEY_BITS = 3072
_STAMP = "%Y%m%dT%H%M%SZ"
_NAME = re.compile(r"(?P<made>\d{8}T\d{6}Z)-(?P<id>[0-9a-f]{16})\.pem")


class NoKeyError(Exception):
    """The folder has no key that can sign; `manage.py bootstrap` makes one."""


@dataclass(frozen=True)
class SigningKey:
    """A private key and when it was made."""

    private: RSAPrivateKey
    made_at: datetime

    @cached_property
    def kid(self) -> str:
        """The key's id: its stamp and the beginning of its fingerprint."""
        der = self.public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        return f"{self.made_at.strftime(_STAMP)}-{hashlib.sha256(der).hexdigest()[:16]}"

    @property
    def public(self) -> RSAPublicKey:
        """The half that may be shown."""
        return self.private.public_key()

    def as_jwk(self) -> dict[str, str]:
        """The public key as RFC 7517 writes it."""
        numbers = self.public.public_numbers()
        return {
            "kty": "RSA",
            "use": "sig",
            "alg": ALGORITHM,
            "kid": self.kid,
            "n": _base64url(numbers.n),
            "e": _base64url(numbers.e),
        }


@dataclass(frozen=True)
class KeyRing:
    """The keys of a folder, newest first."""

    keys: tuple[SigningKey, ...]

    @property
    def signing(self) -> SigningKey:
        """The key that signs. Raises NoKeyError."""
        if not self.keys:
            raise NoKeyError("there is no signing key")
        return self.keys[0]

    def published(self, *, at: datetime, overlap: timedelta) -> Mapping[str, SigningKey]:
        """The keys that verify at a time, by id: the newest, and each whose successor is younger than `overlap`."""
        kept = self.keys[:1]
        for successor, key in zip(self.keys, self.keys[1:], strict=False):
            if at - successor.made_at <= overlap:
                kept = (*kept, key)
        return {key.kid: key for key in kept}

    def as_jwks(self, *, at: datetime, overlap: timedelta) -> dict[str, Any]:
        """What `/.well-known/gshare-internal-jwks.json` answers."""
        return {"keys": [key.as_jwk() for key in self.published(at=at, overlap=overlap).values()]}


def read(folder: Path) -> KeyRing:
    """The keys of a folder; none where it does not exist. Files of other names are not looked at."""
    names = sorted((path for path in _files(folder)), key=lambda path: path.name, reverse=True)
    return KeyRing(tuple(_load(path) for path in names))


def ensure(folder: Path, *, at: datetime) -> bool:
    """Make the first key where there is none; True when it did."""
    if _files(folder):
        return False
    rotate(folder, at=at)
    return True


def rotate(folder: Path, *, at: datetime) -> SigningKey:
    """Make a new key, which signs from now on; former ones stay for the overlap."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = SigningKey(
        generate_private_key(public_exponent=65537, key_size=KEY_BITS), at.astimezone(UTC).replace(microsecond=0)
    )
    pem = key.private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    write_private(folder / f"{key.kid}.pem", pem)
    return key


def prune(folder: Path, *, at: datetime, overlap: timedelta) -> list[str]:
    """Delete the files of keys that are published no more; their ids."""
    ring = read(folder)
    kept = ring.published(at=at, overlap=overlap)
    gone = [key.kid for key in ring.keys if key.kid not in kept]
    for kid in gone:
        (folder / f"{kid}.pem").unlink(missing_ok=True)
    return gone


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner reads, whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o600)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.glob("*.pem") if _NAME.fullmatch(path.name)] if folder.is_dir() else []


def _load(path: Path) -> SigningKey:
    match = _NAME.fullmatch(path.name)
    if match is None:
        raise ValueError(f"{path.name} is not the name of a signing key")
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, RSAPrivateKey):
        raise TypeError(f"{path.name} is not an RSA key")
    found = SigningKey(key, datetime.strptime(match["made"], _STAMP).replace(tzinfo=UTC))
    if found.kid != path.stem:
        raise ValueError(f"{path.name} holds another key than its name says")
    return found


def _base64url(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes((number.bit_length() + 7) // 8)).rstrip(b"=").decode()
