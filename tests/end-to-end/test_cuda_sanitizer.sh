#!/usr/bin/env bash
# On a GPU: compute-sanitizer finds no bad access and no race in the backend's tests on small shapes.
# Skipped, with the reason, where there is no GPU or no compute-sanitizer.
set -euo pipefail
folder=$(dirname "$SWIFTLET")/tests
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2> /dev/null || true)
if ! message=$("$SWIFTLET" run --backend cuda -n 1 -p x 2>&1 > /dev/null); then
	echo "skipped: $message"
	exit 77
fi
if [ -z "$sanitizer" ]; then
	echo "skipped: compute-sanitizer is not installed"
	exit 77
fi
for tool in memcheck racecheck; do
	"$sanitizer" --tool "$tool" --error-exitcode 9 "$folder/test-checkkernels-cuda"
	"$sanitizer" --tool "$tool" --error-exitcode 9 "$folder/test-kernels-cuda_low"
done
"$sanitizer" --tool memcheck --error-exitcode 9 "$SWIFTLET" run --backend cuda --preset paper -n 64 \
	-p "Question: Tom has 3 apples." > /dev/null
