"""What a program takes along to a machine that has none of its libraries: the shared libraries that it loads but for the C
library's own, each with its licence. The wheel and the tarball hold them.

A build for another processor (tools/aarch64.cmake) names a sysroot; its loader, run by qemu, says what is loaded."""
import pathlib
import re
import shutil
import subprocess
import sys

SYSTEM = re.compile(r"(ld-linux.*|libc|libm|libdl|librt|libpthread|libresolv|libgcc_s|libstdc\+\+|libcuda)\.so.*")
PROGRAMS = ("swiftlet", "swiftlet-bench")


def run(*command):
    try:
        return subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True).stdout
    except FileNotFoundError:
        sys.exit(f"packaging: {command[0]} is missing; on Debian tools/setup --ci installs it")


class Build:
    def __init__(self, folder):
        self.folder = folder
        self.cache = dict(re.findall(r"^(\w+):\w+=(.*)$", (folder / "CMakeCache.txt").read_text(), re.M))
        self.version = self.cache["CMAKE_PROJECT_VERSION"]
        self.sysroot = self.cache.get("SWIFTLET_SYSROOT")
        self.strip = self.cache["CMAKE_STRIP"]
        self.readelf = self.cache["CMAKE_READELF"]
        header = run(self.readelf, "-h", folder / PROGRAMS[0])
        self.machine = "aarch64" if "AArch64" in header else "x86_64"

    def libraries(self, program):
        """The libraries that the program loads, directly or not, by the name that it asks for."""
        loader = ["ldd"]
        if self.sysroot:
            loader = [f"qemu-{self.machine}", "-L", self.sysroot, f"{self.sysroot}/lib/ld-linux-{self.machine}.so.1", "--list"]
        for line in run(*loader, program).splitlines():
            found = re.match(r"\s*(\S+) => (/\S+)", line)
            if found and not SYSTEM.fullmatch(pathlib.Path(found.group(1)).name):
                yield found.group(1), pathlib.Path((self.sysroot or "") + found.group(2))

    def licence_of(self, library):
        """Debian's copyright file of the package that the library is from."""
        real, root = str(library.resolve()), self.sysroot or ""
        if self.sysroot:
            name = real.removeprefix(str(pathlib.Path(self.sysroot).resolve()))
            packages = re.findall(rf"^(\S+) \.{re.escape(name)}$", pathlib.Path(root, "files").read_text(), re.M)
        else:
            owners = subprocess.run(["dpkg", "-S", real, real.removeprefix("/usr")], stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL, text=True)  # where / and /usr are one, packages know either name
            packages = [owner.split(":")[0] for owner in owners.stdout.splitlines()]
        if not packages:
            raise SystemExit(f"tools/package: no package has {library}, whose licence has to come along")
        return pathlib.Path(root + "/usr/share/doc") / packages[0] / "copyright"

    def oldest_libc(self, folder):
        """The C library that the files below need, as (2, 36): the newest of the versions that their symbols name."""
        programs = [f for f in folder.rglob("*") if f.is_file() and f.open("rb").read(4) == b"\x7fELF"]
        versions = re.findall(r"Name: GLIBC_(\d+)\.(\d+)", run(self.readelf, "-V", "-W", *programs))
        return max((int(major), int(minor)) for major, minor in versions)


def take_libraries(build, folder):
    """The libraries of the programs, stripped, each with its licence beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in {n: p for program in PROGRAMS for n, p in build.libraries(build.folder / program)}.items():
        shutil.copy(path, folder / name)
        run(build.strip, "--strip-unneeded", folder / name)
        shutil.copy(build.licence_of(path), folder / f"{name}.copyright")
