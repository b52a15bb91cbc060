"""The random audit: reproducible, explained, and drawn from what may be audited only."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from checker.audit.selection import Selection, draw, encode, select_random
from schemas.report import FORMAT, FORMAT_VERSION, Metric, Report, Result, Summary, Tool


def _row(submitter: str, system: str, **changes: Any) -> Result:
    described = {
        "status": "available",
        "accelerator_model_name": f"{system} part",
        "number_of_nodes": 1,
    }
    described |= changes.pop("described", {})
    fields: dict[str, Any] = {
        "division": "closed", "submitter": submitter, "system": system, "benchmark": "resnet",
        "directory": "resnet", "scenario": "Offline", "category": "edge", "status": "valid",
        "metric": Metric("result_samples_per_second", 10.0, "Samples/s"), "accuracy": [],
        "inferred_from": None, "power": None, "path": f"closed/{submitter}/results/{system}",
        "rules_applied": 1, "system_description": described,
    }  # fmt: skip
    return Result(**(fields | changes))


def _report(*rows: Result) -> Report:
    return Report(
        FORMAT,
        FORMAT_VERSION,
        Tool("assay", "0"),
        "v6.0",
        None,
        "tree",
        list(rows),
        [],
        Summary(len(rows), len(rows), 0, 0, 0, 0, 0),
    )


def test_draw_is_a_hash_that_anybody_can_repeat() -> None:
    found = draw(7, "submitter", ["C", "A", "B", "A"])
    digest = hashlib.sha256(b"7/submitter").hexdigest()
    assert found.candidates == ["A", "B", "C"]
    assert (found.digest, found.index) == (digest, int(digest, 16) % 3)
    assert found.chosen == found.candidates[found.index]


def test_draw_is_even() -> None:
    counted = Counter(draw(seed, "submission", "abcd").chosen for seed in range(4000))
    assert all(900 < counted[name] < 1100 for name in "abcd"), counted


def test_nothing_to_draw_from() -> None:
    with pytest.raises(ValueError, match="nothing"):
        draw(1, "submitter", [])
    found = select_random(_report(_row("A", "x", division="open")), 1)
    assert found.draws == [] and found.submitter is None
    assert "nothing can be drawn" in found.text()


def test_two_stages_and_results() -> None:
    rows = [_row("A", f"a{n}") for n in range(50)] + [_row("B", "b")]
    rows += [_row("B", "b", scenario=s, directory="bert") for s in ("Offline", "Server")]
    picked = Counter(select_random(_report(*rows), seed).submitter for seed in range(400))
    # Fifty systems do not make a submitter more likely.
    assert 150 < picked["B"] < 250, picked
    seed = next(s for s in range(100) if select_random(_report(*rows), s).submitter == "B")
    found = select_random(_report(*rows), seed)
    assert [d.stage for d in found.draws] == [
        "submitter",
        "submission",
        "result 1",
        "result 2",
        "result 3",
    ]
    assert sorted(found.results) == ["bert/Offline", "bert/Server", "resnet/Offline"]
    assert found == select_random(_report(*reversed(rows)), seed)


def test_exclusions_are_explained() -> None:
    twin = {"accelerator_model_name": "same", "status": "available"}
    rows = [
        _row("A", "ok"),
        _row("A", "preview", described={"status": "Preview"}),
        _row("A", "bad", status="invalid"),
        _row("A", "net", division="network"),
        _row("A", "free", division="open"),
        _row("B", "last", described=twin),
        _row("C", "alike", described=twin),
    ]
    found = select_random(_report(*rows), 3, audited=["b/LAST", ""])
    assert (found.submitter, found.system) == ("A", "ok")
    reasons = {one.submission: one.reason for one in found.excluded}
    assert reasons == {
        "closed/A/preview": "status preview: only available systems are audited",
        "closed/A/bad": "no valid result",
        "network/A/net": "network division: only closed is audited",
        "open/A/free": "open division: only closed is audited",
        "closed/B/last": "audited in the round before",
        "closed/C/alike": "equivalent to a system audited in the round before",
    }
    before = _report(_row("B", "last", described=twin))
    again = select_random(_report(*rows[:5], rows[6]), 3, audited=["B/last"], before=before)
    assert "closed/C/alike" in {one.submission for one in again.excluded}


def test_what_the_committee_may_exempt_is_listed_and_still_drawn() -> None:
    card = {"accelerator_model_name": "card", "accelerators_per_node": 2}

    def row(submitter: str, value: float, **changes: Any) -> Result:
        metric = Metric("result_samples_per_second", value, "Samples/s")
        described = card | changes.pop("described", {})
        return _row(submitter, "s", metric=metric, described=described, **changes)

    power = Metric("average_watts", 500.0, "Watts")
    rows = [
        row("Near", 10.9, described={"host_processor_model_name": "new"}),
        row("Far", 11.1, described={"host_processor_model_name": "new"}),
        row("Fewer", 10.0, described={"accelerators_per_node": 1}),
        row("Other", 10.0, described={"accelerator_model_name": "other"}),
        row("Measured", 10.0, power=power, described={"host_processor_model_name": "new"}),
        row("More", 10.0, described={"host_processor_model_name": "new"}),
        row("More", 10.0, benchmark="bert-99", described={"host_processor_model_name": "new"}),
    ]
    before = _report(row("Before", 10.0))
    found = select_random(_report(*rows), 3, audited=["Before/s"], before=before)
    assert [one.submission for one in found.may_exempt] == ["closed/Near/s"]
    assert "within 9.0% of its" in found.may_exempt[0].reason
    assert "Near" in found.draws[0].candidates
    assert "the committee may exempt: 1" in found.text()


def test_json_is_the_whole_draw() -> None:
    found = select_random(_report(_row("A", "ok")), 3)
    assert msgspec.json.decode(encode(found), type=Selection) == found
    assert "seed 3" in found.text() and "A/ok" in found.text()


def test_command_line(grow: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from assay.cli import main

    tree = str(grow(round="demo", benchmark="digits", category="edge").root)
    assert main(["audit", tree, "--select-random", "--seed", "5", "--no-progress"]) == 0
    first = capsys.readouterr().out
    assert "submission: Acme/box1" in first
    out = tmp_path / "draw.json"
    asked = ["audit", tree, "--select-random", "--seed", "5", "--no-progress", "--output", str(out)]
    assert main(asked) == 0
    assert msgspec.json.decode(out.read_bytes(), type=Selection).system == "box1"
    last = tmp_path / "audited.txt"
    last.write_text("Acme/box1\n")
    assert main([*asked, "--audited", str(last)]) == 2
    assert main(["audit", tree, "--select-random"]) == 2
    assert main(["audit", tree, "--seed", "5"]) == 2
    assert "--seed" in capsys.readouterr().err
