"""Reports to render in tests: a varied one, a hostile one, and one the size of a round."""

from __future__ import annotations

from typing import Any

import msgspec

from schemas.report import (
    FORMAT,
    FORMAT_VERSION,
    AccuracyScore,
    Finding,
    Limits,
    Metric,
    Report,
    Result,
    RuleFacts,
    RunFacts,
    Subject,
    Summary,
    Tool,
    Waived,
    linked,
)

SYSTEM: dict[str, Any] = {
    "status": "available",
    "system_type": "datacenter",
    "system_name": "Example DX (8x Accel-270GB, TensorRT)",
    "number_of_nodes": 1,
    "host_processor_model_name": "Example CPU 8570",
    "host_processors_per_node": 2,
    "host_processor_core_count": "56",
    "accelerator_model_name": "Accel-270GB",
    "accelerators_per_node": 8,
    "framework": "TensorRT 10.14, CUDA 13.1",
    "operating_system": "Ubuntu 24.04",
    "hw_notes": '19" rack, 1100 W',
    "sw_notes": "",
}

LATENCY = {
    "min": 28002240.0,
    "mean": 3406993508.0,
    "50.00": 2884432891.0,
    "90.00": 6366490340.0,
    "95.00": 7937223933.0,
    "97.00": 9249702440.0,
    "99.00": 11863539064.0,
    "99.90": 15000350835.0,
    "max": 15891817949.0,
}

RULES = [
    RuleFacts(
        "P104",
        "min-query-count",
        "P",
        "error",
        "The run issued at least the round's minimum number of queries.",
        "With fewer queries the tail latency is not known at the required confidence.",
        "Raise min_query_count in user.conf and run again.",
        'inference_rules.adoc, "Scenarios"',
    ),
    RuleFacts(
        "D101",
        "known-fields",
        "D",
        "warning",
        "The system description has only fields that the round knows.",
        "A misspelt field is a missing field.",
        "Correct the spelling.",
        'submission_rules.adoc, "System description"',
    ),
    RuleFacts(
        "A101",
        "accuracy-gate",
        "A",
        "error",
        "Every accuracy metric clears its gate.",
        "Speed counts only at the demanded quality.",
        "Use a more precise engine.",
        'inference_rules.adoc, "Benchmarks"',
    ),
]


def summary(results: list[Result], findings: list[Finding]) -> Summary:
    """The counts as the checker makes them."""
    standing = [f for f in findings if f.waived is None]
    return Summary(
        results=len(results),
        valid=sum(r.status == "valid" for r in results),
        invalid=sum(r.status == "invalid" for r in results),
        errors=sum(f.severity == "error" for f in standing),
        warnings=sum(f.severity == "warning" for f in standing),
        notes=sum(f.severity == "note" for f in standing),
        waived=len(findings) - len(standing),
    )


def report(results: list[Result], findings: list[Finding], **fields: Any) -> Report:
    """A report of these results and findings."""
    known: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "tool": Tool("assay", "0.1.0"),
        "round": "v6.0",
        "round_detected_from": "seeds and layout",
        "tree": "submission",
        "results": results,
        "findings": findings,
        "summary": summary(results, findings),
    }
    return linked(Report(**(known | fields)))


def result(**fields: Any) -> Result:
    """A valid closed-division Server result, changed where a field is given."""
    known: dict[str, Any] = {
        "division": "closed",
        "submitter": "Example",
        "system": "DX-8x270",
        "benchmark": "llama2-70b-99",
        "directory": "llama2-70b-99",
        "scenario": "Server",
        "category": "datacenter",
        "status": "valid",
        "metric": Metric("result_completed_tokens_per_second", 107317.8, "Tokens/s"),
        "accuracy": [AccuracyScore("ROUGE1", 44.856, target=43.98689, passed=True)],
        "inferred_from": None,
        "power": None,
        "rules_applied": 61,
        "system_description": SYSTEM,
        "weight_data_types": "fp4",
    }
    merged = known | fields
    merged.setdefault(
        "path",
        f"{merged['division']}/{merged['submitter']}/results/{merged['system']}/"
        f"{merged['directory']}/{merged['scenario']}",
    )
    return Result(**merged)


