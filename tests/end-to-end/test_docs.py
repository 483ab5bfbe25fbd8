#!/usr/bin/env python3
"""The pages for people: links, paths, options and commands that they name exist, and every option is explained."""
import glob
import os
import re
import subprocess
import sys
import unittest

from support import SOURCE, SWIFTLET, EndToEnd, main, run

PAGES = ["README.md", "CONTRIBUTING.md", *(os.path.join("docs", os.path.basename(page))
                                           for page in glob.glob(os.path.join(SOURCE, "docs", "*.md")))]
ROOMS = ("core/", "docs/", "gp/", "kernels/", "optimizer/", "packaging/", "streams/", "tests/", "tools/")
COMMANDS = ["run", "chat", "serve", "pull", "list", "stream", "learn", "masks", "inspect", "tokenize"]
OF_OTHERS = {"--before", "--dry-run", "--folder", "--full", "--ci", "--list", "--only", "--preset", "--rehearse", "--results",
             "--stat", "--tests", "--toolchain", "--write", "--cuts"}  # of scripts, git, CMake


def text_of(page):
    with open(os.path.join(SOURCE, page), encoding="utf-8") as file:
        return file.read()


# The constants of the service's second table of limits, row by row; and those of fields whose message names the field's range.
LIMITS = ["JSON_DEPTH", "API_MAX_VALUES", "API_MAX_KEYS", "API_MAX_NUMBERS", "CHAT_MAX_MESSAGES", "API_MAX_CHOICES", "API_MAX_CHOICES",
          "API_MAX_STOPS", "API_MAX_STOP_BYTES", "API_MAX_SHOWN", "API_MAX_BIASES", "API_MAX_GUIDED", "MAX_NAMED", "READER_REPEAT", "MAX_SCHEMA_BYTES",
          "MAX_SCHEMA_DEPTH", "MAX_SCHEMAS", "MAX_PROPERTIES", "MAX_ITEMS", "MAX_SCHEMAS_EITHER"]
OTHER_LIMITS = ["API_MAX_N", "API_MAX_TOP", "API_MAX_TASK"]


def rows_of_limits(columns):
    """The rows of the service's tables of limits that have as many columns."""
    limits = text_of("docs/service.md").split("## Limits")[1].split("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in limits.splitlines() if line.startswith("|")]
    return [row for row in rows if len(row) == columns][2:]


def value_of(constant, source):
    """Of a constant of an enum: a number, a shift, or another constant."""
    value = re.search(r"^(?!\s*/?\*).*?\b%s = ([\w<> ]+?)\s*[,}/\n]" % constant, source, re.M).group(1)
    if re.fullmatch(r"[\d< ]+", value):
        left, _, right = value.partition("<<")
        return int(left) << int(right or 0)
    return value_of(value, source)


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

    def test_calls_of_linux_alone_are_listed_by_file(self):
        """docs/porting.md names each file that calls what macOS lacks."""
        sources = {}
        for room in ("core", "gp", "kernels", "optimizer", "streams", "tools"):
            for path in glob.glob(os.path.join(SOURCE, room, "**", "*.[ch]"), recursive=True):
                sources[os.path.relpath(path, SOURCE)] = re.sub(r"/\*.*?\*/", "", text_of(path), flags=re.S)
        rows = [line.split("|")[1:4] for line in text_of("docs/porting.md").splitlines() if line.startswith("| `")]
        named = {}
        for calls, files, _ in rows:
            for call in re.findall(r"`([^`]+)`", calls):
                named.setdefault(call, set()).update(re.findall(r"`([^`]+)`", files))
        for call in ("getauxval", "sched_getaffinity", "sem_init", "MADV_HUGEPAGE", "MADV_DONTNEED", "/proc/", "/sys/", "qsort_r",
                     "SCHED_IDLE", "MAP_NORESERVE", "getrandom", "eventfd", "pthread_condattr_setclock", "epoll_create1", "accept4",
                     "POLLRDHUP", "SOCK_CLOEXEC", "MSG_NOSIGNAL", "syscall(", "mremap", "gettid", "pthread_barrier_init", "pipe2"):
            with self.subTest(call=call):
                listed = set().union(*(files for name, files in named.items() if name.startswith(call)))
                self.assertEqual({path for path, text in sources.items() if re.search(r"(?<!\w)" + re.escape(call), text)}, listed)

    def test_the_manual_page_is_made_of_the_help(self):
        made = subprocess.run([sys.executable, os.path.join(SOURCE, "tools", "man_page"), SWIFTLET], capture_output=True, text=True, check=True)
        self.assertEqual(made.stdout, text_of("packaging/swiftlet.1"), "tools/man_page writes it")

    def test_limits_are_those_of_the_table(self):
        """Each default is the help's, each code and gauge stands in the service's source."""
        rows = rows_of_limits(6)
        whole = run("serve", "--help-all").stdout.decode()
        source = "".join(text_of(os.path.relpath(path, SOURCE)) for path in glob.glob(os.path.join(SOURCE, "streams", "service", "*.[ch]")))
        self.assertGreater(len(rows), 12)
        for limit, option, default, status, code, gauge in rows:
            with self.subTest(limit=limit):
                if option != "fixed":
                    reported = re.search(r"^  (?:-., )?%s .*(?:\n {10,}.*)*" % option.strip("`"), whole, re.M).group()
                    self.assertIn("no limit" if default == "none" else default, reported)
                else:
                    number = int(default.split()[0]) * {"KiB": 1, "MiB": 1}.get(default.split()[-1], 1)
                    texts = source + text_of("core/grammar/acceptor.c")
                    wanted = {"32 KiB": "32 << 10", "8 MiB": "8 << 20", "2097152": "1 << 21"}.get(default, str(number))
                    self.assertIn(wanted, texts)
                if code:
                    self.assertRegex(source, r"%s" % code.strip("`"))
                if gauge:
                    self.assertIn('"%s"' % gauge.strip("`").removeprefix("swiftlet_"), source)
                if status.isdigit():
                    self.assertIn(status, source)

    def test_limits_of_a_request_are_the_constants(self):
        """Each row's number is its constant's, and the message with that number is the source's. No constant lacks a row."""
        source = "".join(text_of(os.path.relpath(path, SOURCE))  # headers first
                         for folder in ("streams", "streams/service", "core/grammar")
                         for path in sorted(glob.glob(os.path.join(SOURCE, folder, "*.[ch]")), key=lambda path: path.endswith(".c")))
        rows = rows_of_limits(3)
        self.assertEqual(len(rows), len(LIMITS), "a row for each constant, in the same order")
        for (limit, most, message), constant in zip(rows, LIMITS):
            with self.subTest(limit=limit):
                self.assertEqual(value_of(constant, source), int(most))
                self.assertEqual(message.count(most), 1)
                pattern = re.escape(message.strip("`")).replace(most, "(?:%d|%zu|" + most + ")").replace(r"\ ", r'\s*(?:"\s*")?\s*')
                self.assertRegex(source, pattern)
        self.assertEqual(set(re.findall(r"\b(?:API|CHAT)_MAX_\w+", source)) - set(LIMITS), set(OTHER_LIMITS))


def bench_options():
    parts = re.findall(r"^  ([a-z-]+) ", run("bench", "--help").stdout.decode(), re.M)
    return set().union(*(options_of(run("bench", part, "--help-all").stdout.decode()) for part in parts))


if __name__ == "__main__":
    main()
