"""What the TensorRT pipeline makes of a device with given copy and execution times.

    python -m tools.bench.tensorrt

No GPU: the device is simulated on a counted clock (tests/runner/trt/simulated.py), the pipeline is
the real one, so the table is the same on every machine.  Offline is measured against the slower of
copies and execution; Server has Poisson arrivals at 0.95 of the same, with samples copied one by one,
and must keep the benchmark's latency limit.
"""

from __future__ import annotations

import sys

from tests.runner.trt.simulated import Machine, Speeds, server_p99

BATCH = 128
SHARE = 0.95
RESNET_S, BERT_S = 0.015, 0.130  # limits of Server
ROWS = (
    ("ResNet-50, FP32 input, PCIe 5", RESNET_S, Speeds(sample_bytes=602_112, up_gbps=55, sample_s=1 / 94_600)),
    ("ResNet-50, INT8 input, PCIe 5", RESNET_S, Speeds(sample_bytes=150_528, up_gbps=55, sample_s=1 / 94_600)),
    ("ResNet-50, FP32 input, PCIe 3", RESNET_S, Speeds(sample_bytes=602_112, up_gbps=12, sample_s=1 / 94_600)),
    ("BERT-Large, 384 tokens", BERT_S, Speeds(sample_bytes=9_216, up_gbps=55, sample_s=1 / 8_700)),
)  # fmt: skip


def main() -> int:
    print(f"TensorRT pipeline on a simulated device, batch {BATCH} (no GPU; a counted clock)\n")
    print(
        f"{'model':<31}{'streams':>8}{'Offline/s':>11}{'of ideal':>9}{'in flight':>10}"
        f"{'copies a sample':>17}{'graphs':>8}{'Server p99, ms':>17}"
    )
    good = True
    for name, limit_s, speeds in ROWS:
        count = 200 * BATCH
        for streams in (1, 2, 3):
            machine = Machine(speeds, BATCH, streams=streams)
            seconds = machine.offline(count)
            device = machine.device
            share = speeds.ideal_s(count, BATCH) / seconds
            copies = (device.counts["h2d bytes"] + device.staged) / (count * speeds.sample_bytes)
            server = ""
            in_flight, graphs = machine.most_in_flight, device.counts["graph"]
            if streams == 2:
                p99 = server_p99(machine, SHARE, limit_s)
                server = f"{1e3 * p99:.1f} of {1e3 * limit_s:.0f}"
                good = good and share >= 0.95 and p99 <= limit_s
            print(
                f"{name:<31}{streams:>8}{count / seconds:>11,.0f}{share:>9.3f}{in_flight:>10}"
                f"{copies:>17.2f}{graphs:>8,}{server:>17}"
            )
    print("\nCopies a sample: on the way to the device, with those into a buffer of the pipeline.")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