def truncated() -> Report:
    """A truncated log and what follows from it, beside an error of its own; ids as the checker's."""
    logs = "closed/Example/results/DX-8x270/llama2-70b-99/Server/performance/run_1"
    log = f"{logs}/mlperf_log_detail.txt"
    text = "closed/Example/compliance/DX-8x270/llama2-70b-99/Server/TEST06/verify_performance.txt"
    cut = "X002-0000000000aa"
    key = "closed/Example/DX-8x270/llama2-70b-99/Server"
    cases: list[tuple[str, str, str, str, str, int | None]] = [
        ("X002", "unreadable-file", "error", "line 66 is cut off", log, 66),
        ("P102", "run-valid", "error", "result_validity is absent; expected VALID", log, None),
        ("P117", "latency-within-limit", "error", "the 99th percentile is absent", log, None),
        ("P165", "detail-log-whole", "warning", "found no num_errors", log, 66),
        ("C122", "stated-scores", "warning", "found a reference score of 17.8", text, 2),
        ("P107", "seeds", "error", "qsl_rng_seed is 1; expected 2", log, 12),
    ]
    findings = [
        Finding(
            rule,
            name,
            severity,  # type: ignore[arg-type]
            message,
            path,
            line,
            subject=Subject("closed", "Example", "DX-8x270", "llama2-70b-99", "Server"),
            fix="use the log as LoadGen wrote it",
            results=(key,),
            invalidates=(key,) if severity == "error" else (),
            id=cut if rule == "X002" else f"{rule}-0000000000bb",
            follows=None if rule in ("X002", "P107") else cut,
        )
        for rule, name, severity, message, path, line in cases
    ]
    made = report([result(status="invalid", key=key), result(scenario="Offline")], [])
    return msgspec.structs.replace(made, findings=findings, summary=summary(made.results, findings))


