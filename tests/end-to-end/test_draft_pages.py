#!/usr/bin/env python3
"""Drafts that read few pages of a long text: the tokens are those of plain decoding, greedily and sampled, in every way to draft."""
from support import DEMO, EndToEnd, main, read_lines, run, write_lines


class DraftPages(EndToEnd):
    def setUp(self):
        super().setUp()
        text = "\n".join(line["prompt"] for line in read_lines(DEMO) if "prompt" in line)
        self.input = self.path("in")
        lines = [{"id": str(i), "prompt": text[i * 400:i * 400 + 3000], "max_tokens": 48} for i in range(3)]
        write_lines(self.input, lines)
        self.short = self.path("short")  # for the reference, which is slow
        write_lines(self.short, [{"id": "0", "prompt": text[:2000], "max_tokens": 24}])

    def check(self, path, plain, options, sampling, least_prompt):
        with self.subTest(options=options, sampling=sampling):
            lines = self.stream("-i", path, *options, *sampling)
            self.assertEqual([line["tokens"] for line in plain], [line["tokens"] for line in lines])
            self.assertGreater(min(line["prompt_tokens"] for line in lines), least_prompt)
            if "always" in options:
                self.assertGreater(sum(line["draft_steps"] for line in lines), 0)

    def test_lossless(self):
        for sampling in [], ["--temp", "0.8", "--seed", "5"]:
            plain = self.stream("-i", self.input, "--method", "vanilla", *sampling)
            for options in (["--draft", "always", "--draft-pages", "1"],
                            ["--draft", "always", "--draft-pages", "1", "--threads", "1", "--max-tree", "paper", "--threshold", "0"],
                            ["--draft", "always", "--draft-pages", "3", "--draft-bits", "4"],
                            ["--draft-pages", "1"], ["--draft-pages", "auto"], ["--draft-pages", "off"], []):
                self.check(self.input, plain, options, sampling, 400)

    def test_lossless_by_the_reference(self):
        plain = self.stream("-i", self.short, "--method", "vanilla", "--isa", "reference")
        self.check(self.short, plain, ["--draft", "always", "--draft-pages", "1", "--isa", "reference"], [], 300)

    def test_numbers(self):
        for value in "0", "65", "few":
            message = self.status(2, run("run", "builtin", "-p", "a", "--draft-pages", value))
            self.assertIn("--draft-pages", message)


main()
