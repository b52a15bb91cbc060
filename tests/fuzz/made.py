"""Inputs made by hand, by parser: what once ended one, and forms that good trees do not have."""

from __future__ import annotations

MADE: dict[str, list[bytes]] = {
    "detail": [
        b'"pid" : 1, "tid" : 1, "ts" : ' + b"9" * 999 + b"ns : version : 1\n",
        b':::MLLOG {"key": "k", "value": ' + b"9" * 5000 + b"}\n",
        b':::MLLOG {"key": "k", "value": 1, "metadata": {"pid": ' + b"9" * 500 + b"}}\n",
        b':::MLLOG {"key": "loaded_qsl_set", "value": [' + b"1, " * 4000 + b'\0], "time_ms": 1}\n',
        b":::MLLOG " + b"[" * 100_000,
        b':::MLLOG {"key": "k", "value": "\\ud800"}\n',
    ],
    "summary": [
        b"9" * 5000 + b" ERRORS encountered. See detailed log.\n",
        b"Samples per second: " + b"9" * 5000 + b"\n",
        b"performance_sample_count : " + b"9" * 500 + b"\n",
    ],
    "endpoints": [
        b"[" * 16_000, b"{" * 50_000, b'a: !!int ""\n', b"a: !!python/object:os.system x\n",
        b"a: &a [*a]\n", b"? " * 5000, b"a: " + b"9" * 5000, b"--- " * 1000, b"a: 2026-99-99\n",
    ],
    "documents": [b"[" * 100_000, b'{"a": ' * 50_000, b"9" * 5000, b'{"a": 1e999, "b": NaN}'],
    "verify": [b"total=" + b"9" * 5000, b"num_acc_log_entries = " + b"9" * 5000 + b"\n"],
    "user_conf": [b"*.Offline.target_qps = " + b"9" * 5000, b"=" * 5000, b"." * 5000 + b"= 1"],
    "accuracy_txt": [b"accuracy=" + b"9" * 5000 + b"%", b"{'a': " * 5000, b"hash=" + b"0" * 5000],
    "accuracy_log": [b"[" * 50_000, b'[\n{"seq_id": ' + b"9" * 5000 + b', "qsl_idx": 0, "data": "00"}\n]'],
    "power": [b"Time," + b"9" * 5000 + b",Watts,nan,\n--\n" + b"[" * 9000 + b"\n--\n{}\n--\n" + b":" * 9000],
    "report": [b'{"a":' * 100_000, b"9" * 5000],
    "waivers": [b"a = " + b"[" * 9000, b"a = " + b"9" * 5000, b"a." * 4000 + b"b = 1"],
    "zip": [b"PK\x05\x06" + b"\xff" * 18, b"PK\x05\x06" + bytes(18)],
    "tar": [b"\0" * 512, b"\0" * 1024, b"", b"x" * 512],
}  # fmt: skip
"""Too large, or too plain, to be kept as files."""

_SAMPLE = b"Time,07-23-2024 17:08:0%d.500,Watts,300.0,Volts,230.0,Amps,0.9,PF,0.96,Mark,s\n"
_TWO = b"Time,07-23-2024 17:08:0%d.5,Watts,9,Ch1,Watts,4,PF,1,Ch1,Watts,5,Mark,%d\n"

