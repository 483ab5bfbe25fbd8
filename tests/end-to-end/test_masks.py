#!/usr/bin/env python3
"""Masks as files and in the store: both formats, refusals, and a mask that was saved is the one that is used."""
import json

from support import DEMO, PROMPT, SANITIZED, EndToEnd, main, read_lines, run, write_lines


class Masks(EndToEnd):
    learned = None

    def write(self, name, value):
        with open(self.path(name), "w", encoding="utf-8") as file:
            json.dump(value, file)
        return self.path(name)

    def saved(self):
        """A mask that was learned; one seed, one mask, so that it is learned once."""
        path = self.path("saved.json")
        if not Masks.learned:
            self.json("-p", PROMPT, "-n", 64, "--preset", "paper", "--task", "math", "--save-mask", path)
            with open(path, "rb") as file:
                Masks.learned = file.read()
        with open(path, "wb") as file:
            file.write(Masks.learned)
        return path

    def test_a_saved_mask_is_used_again(self):
        path = self.saved()
        with open(path, encoding="utf-8") as file:
            mask = json.load(file)
        self.assertEqual(mask["format"], "swiftlet-mask-1")
        self.assertEqual(mask["blocks"], 20)
        self.assertEqual(mask["task"], "math")
        self.assertEqual(len(mask["fingerprint"]), 64)
        again = self.json("-p", PROMPT, "-n", 32, "--mask", path, "--search", "off", "--draft", "always")
        self.assertEqual(again["mask"], {"attention": mask["attention"], "mlp": mask["mlp"]})
        self.assertEqual(again["optimize_steps"], 0)

    def test_draws_two_rows_of_a_cell_a_block(self):
        path = self.write("skip", {"a_b": {"attention": [1, 3], "mlp": [2]}})
        result = run("masks", "show", path, "-m", "builtin")
        self.status(0, result)
        rows = [line for line in result.stdout.decode().splitlines() if "skipped" in line and line.startswith("  ")]
        self.assertEqual([row.count("■") + row.count("□") for row in rows], [20, 20])
        self.assertIn("attention □■□■□", rows[0])
        self.assertEqual([row.count("■") for row in rows], [2, 1])

    def test_levels_are_kept_and_drawn(self):
        levels = {"attention": [0.5, 0.6, 0.7], "attention_output": [0.5] * 3, "mlp": [0.5] * 3, "down": [0.25] * 3}
        path = self.write("levels", {"format": "swiftlet-mask-2", "model": "m", "fingerprint": "f" * 64, "blocks": 6,
                                     "task": "t", "attention": [], "mlp": [2], "levels": levels})
        store = ["--store", self.path("levels.db")]
        self.status(0, run("masks", "import", path, *store))
        back = json.loads(run("masks", "export", "1", *store).stdout)
        self.assertEqual((back["format"], back["levels"], back["mlp"]), ("swiftlet-mask-2", levels, [2]))
        shown = run("masks", "show", "1", *store).stdout.decode()
        self.assertIn("attention ▅▅▅▅▅▅  0 of 6 skipped", shown)
        self.assertIn("MLP       ▄▄■▄▄▄  1 of 6 skipped", shown)
        self.assertIn("middle: attention 60 %, its output 50 %, MLP 50 %, down 25 %", shown)

    def test_drafts_read_a_masks_levels(self):
        plain = self.json("-p", PROMPT, "-n", 64, "--method", "vanilla")
        weights = ["-p", PROMPT, "-n", 64, "--draft-bits", 4, "--draft", "always", "--max-tree", 8]
        first = self.json(*weights, "--search", "off")
        if not first["read"] or first["read"] == 1:
            self.skipTest("no draft weights by input channel here")
        share = {kind: [0.3] * 3 for kind in ["attention", "attention_output", "mlp", "down"]}
        path = self.write("less", {"format": "swiftlet-mask-2", "attention": [], "mlp": [], "levels": share})
        less = self.json(*weights, "--search", "off", "--mask", path)
        self.assertAlmostEqual(less["read"], 0.3, delta=0.01)
        saved = self.path("found.json")
        found = self.json(*weights, "--opt-budget", "inf", "--save-mask", saved)
        self.assertGreater(found["optimize_steps"], 0)
        self.status(0, run("masks", "show", saved))
        again = self.json(*weights, "--search", "off", "--mask", saved)
        self.assertEqual(again["read"], found["read"])
        for report in (first, less, found, again):
            self.assertEqual(report["tokens"], plain["tokens"])

    def test_formats_there_and_back(self):
        path = self.saved()
        published = self.path("skip_layers.json")
        self.status(0, run("masks", "export", path, "--format", "skip_layers", "-o", published))
        with open(published, encoding="utf-8") as file:
            layers = json.load(file)
        with open(path, encoding="utf-8") as file:
            mask = json.load(file)
        self.assertEqual(list(layers), ["builtin_math"])
        self.assertEqual(layers["builtin_math"], {"attention": mask["attention"], "mlp": mask["mlp"]})
        back = self.path("back.json")
        self.status(1, run("masks", "import", published, "-o", back))  # of which model?
        self.status(0, run("masks", "import", published, "-m", "builtin", "--task", "sums", "-o", back))
        with open(back, encoding="utf-8") as file:
            again = json.load(file)
        self.assertEqual(again["fingerprint"], mask["fingerprint"])
        self.assertEqual(again["task"], "sums")
        self.assertEqual(again["mlp"], mask["mlp"])

    def test_key_picks_one(self):
        path = self.write("two", {"m_a": {"attention": [1], "mlp": []}, "m_b": {"attention": [2], "mlp": []}})
        self.assertIn("m_a, m_b", self.status(1, run("run", "-p", "a", "-n", 4, "--mask", path)))
        report = self.json("-p", "a", "-n", 4, "--mask", path, "--key", "m_b", "--search", "off")
        self.assertEqual(report["mask"]["attention"], [2])
        self.status(1, run("run", "-p", "a", "-n", 4, "--mask", path, "--key", "m_c"))

    def test_refuses_what_does_not_fit(self):
        ours = {"format": "swiftlet-mask-1", "model": "other", "fingerprint": "f" * 64, "blocks": 20, "task": None,
                "attention": [3], "mlp": [4], "matchness": None, "alpha": None, "M": None, "skip_ratio": None,
                "tokens_served": 0}
        other = self.write("other", ours)
        self.assertIn("another model", self.status(1, run("run", "-p", "a", "-n", 4, "--mask", other)))
        self.json("-p", "a", "-n", 4, "--mask", other, "--force")
        for name, blocks in [("first", [0]), ("last", [19]), ("beyond", [20])]:
            path = self.write(name, {"k": {"attention": blocks, "mlp": []}})
            self.assertIn("block %d" % blocks[0], self.status(1, run("run", "-p", "a", "-n", 4, "--mask", path, "--force")))
            self.status(1, run("masks", "show", path, "-m", "builtin"))

    def test_the_store(self):
        store = ["--store", self.path("masks.db")]
        path = self.saved()
        self.status(1, run("masks", "list", *store))  # there is none yet
        self.status(0, run("masks", "import", path, *store))
        listed = run("masks", "list", *store)
        self.status(0, listed)
        self.assertIn("math", listed.stdout.decode())
        number = listed.stdout.decode().splitlines()[1].split()[0]
        rows = json.loads(run("masks", "list", "--json", *store).stdout)
        self.assertEqual([(str(row["id"]), row["text"], row["in_use"], row["speedup"]) for row in rows],
                         [(number, "math", True, None)])  # a file has no times
        self.status(0, run("masks", "show", number, *store))
        exported = run("masks", "export", number, *store)
        with open(path, encoding="utf-8") as file:
            mask = json.load(file)
        back = json.loads(exported.stdout)
        for field in ["model", "fingerprint", "blocks", "task", "attention", "mlp", "tokens_served"]:
            self.assertEqual(back[field], mask[field], field)
        self.status(0, run("masks", "delete", number, *store))
        self.status(1, run("masks", "delete", number, *store))
        self.status(1, run("masks", "show", number, *store))

    def test_a_stream_leaves_its_masks_in_the_store(self):
        store = ["--store", self.path("masks.db")]
        write_lines(self.path("in"), read_lines(DEMO)[:4 if SANITIZED else 12])
        plain = self.stream("-i", self.path("in"), "--method", "vanilla")
        for _ in range(2):  # the second finds what the first left
            lines = self.stream("-i", self.path("in"), "--draft", "always", "--max-tree", "16", "--opt-budget", "inf", *store)
            self.assertEqual([line["tokens"] for line in lines], [line["tokens"] for line in plain])
            listed = run("masks", "list", *store)
            self.status(0, listed)
            for prompt in read_lines(self.path("in")):
                self.assertIn(prompt["task"], listed.stdout.decode())
            rows = json.loads(run("masks", "list", "--json", *store).stdout)
            self.assertTrue(any(row["speedup"] for row in rows), rows)
        with open(self.path("text"), "w", encoding="utf-8") as file:
            file.write("no database")
        self.status(1, run("stream", "-i", self.path("in"), "--store", self.path("text")))
        with open(self.path("text"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "no database")


main()
