"""What is used of Microsoft SEAL: CKKS modulo one prime, by way of TenSEAL, which is an extra.

Of ciphertexts and keys nothing crosses but residues modulo that prime. SEAL's own files are
compressed, so their length varies, and they name parameters that a sender could choose: the ones
that SEAL reads are put together here, around residues that were compared with the prime before.
"""

from __future__ import annotations

import os
import struct
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import RequestError

Residues = NDArray[np.uint64]


class Missing:
    """Stands in for TenSEAL where it is not installed, and says so when it is used."""

    def __getattr__(self, name: str) -> Any:
        raise RequestError(
            "the encryption ckks needs TenSEAL: pip install 'colonnade[ckks]', or take paillier"
        )


try:
    from tenseal import sealapi
except ImportError:
    sealapi = Missing()


class Ring:
    """Polynomials of a degree modulo the largest prime of so many bits that SEAL has for it. That
    their ciphertexts are as hard to break as a key of 128 bits is SEAL's own check.

    >>> ring = Ring(2048, modulus_bits=54)
    >>> key = ring.generate()
    >>> sent = ring.encrypt(ring.key(key), np.array([5.0, -7.0]), scale=2.0**20)
    >>> sent.shape, int(sent.max()) < ring.modulus
    ((2, 2048), True)
    >>> [round(v) for v in ring.decrypt(ring.key(key), sent, scale=2.0**20)[:3]]
    [5, -7, 0]
    """

    def __init__(self, degree: int, modulus_bits: int) -> None:
        parameters = sealapi.EncryptionParameters(sealapi.SCHEME_TYPE.CKKS)
        parameters.set_poly_modulus_degree(degree)
        primes = sealapi.CoeffModulus.Create(degree, [modulus_bits])
        parameters.set_coeff_modulus(primes)
        self._context = sealapi.SEALContext(parameters, True, sealapi.SEC_LEVEL_TYPE.TC128)
        # It raises where the context has found that the parameters are not secure.
        self._encoder = sealapi.CKKSEncoder(self._context)
        self.degree, self.modulus = degree, int(primes[0].value())

    def generate(self) -> Residues:
        """A new private key, from the operating system's randomness."""
        key = sealapi.KeyGenerator(self._context).secret_key()
        return _residues(key.data(), self.degree)

    def key(self, residues: Residues) -> Any:
        """SEAL's own form of a private key."""
        about = struct.pack("<4QQd", *self._context.key_parms_id(), self.degree, 1.0)
        key = sealapi.SecretKey()
        _read(lambda path: key.load(self._context, path), _file(about + _array(residues)))
        return key

    def encode(self, slots: Sequence[complex], scale: float) -> Residues:
        """The polynomial of which the slots hold so many times these numbers, in [degree]
        residues."""
        return _residues(self._encode(slots, scale), self.degree)

    def _encode(self, slots: Sequence[complex], scale: float) -> Any:
        polynomial = sealapi.Plaintext()
        self._encoder.encode(slots, scale, polynomial)
        return polynomial

    def encrypt(self, key: Any, slots: NDArray[np.float64], scale: float) -> Residues:
        """A ciphertext under a private key: the residues of two polynomials."""
        ciphertext = sealapi.Ciphertext()
        encryptor = sealapi.Encryptor(self._context, key)
        encryptor.encrypt_symmetric(self._encode(slots.tolist(), scale), ciphertext)
        return _residues(ciphertext, 2 * self.degree).reshape(2, self.degree)

    def decrypt(self, key: Any, residues: Residues, scale: float) -> NDArray[np.float64]:
        """What the slots hold."""
        ids, in_ntt_form, correction = self._context.first_parms_id(), True, 1
        sizes = (len(residues), self.degree, 1)
        about = struct.pack("<4Q?3QdQ", *ids, in_ntt_form, *sizes, scale, correction)
        ciphertext, polynomial = sealapi.Ciphertext(), sealapi.Plaintext()
        _read(lambda path: ciphertext.load(self._context, path), _file(about + _array(residues)))
        sealapi.Decryptor(self._context, key).decrypt(ciphertext, polynomial)
        return np.array(self._encoder.decode_double(polynomial))


@cache
def ring_of(degree: int, modulus_bits: int) -> Ring:
    """The ring, of which the tables are made once."""
    return Ring(degree, modulus_bits)


def _residues(polynomials: Any, count: int) -> Residues:
    # The array belongs to the polynomials, which the caller holds until this returns.
    array = polynomials.dyn_array()
    return np.fromiter(map(array.__getitem__, range(count)), np.uint64, count)


def _file(content: bytes) -> bytes:
    """As SEAL writes it where it does not compress."""
    kind = sealapi.Serialization.SEALHeader()
    known = (kind.magic, kind.header_size, kind.version_major, kind.version_minor)
    size = kind.header_size + len(content)
    return struct.pack("<HBBBBHQ", *known, 0, 0, size) + content


def _array(residues: Residues) -> bytes:
    return _file(struct.pack("<Q", residues.size) + residues.astype("<u8").tobytes())


def _read(load: Callable[[str], None], content: bytes) -> None:
    """SEAL reads files only. A private key goes through them too, so where the system has files in
    memory it is one of those."""
    if sys.platform == "linux":
        place = os.memfd_create("seal")
        path = f"/proc/self/fd/{place}"
    else:
        place, path = tempfile.mkstemp()
    try:
        with open(place, "wb") as file:  # noqa: PTH123 - it has no path
            file.write(content)
            file.flush()
            load(path)
    finally:
        if sys.platform != "linux":
            os.unlink(path)  # noqa: PTH108
