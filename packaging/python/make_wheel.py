#!/usr/bin/env python3
"""packaging/python/make_wheel.py BUILD OUT: a wheel of the program that BUILD holds, the shared libraries that it loads but
for the C library's own, the built-in model, and the Python module beside this file. Prints the wheel's path.

The wheel's tag names the C library that it was built with: manylinux_2_36_x86_64 is Debian 12's."""
import base64
import hashlib
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
SYSTEM = re.compile(r"(ld-linux.*|libc|libm|libdl|librt|libpthread|libresolv|libgcc_s|libstdc\+\+|libcuda)\.so.*")
METADATA = """Metadata-Version: 2.1
Name: swiftlet
Version: %s
Summary: Language models on this machine, several tokens a pass, with exactly the text of ordinary decoding
License: Apache-2.0
Requires-Python: >=3.9
Classifier: Typing :: Typed
Classifier: Operating System :: POSIX :: Linux
Description-Content-Type: text/markdown

%s"""


def run(*command):
    return subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def version_of(build):
    return re.search(r"^CMAKE_PROJECT_VERSION:STATIC=(.*)$", (build / "CMakeCache.txt").read_text(), re.M).group(1)


def libraries(program):
    """The libraries that the program loads, directly or not, by the name that it asks for."""
    for line in run("ldd", program).splitlines():
        found = re.match(r"\s*(\S+) => (/\S+)", line)
        if found and not SYSTEM.fullmatch(found.group(1)):
            yield found.group(1), pathlib.Path(found.group(2))


def licence_of(library):
    """Debian's copyright file of the package that the library is from."""
    real = str(library.resolve())
    for name in (real, real.removeprefix("/usr")): # where / and /usr are one, packages know either name
        found = subprocess.run(["dpkg", "-S", name], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if found.returncode == 0:
            return pathlib.Path("/usr/share/doc") / found.stdout.split(":")[0] / "copyright"
    raise SystemExit(f"make_wheel: no package has {library}, whose licence has to come along")


def collect(build, package, version):
    """The package's files, in a folder."""
    shutil.copytree(HERE / "swiftlet", package, ignore=shutil.ignore_patterns("__pycache__"))
    module = package / "__init__.py"
    module.write_text(module.read_text().replace("@VERSION@", version))
    (package / "bin" / "lib").mkdir(parents=True)
    for name in ("swiftlet", "swiftlet-bench"):
        shutil.copy(build / name, package / "bin" / name)
        run("strip", "--strip-all", package / "bin" / name)
    for name, path in {**dict(libraries(build / "swiftlet")), **dict(libraries(build / "swiftlet-bench"))}.items():
        shutil.copy(path, package / "bin" / "lib" / name)
        run("strip", "--strip-unneeded", package / "bin" / "lib" / name)
        shutil.copy(licence_of(path), package / "bin" / "lib" / f"{name}.copyright")
    share = package / "share" / "swiftlet"
    share.mkdir(parents=True)
    shutil.copytree(SOURCE / "core" / "builtin", share / "builtin")
    shutil.copy(SOURCE / "tools" / "models", share / "fetch-models")


def write_wheel(folder, tag, version, out):
    info = folder / f"swiftlet-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA % (version, (SOURCE / "README.md").read_text()))
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: swiftlet\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n")
    (info / "entry_points.txt").write_text("[console_scripts]\nswiftlet = swiftlet:_main\n")
    for name in ("LICENSE", "NOTICE"):
        shutil.copy(SOURCE / name, info / name)
    path = out / f"swiftlet-{version}-py3-none-{tag}.whl"
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for file in sorted(f for f in folder.rglob("*") if f.is_file()):
            name = str(file.relative_to(folder))
            digest = base64.urlsafe_b64encode(hashlib.sha256(file.read_bytes()).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{file.stat().st_size}")
            entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100755 if file.stat().st_mode & 0o100 else 0o100644) << 16  # a regular file
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, file.read_bytes())
        name = f"{info.name}/RECORD"
        wheel.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), "\n".join([*record, name + ",,"]) + "\n")
    return path


def main():
    build, out = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    version, libc = version_of(build), platform.libc_ver()[1].split(".")
    tag = f"manylinux_{libc[0]}_{libc[1]}_{platform.machine()}"
    with tempfile.TemporaryDirectory() as folder:
        collect(build, pathlib.Path(folder) / "swiftlet", version)
        print(write_wheel(pathlib.Path(folder), tag, version, out))


main()
