"""spl.txt, ptd_logs.txt and the records: read as they are, whatever they hold."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checker.parse.detail import DetailLog, add, entry_of
from checker.parse.power import (
    PowerLogs,
    read_power,
    read_ptd_log,
    read_samples,
    seconds_of,
)
from checker.parse.reading import File, list_tree
from schemas.load import load_round

LINE = "Time,07-23-2024 17:08:{:02d}.500,Watts,{},Volts,230.0,Amps,1.0,PF,0.9,Mark,s_testing"


def file(tmp_path: Path, name: str, text: str | bytes) -> File:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return File(name, str(path), path.stat().st_size)


@pytest.mark.parametrize(
    ("stamp", "seconds"),
    [
        ("01-01-1970 00:00:01.500", 1.5), (" 01-02-1970 00:00:00 ", 86400.0),
        ("13-01-1970 00:00:00.000", None), ("1970-01-01 00:00:00", None), ("", None),
        ("02-30-2024 00:00:00.000", None),
    ],
)  # fmt: skip
def test_times(stamp: str, seconds: float | None) -> None:
    assert seconds_of(stamp) == seconds


def test_samples(tmp_path: Path) -> None:
    text = "\n".join(LINE.format(i, 100 + i) for i in range(5)) + "\n\n  \n"
    found = read_samples(file(tmp_path, "spl.txt", text))
    assert found.faults == [] and list(found.watts) == [100.0, 101.0, 102.0, 103.0, 104.0]
    assert list(found.lines) == [1, 2, 3, 4, 5] and found.marks == {"s_testing": 5}
    assert found.between(found.times[0], found.times[4]) == [1, 2, 3]


def test_windows_line_ends(tmp_path: Path) -> None:
    found = read_samples(file(tmp_path, "spl.txt", LINE.format(1, 5) + "\r\n"))
    assert found.faults == [] and list(found.watts) == [5.0] and found.marks == {"s_testing": 1}


def test_missing_fields_are_nan(tmp_path: Path) -> None:
    found = read_samples(file(tmp_path, "spl.txt", "Time,07-23-2024 17:08:00.000,Watts,x\n"))
    assert math.isnan(found.watts[0]) and math.isnan(found.volts[0]) and found.faults == []


def test_other_lines_are_faults(tmp_path: Path) -> None:
    found = read_samples(file(tmp_path, "spl.txt", "nonsense\n" * 20 + LINE.format(1, 5)))
    assert len(found.faults) == 5 and len(found.watts) == 1
    assert found.faults[0].line == 1 and found.faults[0].fix


def test_empty_and_missing(tmp_path: Path) -> None:
    assert [f.kind for f in read_samples(file(tmp_path, "spl.txt", "")).faults] == ["empty"]
    assert len(read_samples(File("spl.txt", str(tmp_path / "none"), 1)).faults) == 1


def test_ptdaemon_messages(tmp_path: Path) -> None:
    messages, faults = read_ptd_log(
        file(
            tmp_path,
            "ptd_logs.txt",
            "  Version 1.11.1\n07-23-2024 16:54:22.106: Connected: to it\n"
            "07-23-2024 16:54:23.106: ERROR: USB.\n",
        )
    )
    assert faults == []
    assert [(m.stamp, m.text, m.line) for m in messages] == [
        ("", "  Version 1.11.1", 1),
        ("07-23-2024 16:54:22.106", "Connected: to it", 2),
        ("07-23-2024 16:54:23.106", "ERROR: USB.", 3),
    ]


def detail(begin: str, end: str) -> DetailLog:
    log = DetailLog("mlperf_log_detail.txt")
    add(log, entry_of("power_begin", 1, value=begin))
    add(log, entry_of("power_end", 2, value=end))
    return log


def power(tmp_path: Path, round: str, server_zone: int = 0, client_zone: int = 0) -> PowerLogs:
    text = "\n".join(LINE.format(i, 100) for i in range(10)) + "\n"
    file(tmp_path, "run_1/spl.txt", text)
    file(tmp_path, "power/server.json", f'{{"timezone": {server_zone}}}')
    file(tmp_path, "power/client.json", f'{{"timezone": {client_zone}}}')
    listing = list_tree(tmp_path)
    return read_power(
        listing.folder("run_1"),
        listing.folder("power"),
        detail("07-23-2024 17:08:00.000", "07-23-2024 17:08:20.000"),
        load_round(round),
    )


def test_average_over_the_interval(tmp_path: Path) -> None:
    logs = power(tmp_path, "v6.0", server_zone=3600)
    assert logs.average_watts == 100.0 and len(logs.inside) == 10
    assert logs.begin == logs.logged_begin


def test_zones_move_the_interval_where_logs_are_in_local_time(tmp_path: Path) -> None:
    logs = power(tmp_path, "v1.0", server_zone=3600, client_zone=0)
    assert logs.begin is not None and logs.logged_begin is not None
    assert logs.begin - logs.logged_begin == -3600
    assert logs.average_watts is None and logs.inside == []


def test_hashes_with_either_line_end(tmp_path: Path) -> None:
    logs = power(tmp_path, "v6.0")
    data = (tmp_path / "run_1/spl.txt").read_bytes()
    assert logs.hashes["run_1/spl.txt"] == (
        hashlib.sha1(data).hexdigest(),
        hashlib.sha1(data.replace(b"\n", b"\r\n")).hexdigest(),
    )
    assert set(logs.hashes) == {"run_1/spl.txt", "power/server.json", "power/client.json"}


def test_nothing_there() -> None:
    logs = read_power(None, None, None, load_round("v6.0"))
    assert logs.average_watts is None and logs.inside == [] and logs.faults == []


@given(st.binary(max_size=300))
def test_any_bytes_are_read(tmp_path: Path, data: bytes) -> None:
    read_samples(file(tmp_path, "spl.txt", data))
    read_ptd_log(file(tmp_path, "ptd_logs.txt", data))


TOTAL = "Time,07-23-2024 17:08:00.500,Watts,300.0,Volts,230.0,Amps,0.9,PF,0.96,Mark,s_testing"


@pytest.mark.parametrize(
    "line",
    [
        TOTAL
        + ",Ch1,Watts,100.0,Volts,231.0,Amps,0.5,PF,0.9,Ch2,Watts,200.0,Volts,232.0,Amps,0.9,PF,0.95",
        TOTAL
        + ", Ch1 ,Watts,100.0,Volts,231.0,Amps,0.5,PF,0.9, Ch2,Watts,200.0,Volts,232.0,Amps,0.9,PF,0.95 \r",
        "Time,07-23-2024 17:08:00.500,Ch1,Watts,100.0,Ch2,Watts,200.0",
        "Time,07-23-2024 17:08:00.500,Watts,300.0,Mark,s_testing,Ch1,Watts,100.0,Ch1,Watts,200.0",
    ],
    ids=["total first", "blanks and CR", "no total", "two meters with one channel each"],
)
def test_channels_are_apart_from_the_total(line: str, tmp_path: Path) -> None:
    log = read_samples(file(tmp_path, "spl.txt", f"{line}\n{line}\n"))
    assert log.faults == []
    assert [list(c.watts) for c in log.channels.values()] == [[100.0] * 2, [200.0] * 2]
    if ",Watts,300.0" in line:
        assert list(log.watts) == [300.0] * 2
        assert dict(log.marks) == {"s_testing": 2}
    else:
        assert all(math.isnan(watts) for watts in log.watts)
    if "231.0" in line:
        assert [list(c.volts) for c in log.channels.values()] == [[231.0] * 2, [232.0] * 2]
        assert [list(c.factors) for c in log.channels.values()] == [[0.9] * 2, [0.95] * 2]
        assert list(log.factors) == [0.96] * 2


def test_a_channel_that_comes_later_is_as_long_as_the_totals(tmp_path: Path) -> None:
    log = read_samples(file(tmp_path, "spl.txt", f"{TOTAL}\n{TOTAL},Ch1,Watts,7\n{TOTAL}\n"))
    (channel,) = log.channels.values()
    assert [len(log.watts), len(channel.watts), len(channel.volts)] == [3, 3, 3]
    assert [w for w in channel.watts if not math.isnan(w)] == [7.0]
