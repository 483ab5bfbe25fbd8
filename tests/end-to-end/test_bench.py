#!/usr/bin/env python3
"""Parts of `swiftlet bench` that no other test runs to their end: each ends well, and its table has what its help
promises."""
import json

from support import DEMO, EndToEnd, main, run


class Bench(EndToEnd):
    def measure(self, part, *arguments):
        result = run("bench", part, "builtin", *arguments, "--json")
        self.status(0, result)
        return json.loads(result.stdout)

    def test_levels(self):
        rows = self.measure("levels", "-i", DEMO, "-p", 1, "-n", 8, "--kept", "0.9,0.9,0.9,0.9")["levels"]
        self.assertEqual([row["read"] for row in rows[:6]], sorted((row["read"] for row in rows[:6]), reverse=True))
        self.assertEqual(len({row["rows"] for row in rows}), 1)
        self.assertTrue(all(0 <= row["alpha"] <= 1 and row["c"] > 0 for row in rows))

    def test_search(self):
        rows = self.measure("search", "-i", DEMO, "-n", 24, "--reads", "50", "--evaluations", 10, "--windows", 1)["rows"]
        self.assertTrue(rows)

    def test_pages(self):
        self.assertTrue(self.measure("pages", "-i", DEMO, "-p", 1, "-n", 16))


main()