def varied() -> Report:
    """Something of everything: every status, division, severity and optional part."""
    server = result(
        accuracy=[
            AccuracyScore("ROUGE1", 44.856, 43.98689, None, 44.4312, 0.99, True),
            AccuracyScore("ROUGE2", 22.1342, 21.81485, None, 22.0352, 0.99, True),
            AccuracyScore("TOKENS_PER_SAMPLE", 283.0, 265.005, 323.895, 294.45, None, True),
        ],
        limits=Limits(
            ttft_ms=2000.0,
            tpot_ms=200.0,
            min_duration_ms=600_000,
            min_query_count=270336,
            percentile=99.0,
        ),
        runs=[
            RunFacts(
                "performance",
                "closed/Example/results/DX-8x270/llama2-70b-99/Server/performance/run_1",
                "2026-01-20T10:15:00+00:00",
                612.4,
                "5.0.22",
                "Server",
                "PerformanceOnly",
                "VALID",
                737280,
                LATENCY,
                {"50.00": 325949172.0, "90.00": 421506802.0, "99.00": 471928571.0},
                {"50.00": 118743142.0, "99.00": 154875532.0},
                {"target_qps": 395.0, "qsl_rng_seed": "1780908523862526354"},
            ),
            RunFacts(
                "accuracy",
                "closed/Example/results/DX-8x270/llama2-70b-99/Server/accuracy",
                "2026-01-20T10:30:00+00:00",
                124.0,
                "5.0.22",
                "Server",
                "AccuracyOnly",
                "VALID",
                24576,
            ),
        ],
    )
    offline = result(
        scenario="Offline",
        metric=Metric("result_samples_per_second", 1042110.0, "Tokens/s"),
        power=Metric("avg_power", 5321.25, "Watts"),
        limits=Limits(min_duration_ms=600_000),
    )
    interactive = result(
        scenario="Interactive",
        status="invalid",
        metric=Metric("result_completed_tokens_per_second", 73608.2, "Tokens/s"),
        accuracy=[
            AccuracyScore("ROUGE1", 43.12, 43.98689, None, 44.4312, 0.99, False),
            AccuracyScore(
                "GEN_LEN", 8178793.0, 7000000.0, None, None, None, True, unit="characters"
            ),
        ],
        rules_not_applied=["C101", "W100"],
    )
    edge = result(
        submitter="Ökolab",
        system="edge-box",
        benchmark="resnet",
        directory="resnet50",
        scenario="singlestream",
        category="edge",
        metric=Metric("result_90.00_percentile_latency_ns", 0.399625, "Latency (ms)"),
        accuracy=[AccuracyScore("acc", 76.064, 75.6954, None, 76.46, 0.99, True)],
        power=Metric("energy_per_stream", 128.5, "millijoules"),
        inferred_from="multistream",
        system_description=SYSTEM
        | {
            "system_type": "edge",
            "number_of_nodes": "1",
            "accelerators_per_node": "N/A",
            "sw_notes": "tuned",
        },
        weight_data_types="int8",
        runs=[
            RunFacts(
                "performance",
                "closed/Ökolab/results/edge-box/resnet50/singlestream/performance/run_1",
                duration_s=640.0,
                latency_ns={"p50": 350000.0, "p90": 399625.0, "p99": 512000.0},
            )
        ],
        limits=Limits(percentile=90.0, target_latency_ns=500_000),
    )
    unknown = result(
        division="open",
        benchmark=None,
        directory="own-model",
        scenario="Offline",
        category=None,
        status="invalid",
        metric=None,
        accuracy=[AccuracyScore("vbench_score", 69.78)],
        system_description={},
        weight_data_types=None,
    )
    subject = Subject("closed", "Example", "DX-8x270", "llama2-70b-99", "Interactive")
    base = "closed/Example/results/DX-8x270/llama2-70b-99/Interactive"
    findings = [
        Finding(
            "D101",
            "known-fields",
            "warning",
            'field "sumitter" is unknown; did you mean "submitter"?',
            "closed/Example/systems/DX-8x270.json",
            3,
            "/sumitter",
            Subject("closed", "Example", "DX-8x270"),
            found="sumitter",
            required="submitter",
        ),
        Finding(
            "A101",
            "accuracy-gate",
            "error",
            "ROUGE1 is 43.12; the round requires at least 43.98689",
            f"{base}/accuracy/accuracy.txt",
            None,
            None,
            subject,
            43.12,
            43.98689,
            "Use a more precise engine.",
        ),
        *(
            Finding(
                "P104",
                "min-query-count",
                "error",
                f"run issued {1000 + n} queries; the round asks for 270,336",
                f"{base}/performance/run_1/mlperf_log_detail.txt",
                17 + n,
                None,
                subject,
                1000 + n,
                270336,
            )
            for n in range(12)
        ),
        Finding(
            "R201",
            "equal-logs",
            "warning",
            "two results share one detail log",
            f"{base}/performance/run_1/mlperf_log_detail.txt",
            None,
            None,
            Subject(),
            evidence={
                "first": {"path": "closed/Example/a", "sha256": "aa11"},
                "second": {"path": "closed/Example/b", "sha256": "aa11"},
            },
        ),
        Finding(
            "S003",
            "large-file",
            "error",
            "file is 61 MB; at most 50 MB is allowed",
            "closed/Example/src/model.bin",
            waived=Waived("agreed in the working group", "Example", "2026-12-31"),
            subject=Subject("closed", "Example"),
            found=61_000_000,
            required=50_000_000,
        ),
        Finding("X003", "nothing-checked", "note", "folder is empty", "open/Other"),
    ]
    return report(
        [server, offline, interactive, edge, unknown],
        findings,
        rules=RULES,
        not_checked=["power logs: the tree holds none", "compliance in the open division"],
    )


HOSTILE: tuple[str, ...] = (
    "<script>alert(1)</script>",
    "</style></script><!--",
    "javascript:alert(1)",
    "[x](javascript:alert(1)) ![y](https://evil.example/p.png) @octocat #1",
    "\x1b[31mred\x1b[0m\x1b]8;;https://evil.example\x07link\x9b2J",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1+1",
    "\r=1+1",
    "abc\u202egnp.exe\u2066\u200f",
    "a,b;\"c'\n::error::pwned\r\n%0A::warning::x",
    "]]>&amp;<!ENTITY x SYSTEM 'file:///etc/passwd'>",
    "{{7*7}}{% raw %}${x}",
    "| a | b ``` `` ` \\",
    "\x00\x07\x08\ud800\uffff",
    "[bold red]markup[/bold red] :smile:",
    "x" * 1_000_000,
)


