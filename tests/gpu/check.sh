#!/usr/bin/env bash
# Everything that only a GPU can show, in 8 minutes at most; each row is printed when it ends.
#   tests/gpu/check.sh                       what is installed is used
#   WHEELHOUSE=folder tests/gpu/check.sh     first installs from a folder that `make wheelhouse` made; no network
# PYTHON is the interpreter; ROWS (default /tmp/assay-gpu-rows.jsonl) keeps the rows of a run that was cut off.
# The tables are put into docs/performance-tensorrt.md. Exit status 2: there is no GPU, or nothing to use it with.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
python=${PYTHON:-python3}
rows=${ROWS:-/tmp/assay-gpu-rows.jsonl}
limit=${LIMIT_S:-480}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export ASSAY_GPU_CACHE=$folder/engines PYTHONUNBUFFERED=1
if [ -n "${WHEELHOUSE:-}" ]; then
  "$python" -m pip install --quiet --no-index --no-compile --find-links "$WHEELHOUSE" --target "$folder/site" \
    -r "$WHEELHOUSE/wheels.txt" || exit 2
  export PYTHONPATH=$folder/site${PYTHONPATH:+:$PYTHONPATH}
fi
: >"$rows"
status=0
left() { echo $((limit - SECONDS)); }
part() { # seconds, command...
  local most=$1 name=$2 ended; shift
  [ "$(left)" -lt "$most" ] && most=$(left)
  if [ "$most" -lt 15 ]; then echo "$name: not run, out of time"; status=1; return; fi
  timeout -k 5 "$most" "$python" -m tests.gpu.check "$@" --kept "$rows"; ended=$?
  [ "$ended" = 124 ] && echo "$name: ended after $most s; the rows above are what was measured"
  [ "$ended" = 0 ] || status=1
}
timeout 60 "$python" -m assay doctor --gpu
tensorrt=$?
part 30 pipeline
if [ "$tensorrt" != 0 ]; then
  echo "check: TensorRT, a library for device memory or a GPU is missing (see above); only the pipeline was tried" >&2
  exit 2
fi
timeout 60 "$python" -m pytest tests/gpu -m gpu -q -p no:cacheprovider || status=1
part 60 precisions --benchmark digits --precision fp32 --precision fp16 --precision int8
part 130 sweep
part 40 scenarios
part 40 libraries
part 40 onnxruntime
part 90 precisions --benchmark scenes --benchmark phrasebook --budget 60
part 40 precisions --benchmark digits --precision tf32 --precision bf16
"$python" -m tests.gpu.check write docs/performance-tensorrt.md --kept "$rows" || status=1
echo "check: $SECONDS s, exit status $status; rows in $rows, tables in docs/performance-tensorrt.md"
exit "$status"
