#!/usr/bin/env python3
"""The pages for people: links, paths, options and commands that they name exist, and every option is explained."""
import glob
import os
import re
import unittest

from support import SOURCE, EndToEnd, main, run

PAGES = ["README.md", "CONTRIBUTING.md", *(os.path.join("docs", os.path.basename(page))
                                           for page in glob.glob(os.path.join(SOURCE, "docs", "*.md")))]
ROOMS = ("core/", "docs/", "gp/", "kernels/", "optimizer/", "packaging/", "streams/", "tests/", "tools/")
COMMANDS = ["run", "chat", "serve", "pull", "list", "stream", "learn", "masks", "inspect", "tokenize"]
OF_OTHERS = {"--before", "--dry-run", "--folder", "--full", "--ci", "--list", "--only", "--preset", "--rehearse", "--results",
             "--stat", "--toolchain", "--write", "--cuts"}  # of scripts, git, CMake


def text_of(page):
    with open(os.path.join(SOURCE, page), encoding="utf-8") as file:
        return file.read()


def options_of(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9_-]+", text))


class Pages(EndToEnd):
    def test_readme_takes_three_minutes(self):
        self.assertLessEqual(len(text_of("README.md").splitlines()), 120)

    def test_links_lead_somewhere(self):
        for page in PAGES:
            for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text_of(page)):
                if "://" not in link:
                    with self.subTest(page=page, link=link):
                        self.assertTrue(os.path.exists(os.path.join(SOURCE, os.path.dirname(page), link)))

    def test_headings_that_are_linked_exist(self):
        for page in PAGES:
            for link, heading in re.findall(r"\]\(([^)#\s]*)#([^)]*)\)", text_of(page)):
                if "://" in link:
                    continue
                other = os.path.normpath(os.path.join(os.path.dirname(page), link)) if link else page
                titles = [re.sub(r"[^\w -]", "", title.lower()).strip().replace(" ", "-")
                          for title in re.findall(r"^#+ (.*)$", text_of(other), re.M)]
                with self.subTest(page=page, heading=heading):
                    self.assertIn(heading, titles)

    def test_paths_that_are_named_exist(self):
        for page in PAGES:
            for path in re.findall(r"`([\w./-]+)`", text_of(page)):
                path = path.rstrip("/")
                if path.startswith(ROOMS) and not re.search(r"NAME|FOLDER|FILE", path):
                    with self.subTest(page=page, path=path):  # a file, a folder, or a test by its CTest name
                        name = path.split("/")[-1].replace("_emulated", "")
                        names = (name, name.replace("cuda_", ""))
                        tests = [glob.glob(os.path.join(SOURCE, "tests", "*", "*_%s.*" % name)) for name in names]
                        self.assertTrue(os.path.exists(os.path.join(SOURCE, path)) or any(tests))

    def test_options_that_are_named_exist_and_all_are_explained(self):
        texts = {command: run(command, "--help-all").stdout.decode() for command in COMMANDS}
        helps = {command: options_of(text.split("\nNames of other")[0]) for command, text in texts.items()}
        known = options_of(" ".join(texts.values()))
        explained = set()
        for page in ["docs/usage.md", "docs/service.md", "docs/methods.md"]:
            explained |= options_of(text_of(page))
            self.assertEqual(options_of(text_of(page)) - known - OF_OTHERS - bench_options(), set(), page)
        for command in ("run", "chat", "stream", "serve", "learn"):
            self.assertEqual(helps[command] - explained - {"--help", "--help-all", "--version"}, set(), command)


def bench_options():
    parts = re.findall(r"^  ([a-z-]+) ", run("bench", "--help").stdout.decode(), re.M)
    return set().union(*(options_of(run("bench", part, "--help-all").stdout.decode()) for part in parts))


if __name__ == "__main__":
    main()
