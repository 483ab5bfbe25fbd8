#!/usr/bin/env python3
"""Drafts that read few pages of a long text: the tokens are those of plain decoding, greedily and sampled, in every way to draft."""
from support import DEMO, EndToEnd, main, read_lines, run, write_lines


class DraftPages(EndToEnd):
    def setUp(self):
        super().setUp()
        text = "\n".join(line["prompt"] for line in read_lines(DEMO) if "prompt" in line)
        self.input = self.path("in")
        write_lines(self.input, [{"id": str(i), "prompt": text[i * 400:i * 400 + 3000], "max_tokens": 48} for i in range(3)])

    def test_lossless(self):
        for sampling in [], ["--temp", "0.8", "--seed", "5"]:
            plain = self.stream("-i", self.input, "--method", "vanilla", *sampling)
            for options in (["--draft", "always", "--draft-pages", "1"],
                            ["--draft", "always", "--draft-pages", "1", "--threads", "1", "--max-tree", "paper", "--threshold", "0"],
                            ["--draft", "always", "--draft-pages", "3", "--draft-bits", "4"],
                            ["--draft", "always", "--draft-pages", "1", "--isa", "reference"],
                            ["--draft-pages", "1"], ["--draft-pages", "auto"], ["--draft-pages", "off"], []):
                if "--isa" in options and sampling:
                    continue
                with self.subTest(options=options, sampling=sampling):
                    alike = plain if "--isa" not in options else self.stream("-i", self.input, "--method", "vanilla",
                                                                             "--isa", "reference", *sampling)
                    lines = self.stream("-i", self.input, *options, *sampling)
                    self.assertEqual([line["tokens"] for line in alike], [line["tokens"] for line in lines])
                    self.assertGreater(min(line["prompt_tokens"] for line in lines), 400)
                    if "always" in options:
                        self.assertGreater(sum(line["draft_steps"] for line in lines), 0)

    def test_numbers(self):
        for value in "0", "65", "few":
            message = self.status(2, run("run", "builtin", "-p", "a", "--draft-pages", value))
            self.assertIn("--draft-pages", message)


main()
