"""The container files and scripts: linted where the linters are, and whole."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
IMAGES = ("Dockerfile", "Dockerfile.nvidia")
SCRIPTS = (".ci/run", "tests/gpu/check.sh", "docs/examples/assay.sbatch")


def tool(name: str) -> str:
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    return found or pytest.skip(f"{name} is not installed (make lint installs it where it can)")


def sources(name: str) -> set[str]:
    """What an image copies from the repository."""
    found = set()
    for line in (ROOT / name).read_text().splitlines():
        if line.startswith("COPY ") and "--from=" not in line:
            found |= set(line.split()[1:-1])
    return found


@pytest.mark.parametrize("name", IMAGES)
def test_hadolint(name: str) -> None:
    done = subprocess.run([tool("hadolint"), name], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", SCRIPTS)
def test_shellcheck(name: str) -> None:
    done = subprocess.run([tool("shellcheck"), name], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_same_files_are_linted_by_make() -> None:
    text = (ROOT / "Makefile").read_text()
    assert f"hadolint) {' '.join(IMAGES)}\n" in text
    assert f"shellcheck) {' '.join(SCRIPTS)}\n" in text


@pytest.mark.parametrize("name", IMAGES)
def test_the_context_holds_what_an_image_copies(name: str) -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    kept = {line[1:] for line in lines if line.startswith("!")}
    assert "*" in lines  # all else stays out, whatever a checkout may hold
    assert sources(name) <= kept
    for path in kept:
        assert (ROOT / path).exists()
        assert not any(fnmatch(path, line) for line in lines if line[:1] not in ("!", "#", "*"))


def test_the_wheel_can_be_built_from_that_alone(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling builds the wheel")
    for name in sources("Dockerfile"):
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, target)
    code = (
        "from hatchling.builders.wheel import WheelBuilder\n"
        "print(*WheelBuilder('.').build(directory='dist', versions=['standard']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"assay-.*\.whl", done.stdout)
