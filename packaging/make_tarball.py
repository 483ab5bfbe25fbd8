#!/usr/bin/env python3
"""packaging/make_tarball.py BUILD OUT: a tarball of what `cmake --install` installs and of the libraries that it loads
(portable.py), to be unpacked anywhere. Prints its path.

The name says the processor and the oldest C library that it runs with: swiftlet-0.1.0-linux-x86_64-glibc2.35.tar.gz."""
import pathlib
import shutil
import sys
import tarfile
import tempfile

import portable

SOURCE = pathlib.Path(__file__).resolve().parent.parent


def as_root(entry):
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


def main():
    build, out = portable.Build(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / f"swiftlet-{build.version}"
        portable.run("cmake", "--install", build.folder, "--prefix", root, "--strip")
        shutil.rmtree(root / "lib" / "systemd")  # it names the folder that the build was configured for
        portable.take_libraries(build, root / "lib")
        for name in ("README.md", "LICENSE", "NOTICE"):
            shutil.copy(SOURCE / name, root / name)
        libc = "%d.%d" % build.oldest_libc(root)
        path = out / f"swiftlet-{build.version}-linux-{build.machine}-glibc{libc}.tar.gz"
        with tarfile.open(path, "w:gz", compresslevel=6) as tar:
            tar.add(root, root.name, filter=as_root)
    print(path)


main()
