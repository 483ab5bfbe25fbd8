#!/usr/bin/env bash
# SmolLM2 on an emulated 64-bit ARM: its tokens by every method are plain decoding's, with drafts made whether they pay
# or not. About half a second of a core a plain token, up to thrice that a method, hence only with --full, or by hand:
#   SWIFTLET_FULL=1 SWIFTLET_SOURCE=. tests/end-to-end/test_aarch64_real_model.sh [TOKENS [ISA…]]
# SWIFTLET_JOBS runs go on at once; results that lie in the folder SWIFTLET_KEEP are not computed again.
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
export build=${SWIFTLET_AARCH64:-build-aarch64} model tokens=${1:-48}
shift || true
[ $# -gt 0 ] || set -- neon dotprod i8mm
tools/sysroot "$build/sysroot" || skip "Debian's packages for arm64 cannot be had"
cmake -G Ninja -B "$build" --toolchain tools/aarch64.cmake -DSWIFTLET_TESTS=ON -DSWIFTLET_WERROR=ON \
	-DSWIFTLET_CUDA=OFF > /dev/null
ninja -C "$build" swiftlet > /dev/null
folder=${SWIFTLET_KEEP:-$(mktemp -d)}
[ -n "${SWIFTLET_KEEP:-}" ] || trap 'rm -rf "$folder"' EXIT
export folder
mkdir -p "$folder"
tests/end-to-end/parts.py "$folder" 30 576 9 3 64

decode() { # ISA METHOD [OPTION…]
	local out="$folder/$1-$2.json"
	[ -s "$out" ] && return
	QEMU_CPU=max qemu-aarch64 -L "$build/sysroot" "$build/swiftlet" run "$model" --raw -p "Once upon a time there was" \
		-n "$tokens" --no-store --threads 1 --isa "$1" --method "${@:2}" --draft always --max-draft 2 --max-tree 4 \
		--json > "$out.part"
	mv "$out.part" "$out"
}
export -f decode
methods=(
	vanilla auto swift ngram "self-spec --mask $folder/mask.json" uniform "kangaroo --adapter $folder/adapter.safetensors"
	"ppd --heads $folder/heads.safetensors" "adaspeed --stop-rule probe --probe $folder/probe.safetensors"
	"layerskip --exit-block 24" random clasp jacobi lookahead
)
for method in "${methods[@]}"; do
	printf "%s $method\n" "$@"
done | xargs -P "${SWIFTLET_JOBS:-$(nproc)}" -I RUN bash -ec "decode RUN"
python3 - "$folder" "$tokens" << 'END'
import json, pathlib, sys
folder, tokens = pathlib.Path(sys.argv[1]), int(sys.argv[2])
wrong = 0
for file in sorted(folder.glob("*-*.json")):
    isa = file.name.split("-")[0]
    plain = json.loads((folder / f"{isa}-vanilla.json").read_text())["tokens"]
    got = json.loads(file.read_text())
    right = got["tokens"] == plain and (len(plain) == tokens or got["stop"] == "eos")
    wrong += not right
    print(isa, got["method"], len(got["tokens"]), "tokens,", got["full_passes"], "full passes,",
          got["draft_steps"], "draft steps,", got["accepted"], "accepted,", round(got["seconds"]["decode"]), "s:",
          "as plain" if right else "OTHER TOKENS")
sys.exit(wrong > 0)
END
