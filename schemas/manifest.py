"""The manifest of a packed submission: every file of the tree with its size and SHA-256."""

from __future__ import annotations

import msgspec

FORMAT = "assay-manifest"
FORMAT_VERSION = 1


class Packed(msgspec.Struct, frozen=True):
    """One file. ``bytes`` is its size, ``sha256`` 64 hex digits in lower case."""

    path: str
    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What an archive holds.

    archive, sha256, bytes: the archive's name, hash and size. round: whose rules the tree was checked
    by. checked: whether that check found no error. files: in the order of their paths.
    """

    format: str = FORMAT
    format_version: int = FORMAT_VERSION
    archive: str
    sha256: str
    bytes: int
    round: str
    checked: bool
    files: list[Packed]


class BadManifest(ValueError):
    """A file is not a manifest, or not one of a version that is understood."""


def encode(manifest: Manifest) -> bytes:
    """The manifest as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def decode(data: bytes) -> Manifest:
    """A manifest from JSON. Raises BadManifest."""
    try:
        found = msgspec.json.decode(data, type=Manifest)
    except msgspec.DecodeError as error:
        raise BadManifest(f"not a manifest: {error}") from error
    if found.format != FORMAT or found.format_version != FORMAT_VERSION:
        raise BadManifest(
            f"found {found.format} of version {found.format_version}; expected {FORMAT} of version "
            f"{FORMAT_VERSION}"
        )
    return found
