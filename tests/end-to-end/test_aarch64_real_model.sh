#!/usr/bin/env bash
# SmolLM2 on an emulated 64-bit ARM: its tokens by every method that needs no file of its own are plain decoding's.
# Minutes of a core a method, hence only with --full, or by hand:
#   SWIFTLET_FULL=1 SWIFTLET_SOURCE=. tests/end-to-end/test_aarch64_real_model.sh [TOKENS [ISA [OPTION of swiftlet run...]]]
# With the options --draft always --max-draft 2 --max-tree 4 drafts are made whether they pay or not, which takes thrice
# the time.
set -euo pipefail
cd "$SWIFTLET_SOURCE"
skip() {
	echo "skipped: $1"
	exit 77
}
[ "$SWIFTLET_FULL" = 1 ] || skip "a long run (tools/test --full)"
command -v aarch64-linux-gnu-gcc > /dev/null || skip "no aarch64-linux-gnu-gcc (tools/setup --ci installs it)"
command -v qemu-aarch64 > /dev/null || skip "no qemu-aarch64 (tools/setup --ci installs it)"
model=$(tools/models smollm2-135m) || skip "SmolLM2 could not be had"
export build=${SWIFTLET_AARCH64:-build-aarch64} model tokens=${1:-200} isa=${2:-i8mm} options="${*:3}"
tools/sysroot "$build/sysroot" || skip "Debian's packages for arm64 cannot be had"
cmake -G Ninja -B "$build" --toolchain tools/aarch64.cmake -DSWIFTLET_TESTS=ON -DSWIFTLET_WERROR=ON \
	-DSWIFTLET_CUDA=OFF > /dev/null
ninja -C "$build" swiftlet > /dev/null
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export folder

decode() { # METHOD
	QEMU_CPU=max qemu-aarch64 -L "$build/sysroot" "$build/swiftlet" run "$model" -p "Once upon a time there was" \
		-n "$tokens" --no-store --threads 1 --isa "$isa" --method "$1" --json $options > "$folder/$1.json"
}
export -f decode
methods=(vanilla auto swift ngram jacobi lookahead uniform random clasp layerskip)
printf '%s\n' "${methods[@]}" | xargs -P "$(nproc)" -I METHOD bash -c 'decode METHOD'
python3 - "$folder" "$tokens" << 'END'
import json, pathlib, sys
folder, tokens = pathlib.Path(sys.argv[1]), int(sys.argv[2])
plain = json.loads((folder / "vanilla.json").read_text())["tokens"]
wrong = 0
for file in sorted(folder.glob("*.json")):
    got = json.loads(file.read_text())
    right = got["tokens"] == plain and (len(plain) == tokens or got["stop"] == "eos")
    wrong += not right
    print(got["backend"], got["method"], len(got["tokens"]), "tokens,", got["full_passes"], "full passes,",
          got["draft_steps"], "draft steps,", got["accepted"], "accepted:", "as plain" if right else "OTHER TOKENS")
sys.exit(wrong > 0)
END
