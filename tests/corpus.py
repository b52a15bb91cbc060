"""Real published submissions, for tests and benchmarks that have them.

They are found through the environment variable ASSAY_CORPUS (default: ``../shared`` beside the
repository) and unpacked once into a cache outside the repository. Nothing of them is committed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def corpus_root() -> Path | None:
    """The folder with ``corpus/`` and ``golden/``; None where there is none."""
    given = os.environ.get("ASSAY_CORPUS")
    root = Path(given) if given else ROOT.parent / "shared"
    return root.resolve() if (root / "corpus").is_dir() else None


FOLDERS = ("corpus", "corpus2")
"""Whole submissions; results rebuilt from single published files, with placeholders in them."""


def _archives(folders: tuple[str, ...]) -> dict[str, Path]:
    root = corpus_root()
    if root is None:
        return {}
    found = [path for folder in folders for path in (root / folder).glob("v*.tar.xz")]
    return {path.name.removesuffix(".tar.xz"): path for path in found}


def corpus_rounds(*, rebuilt: bool = False) -> list[str]:
    """The rounds of which there are submissions, oldest first; ``rebuilt``: those of corpus2 too."""
    names = _archives(FOLDERS if rebuilt else FOLDERS[:1])
    return sorted(names, key=lambda n: [int(part) for part in n[1:].split(".")])


def is_rebuilt(name: str) -> bool:
    """Whether a round's tree holds placeholders, on which findings prove nothing."""
    return name in _archives(FOLDERS[1:])


def golden_of(name: str) -> Path:
    """What was published of a round: ``corpus2/golden`` replaces ``golden``."""
    root = corpus_root()
    assert root is not None
    newer = root / "corpus2" / "golden" / f"{name}.jsonl"
    return newer if newer.is_file() else root / "golden" / f"{name}.jsonl"


_BASE = os.environ.get("XDG_CACHE_HOME")
"""As the user has it: tests have a cache folder of their own."""


def _cache() -> Path:
    folder = Path(_BASE) if _BASE else Path(tempfile.gettempdir())
    return folder / f"assay-corpus-{os.getuid() if hasattr(os, 'getuid') else 0}"


def unpacked(name: str) -> Path:
    """The tree of one round. Safe when several processes ask at once."""
    if corpus_root() is None:
        raise FileNotFoundError("no corpus: set ASSAY_CORPUS to a folder that holds corpus/")
    archive = _archives(FOLDERS)[name]
    stamp = hashlib.sha256(f"{archive}{archive.stat().st_size}".encode()).hexdigest()[:12]
    target = _cache() / f"{name}-{stamp}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=target.parent))
    with tarfile.open(archive) as packed:
        packed.extractall(made, filter="data")
    try:
        made.rename(target)
    except OSError:
        # Another process was faster; its tree is as good.
        shutil.rmtree(made, ignore_errors=True)
    return target
