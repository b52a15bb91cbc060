"""A submission whose logs the real LoadGen wrote, a few seconds of runs, for forgeries to be tried on.

The system under test answers at once, so only the logs mean something: the tree misses the round's
durations, and tests look at what a forgery adds to the findings of the untouched tree.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import shutil
import tempfile
from pathlib import Path
from typing import Any

from tests.checker.replay.loadgen_run import SEEDS, run
from tests.trees import ACCURACY, DETAIL, SUMMARY, GoodTree, good_tree

SCENARIOS = ["SingleStream", "MultiStream", "Server", "Offline"]
TOTAL = 500
TRIES = 30
_MAIN: dict[str, Any] = {"accuracy_log_rng_seed": 0}
_PACE: dict[str, dict[str, Any]] = {
    "SingleStream": {"single_stream_expected_latency_ns": 5_000, "min_duration_ms": 400},
    "MultiStream": {
        "multi_stream_expected_latency_ns": 20_000, "multi_stream_samples_per_query": 8,
        "min_duration_ms": 400, "min_query_count": 662,
    },
    "Server": {
        "server_target_qps": 4000, "min_duration_ms": 1200, "server_target_latency_ns": 100_000_000,
    },
    "Offline": {
        "offline_expected_qps": 200_000, "min_duration_ms": 100, "min_query_count": 400_000,
    },
}  # fmt: skip


def settings(scenario: str) -> dict[str, Any]:
    """The settings of a performance run here."""
    return {"min_query_count": 100, **_PACE[scenario], **_MAIN}


def put_run(folder: Path, logs: Path, *names: str) -> None:
    """Move a run's logs to where they belong in a tree."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copyfile(logs / name, folder / name)


def _logged(folder: Path, scenario: str, **changes: Any) -> Path:
    """The folder of one run's logs. A Server run in which the machine was held up is repeated: its
    queries come late, and their number and the time allow more than one rate."""
    for _ in range(TRIES):
        logs = Path(tempfile.mkdtemp(dir=folder))
        made = run(logs, scenario, total=TOTAL, loaded=TOTAL, **(settings(scenario) | changes))
        if scenario != "Server" or made.values.get("result_validity") != ["INVALID"]:
            break
    return logs


def real_tree(folder: Path) -> GoodTree:
    """Two systems: ``box1`` with all scenarios and TEST01 in Offline, ``box2`` with Offline."""
    options: dict[str, Any] = {
        "round": "demo", "benchmark": "digits", "category": "datacenter,edge",
    }  # fmt: skip
    tree = good_tree(folder, system="box1", scenarios=SCENARIOS, **options)
    other = good_tree(folder, system="box2", scenarios=["Offline"], into=tree, **options)
    for test in tree.root.rglob("TEST*"):
        # Made tests among real runs would only be in the way.
        shutil.rmtree(test)
    for place, scenario in [(tree, s) for s in SCENARIOS] + [(other, "Offline")]:
        result = place.result(scenario)
        put_run(result.performance, _logged(folder, scenario), DETAIL, SUMMARY)
        put_run(
            result.accuracy, _logged(folder, scenario, accuracy=True), DETAIL, SUMMARY, ACCURACY
        )
        hash_again(result.accuracy)
    logs = _logged(
        folder,
        "Offline",
        accuracy_log_rng_seed=SEEDS["accuracy_log_rng_seed"],
        accuracy_log_sampling_target=64,
    )
    test = tree.root / tree.result("Offline").path / "TEST01"
    put_run(test / "performance/run_1", logs, DETAIL, SUMMARY)
    put_run(test / "accuracy", logs, ACCURACY)
    return tree


def hash_again(accuracy: Path) -> None:
    """State the accuracy log's hash in accuracy.txt."""
    text = accuracy / "accuracy.txt"
    lines = [line for line in text.read_text().splitlines() if not line.startswith("hash")]
    digest = hashlib.sha256((accuracy / ACCURACY).read_bytes()).hexdigest()
    text.write_text("\n".join([*lines, f"hash={digest}"]) + "\n")


@functools.cache
def shared_tree() -> GoodTree:
    """`real_tree`, made once a process; not to be changed."""
    folder = tempfile.mkdtemp(prefix="assay-real-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return real_tree(Path(folder))
