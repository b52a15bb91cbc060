"""Build hook: a wheel gets its rounds and enforcement table compiled (see schemas/compiling.py)."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileTables(BuildHookInterface):  # type: ignore[type-arg]
    """Adds ``schemas/compiled.msgpack`` to the wheel, not to an editable installation."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects the files."""
        if version != "standard":
            return
        sys.path.insert(0, self.root)
        try:
            from schemas.compiling import FILE, compile_tables
            from schemas.enforcement import entries
            from schemas.hardware import hardware
            from schemas.load import load_power, load_round, round_names
        finally:
            sys.path.remove(self.root)
        self._folder = tempfile.TemporaryDirectory(prefix="assay-build-")
        target = Path(self._folder.name) / FILE
        target.write_bytes(
            compile_tables(map(load_round, round_names()), entries(), hardware(), load_power())
        )
        build_data["force_include"][str(target)] = f"schemas/{FILE}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called by hatchling when the wheel is written."""
        if version == "standard":
            self._folder.cleanup()