def hostile(text: str) -> Report:
    """A report in which every text that can come from a submission is ``text``."""
    described = dict.fromkeys(SYSTEM, text) | {text: text, "number_of_nodes": text}
    bad = Result(
        division=text,
        submitter=text,
        system=text,
        benchmark=text,
        directory=text,
        scenario=text,
        category=text,
        status="valid",
        metric=Metric(text, 1.5, text),
        accuracy=[AccuracyScore(text, 1.0, 0.5, passed=True)],
        inferred_from=text,
        power=Metric(text, 2.5, f"W{text}"),
        path=text,
        rules_applied=1,
        rules_not_applied=[text],
        system_description=described,
        weight_data_types=text,
        limits=Limits(target_latency_ns=5, percentile=99.0),
        runs=[
            RunFacts(
                text,
                text,
                text,
                1.0,
                text,
                text,
                text,
                text,
                1,
                {text: 1.0, "99.00": 4.0},
                {},
                {},
                {text: text},
            )
        ],
    )
    subject = Subject(text, text, text, text, text)
    findings = [
        Finding(text, text, "error", text, text, 1, text, subject, text, text, text,
                evidence={text: {text: text}, "list": [text]}),
        Finding(text, text, "error", text, text, 1, text, subject, [text], {text: text}, text,
                Waived(text, text, text)),
        Finding("Q1", text, "note", text, None, None, None, Subject(), None, None, text),
    ]  # fmt: skip
    return report(
        [bad],
        findings,
        round=text,
        round_detected_from=text,
        tree=text,
        not_checked=[text],
        rules=[RuleFacts(text, text, text, "error", text, text, text, text)],
    )


def whole_round(count: int = 2000) -> Report:
    """A report of ``count`` results, as large as a real round's."""
    benchmarks = ["llama2-70b-99", "llama2-70b-99.9", "gpt-oss-120b", "resnet", "whisper"]
    scenarios = ["Server", "Offline", "Interactive", "SingleStream"]
    model = varied().results[0]
    results, findings = [], []
    for n in range(count):
        submitter = f"Submitter{n // 80:02}"
        system = f"System-{n // 10:03}x8_TRT"
        benchmark, scenario = benchmarks[n % 5], scenarios[n // 5 % 4]
        invalid = n % 17 == 0
        results.append(
            result(
                submitter=submitter,
                system=system,
                benchmark=benchmark,
                directory=benchmark,
                scenario=scenario,
                division=("closed", "open", "network")[n // 500 % 3],
                category=("datacenter", "edge")[n // 10 % 2],
                status="invalid" if invalid else "valid",
                metric=Metric("result_samples_per_second", 1000.0 + 37.7 * n, "Samples/s"),
                accuracy=model.accuracy,
                limits=model.limits,
                runs=model.runs,
            )
        )
        made = results[-1]
        subject = Subject(made.division, submitter, system, benchmark, scenario)
        if invalid:
            findings.append(
                Finding(
                    "P104",
                    "min-query-count",
                    "error",
                    "run issued 1000 queries; the round asks for 270,336",
                    f"{made.path}/performance/run_1/mlperf_log_detail.txt",
                    17,
                    None,
                    subject,
                    1000,
                    270336,
                )
            )
        if n % 2:
            findings.append(
                Finding(
                    "D101",
                    "known-fields",
                    "warning",
                    "field is unknown",
                    f"{made.division}/{submitter}/systems/{system}.json",
                    3,
                    "/x",
                    subject,
                )
            )
    return report(results, findings, rules=RULES)


def later() -> Report:
    """The varied report after some work: one result mended, one gone, one new, others changed."""
    before = varied()
    server, offline, interactive, edge, _ = before.results
    replace = msgspec.structs.replace
    results = [
        replace(server, metric=Metric("result_completed_tokens_per_second", 110000.0, "Tokens/s")),
        replace(offline, power=None),
        replace(
            interactive,
            status="valid",
            accuracy=[replace(interactive.accuracy[0], value=44.1, passed=True)],
        ),
        edge,
        result(benchmark="whisper", directory="whisper", scenario="Offline"),
    ]
    findings = [
        replace(f, waived=Waived("known", "Example")) if f.rule == "D101" else f
        for f in before.findings
        if f.rule not in ("A101", "P104")
    ]
    findings.append(
        Finding("P104", "min-query-count", "error", "run issued 3 queries", "closed/new/path", 1)
    )
    return report(results, findings, rules=RULES, tree="submission-2")
