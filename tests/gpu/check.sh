#!/usr/bin/env bash
# Run on a machine with an NVIDIA GPU, TensorRT, and PyCUDA or cuda-bindings; takes under 8 minutes.
# Says what the machine has, runs the tests marked gpu, then prints the table of docs/performance.md.
#   PYTHON=path/to/python tests/gpu/check.sh [options of tests.gpu.check]
set -uo pipefail
cd "$(dirname "$0")/../.."
python=${PYTHON:-python3}
"$python" -m assay doctor --backend tensorrt || exit 2
status=0
timeout 70 "$python" -m pytest tests/gpu -m gpu -q || status=1
timeout 400 "$python" -m tests.gpu.check --budget 320 "$@" || status=1
exit "$status"
