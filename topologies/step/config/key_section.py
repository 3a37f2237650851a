"""The section that says how the key of an event is computed (UH-5 to UH-8)."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, PlainValidator

from topologies.io.documents.showing import brief
from topologies.step.config.step_values import Place, Section, Texts

ALGORITHMS = {
    "MD5": "md5",
    "SHA-1": "sha1",
    "SHA-224": "sha224",
    "SHA-256": "sha256",
    "SHA-384": "sha384",
    "SHA-512": "sha512",
    "SHA3-224": "sha3_224",
    "SHA3-256": "sha3_256",
    "SHA3-384": "sha3_384",
    "SHA3-512": "sha3_512",
}
"""Java's names of hash algorithms, and Python's."""

_LOOSELY = {"".join(filter(str.isalnum, name)).lower(): name for name in ALGORITHMS} | {"sha": "SHA-1"}


def _algorithm(value: object) -> str:
    """Java's name of an algorithm, case-insensitive; SHA256 is accepted for SHA-256."""
    name = _LOOSELY.get(value.replace("-", "").replace("_", "").lower()) if isinstance(value, str) else None
    if name is None:
        raise ValueError(f"expected one of {', '.join(ALGORITHMS)}, found {brief(value)}")
    return name


class MessageKey(Section):
    """The key is that of the message."""

    type: Literal["key"]


class HeadersKey(Section):
    """The key is the values of these headers, separated by | (UH-6)."""

    type: Literal["headers"]
    keys: Texts = Field(description="the headers whose values make the key: keys: [region, shop]")


class HashKey(Section):
    """The key is the hash of the message's bytes in hexadecimal digits (UH-7)."""

    type: Literal["hash"]
    algorithm: Annotated[str, PlainValidator(_algorithm)] = "SHA-256"

    @property
    def hashlib_name(self) -> str:
        """Python's name of the algorithm."""
        return ALGORITHMS[self.algorithm]


class DslKey(Place):
    """The key is what the rules return (UH-8)."""

    type: Literal["dsl"]


KeySection: TypeAlias = Annotated[MessageKey | HeadersKey | HashKey | DslKey, Field(discriminator="type")]
