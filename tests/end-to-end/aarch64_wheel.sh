#!/usr/bin/env bash
# aarch64_wheel.sh BUILD: the wheel of a build for 64-bit ARM says by its tag what it needs, holds nothing for another
# processor, takes its libraries along, and answers under qemu: the same text as the program that it was made of. Its Debian
# package names the libraries' packages, and answers the same.
set -euo pipefail
build=$1
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
fail() {
	echo "$*"
	exit 1
}
wheel=$(tools/package wheel "$place" "$build")
python3 -m zipfile -e "$wheel" "$place/site"
libc=$(basename "$wheel" | sed -n 's/^swiftlet-[0-9.]*-py3-none-manylinux_2_\([0-9]*\)_aarch64\.whl$/\1/p')
[ -n "$libc" ] || fail "the tag of $wheel"
grep -qx "Tag: py3-none-manylinux_2_${libc}_aarch64" "$place"/site/*.dist-info/WHEEL || fail "WHEEL names another tag"
[ "$libc" -le 36 ] || fail "the wheel needs glibc 2.$libc, newer than Debian 12's"

packed=$place/site/swiftlet/bin
for file in "$packed"/swiftlet "$packed"/swiftlet-bench "$packed"/lib/*.so*[0-9]; do
	aarch64-linux-gnu-readelf -h "$file" | grep -q 'Machine: *AArch64' || fail "$file is for another processor"
	newest=$(aarch64-linux-gnu-readelf -V -W "$file" | grep -o 'Name: GLIBC_2\.[0-9]*' | sed 's/.*\.//' | sort -n | tail -1)
	[ "${newest:-0}" -le "$libc" ] || fail "$file needs glibc 2.$newest, the tag says 2.$libc"
	for library in $(aarch64-linux-gnu-readelf -d "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
		case $library in
		libc.so.* | libm.so.* | libresolv.so.* | libgcc_s.so.* | libstdc++.so.* | ld-linux-aarch64.so.*) ;;
		*) [ -s "$packed/lib/$library" ] && [ -s "$packed/lib/$library.copyright" ] || fail "$file loads $library, which is not packed" ;;
		esac
	done
done

ask() { # PROGRAM: the answer of the built-in model
	qemu-aarch64 -L "$build/sysroot" "$1" run builtin --raw -p "Once upon a time" -n 8 --no-store 2> /dev/null
}
chmod +x "$packed/swiftlet"
text=$(ask "$packed/swiftlet")
[ -n "$text" ] && [ "$text" = "$(ask "$build/swiftlet")" ] || fail "the wheel's program answers: $text"
echo "a wheel of $(du -m "$wheel" | cut -f1) MiB for glibc 2.$libc on aarch64 answers"
command -v dpkg-shlibdeps > /dev/null || exit 0
package=$(tools/package deb "$place" "$build")
[ "$(dpkg-deb -f "$package" Architecture)" = arm64 ] || fail "$package is for another processor"
for library in 'libc6 (>= 2\.' libmicrohttpd12 libopenblas0 libpcre2-8-0 libsqlite3-0; do
	dpkg-deb -f "$package" Depends | grep -q "$library" || fail "$package does not depend on $library"
done
dpkg-deb -x "$package" "$place/root"
[ "$(ask "$place/root/usr/bin/swiftlet")" = "$text" ] || fail "the Debian package's program answers otherwise"
echo "and so does a Debian package of $(du -m "$package" | cut -f1) MiB"
