#!/usr/bin/env python3
"""packaging/python/make_wheel.py BUILD OUT: a wheel of the program that BUILD holds with what it takes along (portable.py),
and the Python module beside this file. Prints the wheel's path.

The wheel's tag names the oldest C library and the processor that it runs with: manylinux_2_34_x86_64."""
import base64
import hashlib
import pathlib
import shutil
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
import portable  # noqa: E402

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


def write_package(build, package):
    shutil.copytree(HERE / "swiftlet", package, ignore=shutil.ignore_patterns("__pycache__"))
    module = package / "__init__.py"
    module.write_text(module.read_text().replace("@VERSION@", build.version))
    portable.take_libraries(build, package / "bin" / "lib")
    for name in portable.PROGRAMS:
        shutil.copy(build.folder / name, package / "bin" / name)
        portable.run(build.strip, "--strip-all", package / "bin" / name)
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
    build, out = portable.Build(pathlib.Path(sys.argv[1]).resolve()), pathlib.Path(sys.argv[2]).resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        package = pathlib.Path(folder) / "swiftlet"
        write_package(build, package)
        major, minor = build.oldest_libc(package)
        print(write_wheel(pathlib.Path(folder), f"manylinux_{major}_{minor}_{build.machine}", build.version, out))


main()
