"""Arrows between the rooms, as the linker sees them: core/decode knows nothing of the optimizer, and within a room files call
one another only downwards. (That a room includes only what it may see is the build's: see room() in CMakeLists.txt.)"""
import collections
import os
import re
import subprocess
import tempfile
import unittest

from support import SOURCE, SWIFTLET

BUILD = os.path.dirname(SWIFTLET)
ROOMS = {"gp": "gp/libgp.a", "core/draft": "core/libcore-draft.a", "core/decode": "core/libcore-decode.a",
         "optimizer": "optimizer/liboptimizer.a"}


def symbols(library):
    """For each object: the symbols that it defines for others, and those that it needs."""
    defines, asks = collections.defaultdict(set), collections.defaultdict(set)
    for line in subprocess.run(["nm", "-A", library], check=True, capture_output=True, text=True).stdout.splitlines():
        file, rest = line.rsplit(":", 1)[0].split(":", 1)[-1].split(":")[0], line.split()
        kind, name = rest[-2], rest[-1]
        if kind == "U":
            asks[file].add(name)
        elif kind in "TDBRVW":
            defines[file].add(name)
    return defines, asks


def calls(library):
    defines, asks = symbols(library)
    owner = {name: file for file, names in defines.items() for name in names}
    return {file: {owner[name] for name in asks[file] if name in owner and owner[name] != file} for file in set(defines) | set(asks)}


def circle(graph):
    """A path that comes back to where it began; None where there is none."""
    done = set()

    def visit(file, path):
        if file in path:
            return path[path.index(file):] + [file]
        if file in done:
            return None
        for next_file in sorted(graph.get(file, ())):
            found = visit(next_file, path + [file])
            if found:
                return found
        done.add(file)
        return None

    return next((found for found in (visit(file, []) for file in sorted(graph)) if found), None)


class Rooms(unittest.TestCase):
    def test_the_tests_of_one_room_can_be_built_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            made = subprocess.run(["cmake", "-G", "Ninja", "-S", SOURCE, "-B", folder, "-DSWIFTLET_TESTS=ON", "-DSWIFTLET_CUDA=OFF",
                                   "-DSWIFTLET_TEST_ROOMS=core"], capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stderr)

    def test_files_call_only_downwards(self):
        for room, library in ROOMS.items():
            graph = calls(os.path.join(BUILD, library))
            self.assertGreater(sum(map(len, graph.values())), 2 if room == "gp" else 3, room)
            self.assertIsNone(circle(graph), f"{room}: files call one another in a circle")

    def test_a_circle_is_found(self):
        self.assertEqual(circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}), ["b", "c", "b"])

    def test_decoding_knows_nothing_of_search(self):
        upward = re.compile(r'#include "(optimizer|gp|streams|tools)/')
        for folder, _, files in os.walk(os.path.join(SOURCE, "core")):
            for name in files:
                if name.endswith((".c", ".h")):
                    with open(os.path.join(folder, name)) as file:
                        self.assertIsNone(upward.search(file.read()), name)
        above = set().union(*symbols(os.path.join(BUILD, ROOMS["optimizer"]))[0].values())
        asked = set().union(*symbols(os.path.join(BUILD, ROOMS["core/decode"]))[1].values())
        self.assertEqual(above & asked, set())


if __name__ == "__main__":
    unittest.main()
