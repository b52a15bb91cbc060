"""Engines on disk: found, verified, refused and replaced with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runner.backends.trt.cache import EngineCache, default_folder
from runner.backends.trt.plan import cache_key
from runner.errors import BackendError

FACTS: dict[str, Any] = {
    "model": "ab",
    "TensorRT": "11.4",
    "precision": "fp16",
    "shapes": {"profiles": [[1, 1, 1]]},
}


@pytest.fixture
def cache(tmp_path: Path) -> EngineCache:
    return EngineCache(tmp_path / "engines")


def test_what_is_stored_is_found(cache: EngineCache) -> None:
    assert cache.find(FACTS).engine is None
    assert cache.find(FACTS).reason == "there is no engine of this model yet"
    cache.store(FACTS, b"engine")
    assert cache.find(FACTS).engine == b"engine"
    # Another process finds it too, and the folder is the user's alone.
    again = EngineCache(cache.folder)
    assert again.find(dict(reversed(FACTS.items()))).engine == b"engine"
    assert cache.folder.stat().st_mode & 0o077 == 0
    assert not list(cache.folder.glob(".*"))


def test_the_reason_says_what_changed(cache: EngineCache) -> None:
    cache.store(FACTS, b"engine")
    newer = cache.find({**FACTS, "TensorRT": "11.5"})
    assert newer.engine is None
    assert newer.reason == ("something changed since one was built: TensorRT was '11.4', is '11.5'")
    shapes = cache.find({**FACTS, "shapes": {"profiles": []}})
    assert shapes.reason == "something changed since one was built: shapes"
    # Of several, the one that resembles most; of another model, none.
    cache.store({**FACTS, "TensorRT": "11.5", "precision": "int8"}, b"other")
    assert "precision" not in cache.find({**FACTS, "TensorRT": "11.5"}).reason
    assert cache.find({**FACTS, "model": "cd"}).reason == "there is no engine of this model yet"


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ("engine", "differs from its SHA-256"),
        ("cut", "differs from its SHA-256"),
        ("no manifest", "no readable manifest"),
        ("garbage", "no readable manifest"),
        ("other facts", "speaks of another engine"),
        ("folder", "cannot be read"),
    ],
)
def test_damage_is_found_and_mended(cache: EngineCache, damage: str, reason: str) -> None:
    cache.store(FACTS, b"engine")
    key = cache_key(FACTS)
    engine, manifest = cache.folder / f"{key}.engine", cache.folder / f"{key}.json"
    match damage:
        case "engine":
            engine.write_bytes(b"malign")
        case "cut":
            engine.write_bytes(b"")
        case "no manifest":
            manifest.unlink()
        case "garbage":
            manifest.write_text("[")
        case "other facts":
            content = json.loads(manifest.read_text())
            content["facts"]["precision"] = "fp32"
            manifest.write_text(json.dumps(content))
        case "folder":
            engine.unlink()
            engine.mkdir()
    found = cache.find(FACTS)
    assert found.engine is None and reason in found.reason
    if damage != "folder":
        cache.store(FACTS, b"new")
        assert cache.find(FACTS).engine == b"new"


def test_a_discarded_engine_is_gone(cache: EngineCache) -> None:
    cache.store(FACTS, b"engine")
    cache.discard(FACTS)
    cache.discard(FACTS)
    assert list(cache.folder.iterdir()) == []


def test_timings_are_kept_by_version_and_device_and_verified(cache: EngineCache) -> None:
    assert cache.timings("11.4", "NVIDIA H200/x") == b""
    cache.store_timings("11.4", "NVIDIA H200/x", b"times")
    assert cache.timings("11.4", "NVIDIA H200/x") == b"times"
    assert cache.timings("11.5", "NVIDIA H200/x") == b""
    (file,) = cache.folder.glob("timing-*")
    assert file.name == "timing-11.4-NVIDIA-H200-x.cache"
    file.write_bytes(file.read_bytes() + b"!")
    assert cache.timings("11.4", "NVIDIA H200/x") == b""


def test_a_folder_that_others_can_write_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(BackendError, match=r"others can write.*chmod go-w"):
        EngineCache(shared)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BackendError, match=r"cannot be written.*option cache"):
        EngineCache(tmp_path / "file" / "engines")


def test_the_default_folder_follows_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "assay" / "tensorrt"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_folder() == Path.home() / ".cache" / "assay" / "tensorrt"