FORMS: dict[str, list[bytes]] = {
    "detail": [
        b'\xef\xbb\xbf:::MLLOG {"key": "a", "value": 1}\r\n\n :::MLLOG {"key": "a", "value": NaN}\n',
        b':::MLLOG {"key": "loaded_qsl_set", "value": [' + b"1, " * 2000 + b'2], "time_ms": 1}\n'
        b':::MLLOG {"key": "loaded_qsl_set", "value": [' + b"1," * 4000 + b'2], "time_ms": 1}\n',
        b':::MLLOG {"key": "e", "value": "x", "metadata": {"is_error": true, "pid": 7}}\n' * 120,
        b':::MLLOG {"key": "effective_a", "value": null}\n:::MLLOG {"value": 1}\n:::MLLOG [1]\nx\n',
        b':::MLLOG {"key": "a", "value": "0"}\n:::MLLOG {"key": "b", "value": "true"}\n'
        b':::MLLOG {"key": "c", "value": "1e5"}\n:::MLLOG {"key": "d", "value": 2.0}\n',
        b':::MLLOG {"key": "b", "value": "\xff", "metadata": 1}\n', b"", b"\n\n", b"no log\n",
        b':::MLLOG {"key": "k", "value": -' + b"9" * 400 + b', "time_ms": NaN, "metadata": {"pid": "x"}}\n',
        b':::MLLOG {"key": "generic_message", "value": null}\n:::MLLOG {"key": "error_runtime", "value": "\\u0000"}\n'
        b':::MLLOG {"key": "a", "value": 1, "value": [2]}\n:::MLLOG {"key": "a", "value": "\\ud800"}\n',
        b':::MLLOG {"key": "loadgen_file_sha1", "value": 1}\n:::MLLOG {"key": "loaded_qsl_set", "value": [1, 2.5]}\n'
        b':::MLLOG {"key": "generated_query_count", "value": {}}\n:::MLLOG {"key": "qsl_name", "value": []}\n',
        b':::MLLOG {"key": "a", "value": ' + b"[" * 980 + b"]" * 980 + b', "b": "\\\\"}\n',
        b':::MLLOG {"key": "a", "metadata": []}\n:::MLLOG {"key": "a", "time_ms": null}\n'
        b':::MLLOG {"key": "a", "metadata": {"is_error": null}}\n:::MLLOG {"key": "a", "value": 1' + b"0" * 400 + b"}\n",
        b'"pid": 1, "tid": 2, "ts": 3ns : Effective Settings:\n'
        b'"pid": 1, "tid": 2, "ts": 3ns : Test mode : Performance\n'
        b'"pid": 1, "tid": 2, "ts": 3ns : ERROR : bad\n"pid": 1, "tid": 2, "ts": 3ns : WARNING: hm\n'
        b'"pid": 1, "tid": 2, "ts": 3ns : Found Audit Config file\n"pid": 1, "tid": 2, "ts\n'
        b'"pid": 1, "tid": 2, "ts": 3ns : git_status :\n M a.cc\n\n'
        b'"pid": 1, "tid": 2, "ts": 3ns : SHA1 of files :\n' + b"a" * 40 + b" /loadgen.cc\n"
        b'"pid": 1, "tid": 2, "ts": 3ns : Loading QSL : "set" : [1,2,3]\n\0\xff\n'
        b'"pid": 1, "tid": 2, "ts": 3ns : Starting performance mode:\n'
        b'"pid": 1, "tid": 2, "ts": 3ns : GeneratedQueries: "queries" : 1, "samples per query" : 2, "duration" : 3\n'
        b'"pid": 1, "tid": 2, "ts": 3ns : POWER_BEGIN: {"time" : x}\n',
    ],
    "summary": [
        b"==\nMLPerf Results Summary\n==\nScenario : MultiStream\nMode : Accuracy\nRecommendations:\n"
        b" * more queries\n\n90th percentile latency (ns) : 5\nEarly stopping 99th percentile estimate: 7\n"
        b"==\nAdditional Stats\n==\nPer-query latency:\nMin latency (ns) : 1\nPer-sample latency:\n"
        b"Max latency (ns) : 1\nMax latency (ns) : 2\n50.00 percentile first token latency (ns) : 3\n"
        b"50.00 percentile time to output token (ns) : 3\n99.00 percentile latency (ns) : 4\n"
        b"==\nTest Parameters Used\n==\nmin_duration (ms): 1\nprint_timestamps : 0\n" + b"l" * 200
        + b" : 1\nno colon\n1 warning encountered.\n2 ERRORS encountered.\n", b"", b"\n",
    ],
    "accuracy_log": [
        b'[\n{"seq_id": 0, "qsl_idx": 1, "data": "00"}\n]\n' * 2, b'[\n{"seq_id": 0, \xff}\n]\n',
        b'[\n{ "seq_id" : 0, "qsl_idx" : 1, "data" : "00" },\n\n...\n\n{"seq_id": 1, "qsl_idx": 2, "data": "0g" }\n]',
        b'[{"qsl_idx": 1, "data": "00", "seq_id": 3, "token_data": "00000000", "token_count": 1}]', b"[\n]\n", b"[",
    ],
    "accuracy_txt": [
        b"accuracy=76.064%, good=38032, total=50000\nhash=" + b"ab" * 32 + b"\n",
        b"Accuracy: mean = 0.86170, whole tumor = 0.91, tumor core = 0.81\nmAP=76,064%\n",
        b"Word Error Rate: 2.5%, accuracy=97.5%\n\nhash: x\n" + b"hash=y\n" * 30,
        b" Average Precision  (AP) @[ IoU=0.50:0.95 | area=   all | maxDets=100 ] = 0.375\nmAP=37.5%\n",
        b"{'rouge1': 44.4, 'rouge2': 22.1, 'rougeL': 30.0, 'gen_len': 5, 'gen_num': 10, 'gen_tok_len': 50, "
        b"'tokens_per_sample': 5.0}\n" * 3,
        b'{"exact_match": 83.6, "f1": 90.9}\n', b"Overall Average : 5.0 (70.1%)\n{'vbench_score': 70.1}\n",
        b"accuracy=np.float64(76.0)%, good=1, total=0\n" * 300, b"\xff\0accuracy=nan%\n",
    ],
    "documents": [
        b"\xef\xbb\xbf{\"a\": 1, \"a\": 2}\r\n", b"", b'{"a": "\\u0000"}', b'{"a": "\\ud800"}', b'{"a": 1', b"\xff\0",
        b'{"a": ' * 70 + b"1" + b"}" * 70,
    ],
    "endpoints": [
        b"a: 1\na: {b: 1, b: [2]}\n--\n"
        b'{"qps": 1, "ttft": {"percentiles": {"99": 5, "x": 1, "50.0": true}}}\n--\n[1]\n--\n{"audit": 1}',
        b"a: " + b"9" * 400, b"--\n\n--\n{}\n", b"", b"a: !x 1\n", b"a: &b 1\nc: *b\n", b"[1, {a: b}]\n",
    ],
    "power": [
        b"".join(_SAMPLE % n for n in range(9)) + b"\nno sample\nTime,x\nTime,99-99-2024 17:08:00.5,Watts,1\n"
        + b"Time,07-23-2024 17:08:75.5,Watts,x\n--\n"
        b'{"timezone": 3600}\n--\n{"timezone": 7200, "a": 1}\n--\n07-23-2024 17:08:00.500: ready\nfree text\n'
        b"Time,07-23-2024 17:08:01: Go\n\n",
        b"".join(_TWO % (n, n) for n in range(9)) + b"--\n{}\n--\n{}\n--\n", b"\n--\n\n--\n\n--\n",
    ],
    "user_conf": [
        b"# a\n*.Offline.target_qps = 5 # b\nresnet50.*.x = 0x1\n*.*.y = nan\n" + b"odd\n" * 120,
        b"\xff\r# x\r*.Server.z = 1", b"", b"*.Server.min_duration = 600000\n" * 3000,
    ],
    "verify": [
        b"reference score = 5, test score = 6e-3\nTEST04-A score = 1\nnum_a = 5\nTEST PASS\nTEST FAIL\n"
        b"First token check pass: True\nMin output len : 5.5 %\n", b"", b"\xff" * 100 + b"a" * 70_000,
    ],
    "reading": [
        b"1,000 np.float64(5) 1e999 -inf nan +5 76,064 0x1 \xd9\xa1\n" + b"line\r\n" * 50, b"\xef\xbb\xbf\0\xff\n",
        b"a" * 70_000, b"a\n<<<<<<< HEAD\nb\n=======\nc\n>>>>>>> d\n",
    ],
    "listing": [
        b"f a/b.txt\nd a/c\nl a/d ../..\nl a/e nowhere\nl a/f f\nl g a\np a/p\nf \xff\xfe\nf .git/x\nl out /etc\n"
        b"u a/b.txt\n" + b"d " + b"x/" * 40 + b"\nf A\nf a/B.TXT\nx a/b.txt\nv a/c\n",
        b"f r/s/performance/run_1/a\nf r/s/accuracy/b\nl r/s/accuracy/c ../performance/run_1/a\nd r/s/empty\n"
        b"l r/s/accuracy/d nowhere\nl r/s/again performance\nf r/t/Performance/\xff\nf r/u/TEST01/performance/x\n",
    ],
}  # fmt: skip
"""Good and bad forms that widen what fuzzing starts from."""
