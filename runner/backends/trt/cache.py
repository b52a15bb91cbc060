"""Engines and timings on disk: found by key, verified, replaced with a reason.

An engine is code that TensorRT executes, so the folder belongs to its user alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.backends.trt.plan import cache_key
from runner.errors import BackendError
from schemas.writing import replace_file


@dataclass(frozen=True)
class Lookup:
    """`engine` is None where it must be built; `reason` says why, or that it was found."""

    engine: bytes | None
    reason: str


def default_folder() -> Path:
    """$XDG_CACHE_HOME/assay/tensorrt, or its usual place."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    return root / "assay" / "tensorrt"


class EngineCache:
    """A folder of `<key>.engine` beside `<key>.json`, which says what the engine depends on.

    Raises:
        BackendError: the folder cannot be made or belongs to somebody else.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            status = folder.stat()
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise BackendError(
                f"{folder}: the engine cache cannot be written ({error.strerror or error}). "
                "Choose another folder with the option cache, or set XDG_CACHE_HOME."
            ) from error
        if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):
            raise BackendError(
                f"{folder}: found a folder that others can write; an engine is code, so asked for "
                "one that only you can. Remove the others' rights (chmod go-w) or choose another "
                "with the option cache."
            )

    def find(self, facts: Mapping[str, Any]) -> Lookup:
        """The engine for these facts, or why there is none."""
        key = cache_key(facts)
        manifest = self._manifest(self.folder / f"{key}.json")
        try:
            engine = (self.folder / f"{key}.engine").read_bytes()
        except FileNotFoundError:
            return Lookup(None, self._nearest(facts))
        except OSError as error:
            return Lookup(None, f"the stored engine cannot be read ({error.strerror})")
        if manifest is None:
            return Lookup(None, "the stored engine has no readable manifest")
        if manifest.get("facts") != json.loads(json.dumps(facts)):
            return Lookup(None, "the stored engine's manifest speaks of another engine")
        if manifest.get("sha256") != hashlib.sha256(engine).hexdigest():
            return Lookup(None, "the stored engine differs from its SHA-256: it was damaged")
        return Lookup(engine, "found in the cache")

    def store(self, facts: Mapping[str, Any], engine: bytes) -> None:
        """Keep an engine; the manifest comes last, so that half a pair is never taken for one."""
        key = cache_key(facts)
        manifest = {
            "facts": dict(facts),
            "sha256": hashlib.sha256(engine).hexdigest(),
            "bytes": len(engine),
        }
        (self.folder / f"{key}.json").unlink(missing_ok=True)
        self._write(f"{key}.engine", engine)
        self._write(f"{key}.json", (json.dumps(manifest, indent=1) + "\n").encode())

    def discard(self, facts: Mapping[str, Any]) -> None:
        """Remove an engine that TensorRT would not take."""
        key = cache_key(facts)
        for suffix in (".json", ".engine"):
            (self.folder / f"{key}{suffix}").unlink(missing_ok=True)

    def keep(self, facts: Mapping[str, Any], suffix: str, text: str) -> Path:
        """Put a text beside an engine."""
        name = f"{cache_key(facts)}.{suffix}"
        self._write(name, text.encode())
        return self.folder / name

    def timings(self, tensorrt: str, device: str) -> bytes:
        """What earlier builds measured; empty where there is nothing sound."""
        try:
            data = self._timing_file(tensorrt, device).read_bytes()
        except OSError:
            return b""
        digest, _, content = data.partition(b"\n")
        return content if hashlib.sha256(content).hexdigest().encode() == digest else b""

    def store_timings(self, tensorrt: str, device: str, content: bytes) -> None:
        """Keep a build's measurements; failing to only costs time later."""
        digest = hashlib.sha256(content).hexdigest().encode()
        with contextlib.suppress(BackendError):
            self._write(self._timing_file(tensorrt, device).name, digest + b"\n" + content)

    def _timing_file(self, tensorrt: str, device: str) -> Path:
        name = re.sub(r"[^A-Za-z0-9_.-]+", "-", f"timing-{tensorrt}-{device}")
        return self.folder / f"{name}.cache"

    def _nearest(self, facts: Mapping[str, Any]) -> str:
        """What changed since the engine of the same model that resembles most was built."""
        wanted = json.loads(json.dumps(facts))
        best: list[str] | None = None
        for path in sorted(self.folder.glob("*.json")):
            manifest = self._manifest(path)
            stored = manifest.get("facts") if manifest else None
            if not isinstance(stored, dict) or stored.get("model") != wanted.get("model"):
                continue
            changed = [name for name in wanted if stored.get(name) != wanted[name]]
            told = [
                f"{name} was {stored.get(name)!r}, is {wanted[name]!r}"
                if name != "shapes"
                else name
                for name in changed
            ]
            if best is None or len(told) < len(best):
                best = told
        if not best:
            return "there is no engine of this model yet"
        return f"something changed since one was built: {'; '.join(best)}"

    def _manifest(self, path: Path) -> dict[str, Any] | None:
        try:
            manifest = json.loads(path.read_bytes())
        except (OSError, ValueError):
            return None
        return manifest if isinstance(manifest, dict) else None

    def _write(self, name: str, data: bytes) -> None:
        """Whole or not at all, also where two processes write the same."""
        place = self.folder / name
        try:
            replace_file(place, data)
        except OSError as error:
            raise BackendError(
                f"{place}: cannot be written ({error.strerror or error}). Free some space or "
                "choose another folder with the option cache."
            ) from error
