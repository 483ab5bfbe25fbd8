#!/bin/bash
# An installed tree works from there alone: the program with its model, and the library for a C program
# found by pkg-config and by CMake.
set -eu
build=$(dirname "$SWIFTLET")
[ -f "$build/cmake_install.cmake" ] || { echo "skipped: $SWIFTLET is not in a build folder"; exit 77; }
[ -e "$build"/optimizer/libswiftlet.so ] || [ -e "$build"/libswiftlet.so ] || { echo "skipped: libswiftlet is not built"; exit 77; }
if grep -q __sanitizer "$SWIFTLET"; then echo "skipped: a sanitizer's library is not installed for others"; exit 77; fi
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cmake --install "$build" --prefix "$place/usr" > "$place/log"
unset SWIFTLET_DATA
cd "$place"
usr/bin/swiftlet run -p 'Once upon a time' -n 8 --temp 0 > program.txt
for program in "$SWIFTLET" usr/bin/swiftlet; do
	if LD_DEBUG=libs "$program" --version 2>&1 | grep 'trying file=[^/]'; then
		echo "$program takes libraries from the current folder"
		exit 1
	fi
done
library=$(dirname "$(find usr -name libswiftlet.so | head -1)")
for wanted in usr/include/swiftlet.h usr/share/man/man1/swiftlet.1 usr/lib/systemd/system/swiftlet.service \
	usr/share/bash-completion/completions/swiftlet usr/share/doc/swiftlet/methods.md "$library"/pkgconfig/swiftlet.pc "$library"/cmake/swiftlet/swiftlet-config.cmake; do
	[ -s "$wanted" ] || { echo "missing: $wanted"; exit 1; }
done
example=$(find usr -name example.c)
[ "$(wc -l < "$example")" -le 40 ] || { echo "the example has more than 40 lines"; exit 1; }
PKG_CONFIG_PATH=$place/$library/pkgconfig
export PKG_CONFIG_PATH SWIFTLET_DATA=$place/usr/share/swiftlet
cc -std=c11 "$example" $(pkg-config --cflags --libs swiftlet) -o by-pkg-config
LD_LIBRARY_PATH=$library ./by-pkg-config 'Once upon a time' > one.txt
mkdir project
cat > project/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.20)
project(example C)
find_package(swiftlet 0.1 REQUIRED)
add_executable(example example.c)
target_link_libraries(example swiftlet::swiftlet)
END
cp "$example" project/
cmake -G Ninja -S project -B project/build -DCMAKE_PREFIX_PATH="$place/usr" > log.cmake && cmake --build project/build > log.cmake
project/build/example 'Once upon a time' > two.txt
# the library states what the program states (the last line holds times)
usr/bin/swiftlet run -p 'Once upon a time' -n 64 --temp 0 2> /dev/null > whole.txt
first=$(head -c 40 whole.txt)
[ "$(head -c 40 one.txt)" = "$first" ] && [ "$(head -c 40 two.txt)" = "$first" ] || { head -3 one.txt two.txt whole.txt; exit 1; }
bash -c 'source usr/share/bash-completion/completions/swiftlet; PATH=$PWD/usr/bin:$PATH
COMP_WORDS=(swiftlet serve --api); COMP_CWORD=2; _swiftlet; [ "${COMPREPLY[*]}" = "--api-key --api-key-file" ] || exit 1
COMP_WORDS=(swiftlet run --method l); COMP_CWORD=3; _swiftlet; [ "${COMPREPLY[*]}" = "lookahead layerskip" ] || exit 1
COMP_WORDS=(swiftlet to); COMP_CWORD=1; _swiftlet; [ "${COMPREPLY[*]}" = tokenize ] || exit 1
COMP_WORDS=(swiftlet bench rep); COMP_CWORD=2; _swiftlet; [ "${COMPREPLY[*]}" = replay ] || exit 1
export XDG_CACHE_HOME=$(mktemp -d) HF_HOME=/nowhere; cd "$XDG_CACHE_HOME"
COMP_WORDS=(swiftlet run ""); COMP_CWORD=2; _swiftlet 2> /dev/null; [ "${COMPREPLY[*]}" = "" ] || exit 1
mkdir -p swiftlet/models; printf "GGUF" > swiftlet/models/little.gguf
COMP_WORDS=(swiftlet run ""); COMP_CWORD=2; _swiftlet 2> /dev/null; [ "${COMPREPLY[*]}" = little ] || exit 1
rm -r "$XDG_CACHE_HOME"'
if command -v mandoc > /dev/null; then mandoc -T lint -W error usr/share/man/man1/swiftlet.1; fi
echo "installed, and used from there by pkg-config and CMake"
