#!/usr/bin/env bash
# test_cuda_sanitizer.sh [TOOL [WHAT]]: on a GPU compute-sanitizer finds no bad access and no race in the backend's
# tests on small shapes. TOOL is memcheck, racecheck or synccheck, WHAT "first tokens", "quantized draft weights", "columns",
# "page lists", "screened head" or "every kernel"; without them the first two look at all, which takes long. Skipped, with the
# reason, where there is no GPU or no compute-sanitizer.
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
look() { # TOOL WHAT
	case $2 in
	"first tokens") set -- "$1" "$SWIFTLET" run --backend cuda --no-store -n 8 -p "Tom has 3 apples." ;;
	"quantized draft weights") set -- "$1" "$folder/test-kernels-cuda_draft_weights" ;;
	"columns") set -- "$1" "$folder/test-kernels-cuda_columns" ;;
	"page lists") set -- "$1" "$folder/test-kernels-cuda_page_list" ;;
	"screened head") set -- "$1" "$folder/test-kernels-cuda_screened_head" ;;
	"every kernel") set -- "$1" "$folder/test-checkkernels-cuda" ;;
	*)
		echo "$2: first tokens, quantized draft weights, columns, page lists, screened head or every kernel was expected" >&2
		exit 2
		;;
	esac
	"$sanitizer" --tool "$1" --error-exitcode 9 "${@:2}"
}
if [ $# -gt 0 ]; then
	look "$1" "${2:-first tokens}"
	exit
fi
for tool in memcheck racecheck; do
	for what in "first tokens" "quantized draft weights" "columns" "page lists" "screened head" "every kernel"; do
		look "$tool" "$what"
	done
done
