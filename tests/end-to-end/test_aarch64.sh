#!/usr/bin/env bash
# The kernels for 64-bit ARM: built by Debian's cross compiler, held to the plain ones under qemu. A processor with
# neither dotprod nor i8mm, with one and with both takes what it has. The program's wheel is made and tried. With --full
# every method writes what plain decoding writes there. The compiler takes twice as long where it writes what variables hold.
set -euo pipefail
cd "$SWIFTLET_SOURCE"
skip() {
	echo "skipped: $1"
	exit 77
}
command -v aarch64-linux-gnu-gcc > /dev/null || skip "no aarch64-linux-gnu-gcc (tools/setup --ci installs it)"
command -v qemu-aarch64 > /dev/null || skip "no qemu-aarch64 (tools/setup --ci installs it)"
build=${SWIFTLET_AARCH64:-build-aarch64}
tools/sysroot "$build/sysroot" || skip "Debian's packages for arm64 cannot be had"

cmake -G Ninja -B "$build" --toolchain tools/aarch64.cmake -DSWIFTLET_TESTS=ON -DSWIFTLET_WERROR=ON \
	-DSWIFTLET_CUDA=OFF "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O2 -g1 -DNDEBUG" > "$build/configure.log" 2>&1 || {
	cat "$build/configure.log"
	exit 1
}
targets=(test-checkkernels-small test-checkkernels-matmul test-checkkernels-dtype test-checkkernels-columns swiftlet swiftlet-bench libswiftlet)
[ "$SWIFTLET_FULL" = 0 ] || targets+=(test-kernels-invariance test-kernels-draft_weights)
ninja -C "$build" "${targets[@]}" > "$build/build.log" 2>&1 || {
	grep -v '^\[' "$build/build.log"
	exit 1
}

emulated() { # PROCESSOR PROGRAM [ARGUMENT…]
	local processor=$1
	shift
	QEMU_CPU=$processor SWIFTLET_BRIEF=1 qemu-aarch64 -L "$build/sysroot" "$@"
}
has() { # PROCESSOR KERNELS
	emulated "$1" "$build/tests/test-checkkernels-small" > "$build/small.log" 2>&1 && grep -qx "kernels here: $2" "$build/small.log" || {
		cat "$build/small.log"
		echo "on a $1; expected the kernels $2"
		exit 1
	}
}
has cortex-a72 "neon"
has neoverse-n1 "dotprod neon"
has max "i8mm dotprod neon"
emulated max "$build/tests/test-checkkernels-dtype"
emulated max "$build/tests/test-checkkernels-matmul"
emulated max "$build/tests/test-checkkernels-columns"
tests/end-to-end/aarch64_wheel.sh "$build"
[ "$SWIFTLET_FULL" = 1 ] || exit 0

emulated max "$build/tests/test-kernels-draft_weights"
emulated max "$build/tests/test-kernels-invariance"
for isa in neon dotprod i8mm; do
	for method in vanilla swift ngram jacobi; do
		emulated max "$build/swiftlet" run builtin --raw -p "Once upon a time there was" -n 40 --no-store --isa $isa \
			--method $method > "$build/$method.txt"
		cmp "$build/vanilla.txt" "$build/$method.txt"
	done
done
