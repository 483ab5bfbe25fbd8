#!/usr/bin/env python3
"""The command line of design section 7: usage, exit statuses, JSON fields, what each command prints."""
import json
import os
import pty
import re
import resource
import select
import shutil
import signal
import subprocess
import termios
import time

from support import DEMO, FIELDS, PROMPT, SANITIZED, SECONDS, SOURCE, SWIFTLET, EndToEnd, main, read_lines, run, write_lines

COMMANDS = ["run", "chat", "serve", "pull", "list", "stream", "learn", "masks", "bench", "inspect", "tokenize"]


class Usage(EndToEnd):
    def test_help_teaches_every_command(self):
        result = run("--help")
        self.status(0, result)
        for command in COMMANDS:
            self.assertIn(command, result.stdout.decode())
            own = run(command, "--help")
            self.status(0, own)
            self.assertIn("usage: swiftlet %s" % command, own.stdout.decode())
        self.assertIn("--threshold", run("run", "--help-all").stdout.decode())
        for version in ("--version", "-v"):
            self.status(0, run(version))

    def test_help_fits_a_screen_and_help_all_has_the_rest(self):
        parts = re.findall(r"^  ([a-z-]+) ", run("bench", "--help").stdout.decode(), re.M)
        for command in [[], *([name] for name in COMMANDS), *(["bench", part] for part in parts if part != "swiftlet")]:
            with self.subTest(command=command):
                usual = run(*command, "--help").stdout.decode()
                self.assertLessEqual(len(usual.splitlines()), 40)
                self.assertLessEqual(max(map(len, usual.splitlines())), 80)
                if "--help-all" in usual:
                    whole = run(*command, "--help-all").stdout.decode()
                    self.assertGreater(len(whole), len(usual))
                    entries = usual.split("Options (defaults in parentheses)\n")[1].splitlines()
                    self.assertEqual([line for line in entries if line not in whole.splitlines() and " NAME" not in line], [])
                    options = re.compile(r"^  (?:-\w, )?(--[a-z-]+)", re.M)
                    self.assertEqual(set(options.findall(usual)) - set(options.findall(whole)), set())
        whole = run("run", "--help-all").stdout.decode()
        for term in ("matchness", "alpha", "M ", "c ", "kappa"):
            self.assertIn("\n  " + term, whole)

    def test_defaults_are_the_options_own(self):
        whole = " ".join(run("run", "--help-all", "-n", "5").stdout.decode().split())
        for text in ("at most N tokens (128)", "after N masks (1000)", "a probability under P (0.8)", "by channel (auto)",
                     "of that workload with it (on)", "seed for sampling and for the search (0)"):
            self.assertIn(text, whole)
        self.assertIn("at most N tokens (128)", run("run", "-n", "5", "--help").stdout.decode())

    def test_other_programs_names_of_options_are_understood(self):
        report = self.json("-p", PROMPT, "-n", 4, "--temp", "0.5", "--seed", 3, "--context", 64)
        other = self.json("-p", PROMPT, "--n-predict", 4, "--temperature", "0.5", "--seed", 3, "-c", 64)
        self.assertEqual(other["tokens"], report["tokens"])
        self.assertEqual(self.json("-p", PROMPT, "-n4", "--ctx-size=64", "--temp=.5", "--seed=3")["tokens"], report["tokens"])
        self.assertEqual(self.json("-p", PROMPT, "-n", 4, "-t", 0)["tokens"], self.json("-p", PROMPT, "-n", 4)["tokens"])

    def test_tables_in_help_keep_their_lines(self):
        whole = run("bench", "methods", "--help-all").stdout.decode().splitlines()
        self.assertIn("  rows              rows of a verification", whole)
        self.assertIn("  c                 cost of a draft step over a plain step", whole)

    def test_wrong_usage_is_2_and_named(self):
        wrong = [
            [], ["rum"], ["run"], ["run", "-p", "a", "-f", "b"], ["run", "builtin", "builtin", "-p", "a"],
            ["run", "builtin", "-m", "builtin", "-p", "a"], ["run", "-p"], ["run", "-p", "a", "--system", "b"],
            ["run", "-p", "a", "--json=yes"], ["run", "-p", "a", "-Z"], ["run", "-p", "a", "-n", "0"],
            ["run", "-p", "a", "-n", "ten"], ["run", "-p", "a", "-n", "99999999999999999999"],
            ["run", "-p", "a", "--stop", ""], ["tokenize"], ["inspect"], ["masks"], ["masks", "shwo"], ["masks", "import"],
            ["masks", "export", "x", "--format", "other"], ["bench", "decodes"], ["stream", "--inputs", "x"],
        ]
        for arguments in wrong:
            with self.subTest(arguments=arguments):
                self.status(2, run(*arguments))

    def test_values_out_of_range_are_2(self):
        wrong = {
            "top-p": ["2", "-1", "nan", "x", ""], "top-k": ["-1", "1.5"], "min-p": ["1.5"], "temp": ["-1", "inf", "x"],
            "seed": ["-1", "x"], "threads": ["-1", "x"], "isa": ["sse9"], "backend": ["tpu"], "context": ["-1"],
            "cache-type": ["q4"], "method": ["magic"], "draft": ["maybe"], "max-draft": ["0", "1000"],
            "threshold": ["1.5", "-0.1"], "max-tree": ["-3", "100000", "some"], "tree-top-k": ["1,2,3", "0,0,0,0", "a,b,c,d"],
            "search": ["maybe"], "skip-ratio": ["1.5", "-1"], "window": ["0", "100000"], "bayes-interval": ["-1"],
            "max-steps": ["-1"], "max-matchness": ["2"], "opt-budget": ["-1", "nan"],
            "acquisition": ["pi"], "kernel": ["rbf"], "kappa": ["-1", "nan"], "bank": ["maybe"], "preset": ["fast"],
        }
        for option, values in wrong.items():
            for value in values:
                with self.subTest(option=option, value=value):
                    message = self.status(2, run("run", "-p", "a", "--%s=%s" % (option, value)))
                    self.assertIn(option, message)

    def test_an_unknown_name_is_answered_with_the_nearest(self):
        for arguments, near in [(["rnu"], "run"), (["streem"], "stream"), (["run", "-p", "a", "--treshold", "1"], "--threshold"),
                                (["run", "-p", "a", "--max-token", "1"], "--max-tokens"), (["masks", "shwo"], "show"),
                                (["stream", "--sumary", "x"], "--summary"), (["lsit"], "list"), (["ls"], "list?"),
                                (["download", "x"], "pull?"), (["--hlep"], "--help?"), (["masks", "lst"], "list?"),
                                (["pull", "smollm2"], "smollm2-135m?"), (["run", "builtin", "a", "--temprature", "1"], "--temperature?"),
                                (["serve", "--ctxsize", "1"], "--ctx-size?"), (["run", "builtin", "a", "-temp", "1"], "--temp?"),
                                (["chat", "-help"], "--help?"), (["bench", "deocde"], "decode?")]:
            self.assertIn("did you mean %s" % near, self.status(2, run(*arguments)))
        self.assertIn("expected an address without a port", self.status(1, run("serve", "--host", "127.0.0.1:80")))
        self.assertRegex(self.status(1, run("serve", "--host", "a..b", "--port", "0")), "^swiftlet: --host a..b: [A-Z]")
        self.assertIn("no option -ngl", self.status(2, run("run", "builtin", "a", "-ngl", "99")))
        for far in (["run", "-p", "a", "--foo", "1"], ["xyz"], ["run", "-p", "a", "--q", "1"]):
            self.assertNotIn("did you mean", self.status(2, run(*far)))

    def test_a_run_without_words_says_what_is_missing(self):
        self.assertIn('swiftlet run MODEL "PROMPT"', self.status(2, run("run")))
        self.assertIn('swiftlet run builtin "PROMPT"', self.status(2, run("run", "builtin")))

    def test_a_context_that_is_not_the_models(self):
        for context in ("1024", "4096"):
            done = run("run", "builtin", "a", "-n", "1", "-v", "--no-store", "--context", context)
            self.assertIn("cache of %s tokens (the model's limit is 2048)" % context, done.stderr.decode())
        if not SANITIZED:  # which reserve far more memory than this
            limited = subprocess.run(["bash", "-c", 'ulimit -v 4000000; exec "$0" run builtin a -n 1 --no-store --context 1000000', SWIFTLET],
                                     stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
            self.assertIn("use a smaller --context", self.status(1, limited))

    def test_numbers_in_messages_are_whole(self):
        self.assertIn("from 2 to 16777216", self.status(2, run("run", "-p", "a", "--context", "1")))

    def test_what_is_missing_is_1_and_named(self):
        for arguments in [["run", "/nowhere/model", "-p", "a"], ["run", "-f", "/nowhere/prompt"],
                          ["stream", "-i", "/nowhere/prompts"], ["inspect", "/nowhere/model"],
                          ["tokenize", "-m", "/nowhere/model", "-p", "a"], ["masks", "show", "/nowhere/mask"],
                          ["run", "-p", "a", "--mask", "/nowhere/mask"]]:
            self.assertIn("/nowhere/", self.status(1, run(*arguments)))


class Run(EndToEnd):
    def test_a_prompt_is_a_word_or_comes_by_a_pipe(self):
        text = run("run", "-p", PROMPT, "-n", 8).stdout
        self.assertEqual(run("run", "builtin", PROMPT, "-n", 8).stdout, text)
        self.assertEqual(run("run", "-m", "builtin", PROMPT, "-n", 8).stdout, text)
        self.assertEqual(run("run", "builtin", "-n", 8, data=PROMPT.encode()).stdout, text)
        for wrong in (["builtin", PROMPT, "more"], ["builtin", PROMPT, "-p", "a"], ["-m", "builtin", PROMPT, "-f", "x"],
                      ["Why is it so?"], ["builtin"], ["-p", "a", "--raw", "--chat"]):
            self.assertIn("run", self.status(2, run("run", *wrong)))

    def test_a_template_in_the_file_is_used(self):
        """The built-in model continues texts; in another folder it is one with a template."""
        self.assertLess(self.json("-p", "What is 2 + 3?", "-n", 2)["prompt_tokens"],
                        self.json("-p", "What is 2 + 3?", "-n", 2, "--chat")["prompt_tokens"])
        copy = self.path("model")
        shutil.copytree(os.path.join(SOURCE, "core", "builtin"), copy)
        own = self.json("-m", copy, "-p", "What is 2 + 3?", "-n", 4)
        self.assertEqual(own["tokens"], self.json("-p", "What is 2 + 3?", "-n", 4, "--chat")["tokens"])
        self.assertEqual(self.json("-m", copy, "-p", "What is 2 + 3?", "-n", 4, "--raw")["tokens"],
                         self.json("-p", "What is 2 + 3?", "-n", 4)["tokens"])
        self.assertEqual(self.json("-m", copy, "-p", "", "-n", 2)["prompt_tokens"], 1)

    def test_verbose_prints_the_figures_beside_the_text(self):
        result = run("run", "-p", PROMPT, "-n", 4, "-v")
        self.assertIn(b"4 tokens in", result.stderr)
        self.assertEqual(result.stdout, run("run", "-p", PROMPT, "-n", 4).stdout)

    def at_a_terminal(self, *words):
        """What the program prints to a terminal."""
        child, terminal = pty.fork()
        if child == 0:
            os.execv(SWIFTLET, [SWIFTLET, *words])
        out = b""
        while True:
            try:
                out += os.read(terminal, 65536)
            except OSError:  # the other end is closed
                break
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        return out.decode(errors="replace").replace("\r", "").strip()

    def test_a_terminal_shows_one_line_of_speed(self):
        out = self.at_a_terminal("run", "builtin", PROMPT, "-n", "4", "--no-store")
        self.assertRegex(out.split("\n")[-1], r"^\x1b\[2m4 tokens, .*tokens/s; cut off by the limit: -n N allows more\x1b\[0m$")
        self.assertNotIn("full passes", out)

    def test_a_terminal_shows_how_much_of_a_long_prompt_is_read(self):
        # The line comes half a second later, unless the prompt was read by then. Sanitized, one chunk takes that long.
        slow = "synth:layers=4,dim=%d,heads=16,kv-heads=16,ffn=%d,vocab=32000,dtype=f32" % ((512, 1408) if SANITIZED else (1024, 2816))
        words = ("run", slow, "a " * (200 if SANITIZED else 700), "-n", "2", "--no-store", "--threads", "1", "-c", "8192", "--method", "vanilla")
        out = self.at_a_terminal(*words)
        self.assertRegex(out, r"\r?\x1b\[K\[#+\.+\] +\d+ % of the prompt is read")
        self.assertNotIn("of the prompt", run(*words).stderr.decode())
        self.assertNotIn("of the prompt", self.at_a_terminal("run", "builtin", PROMPT, "-n", "2", "--no-store"))

    def test_a_short_answer_is_not_compared_with_plain_decoding(self):
        """The ratio stands where decoding took a second."""
        slow = "synth:layers=4,dim=1024,heads=16,kv-heads=16,ffn=2816,vocab=32000,dtype=f32"
        for model, count in (("builtin", 40), (slow, 25 if SANITIZED else 100)):
            last = self.at_a_terminal("run", model, PROMPT, "-n", str(count), "--no-store", "--threads", "1").split("\n")[-1]
            rate = float(re.search(r", ([0-9.]+) tokens/s", last)[1])
            seconds = count / rate  # with the first token's, which is not decoding's
            if not .8 < seconds < 1.25:
                with self.subTest(line=last):
                    self.assertEqual("times as fast as plain decoding" in last, seconds > 1)

    def test_models_have_names(self):
        """Lists what `swiftlet pull` has fetched and what the Hugging Face cache holds."""
        cache = self.path("cache")
        place = os.path.join(cache, "huggingface", "hub", "models--org--small--er", "snapshots", "abc")
        os.makedirs(os.path.dirname(place))
        shutil.copytree(os.path.join(SOURCE, "core", "builtin"), place)
        fetched = os.path.join(cache, "swiftlet", "models")
        os.makedirs(fetched)
        shutil.copy(os.path.join(SOURCE, "tests", "core", "vocab", "llama-spm.gguf"), os.path.join(fetched, "vocabulary.gguf"))
        env = {key: value for key, value in os.environ.items() if key not in ("HF_HOME", "HF_HUB_CACHE")}
        env["XDG_CACHE_HOME"] = cache
        listed = json.loads(run("list", "--json", env=env).stdout)
        self.assertEqual([(one["name"], one["bytes"] > 0) for one in listed], [("vocabulary", True), ("org/small--er", True)])
        self.assertIn(b"org/small--er", run("list", env=env).stdout)
        self.assertEqual(run("tokenize", "-m", "vocabulary", "-p", "Hello", env=env).stdout,
                         run("tokenize", "-m", os.path.join(fetched, "vocabulary.gguf"), "-p", "Hello").stdout)
        self.assertEqual(run("run", "org/small--er", PROMPT, "-n", 4, "--raw", env=env).stdout, run("run", "-p", PROMPT, "-n", 4).stdout)
        self.assertIn("swiftlet list", self.status(1, run("run", "nothing", "x", env=env)))
        for near in ("Vocab", "voca_bulary.gguf"):
            self.assertIn("did you mean vocabulary?", self.status(1, run("run", near, "x", env=env)))
        for address in ("https://huggingface.co/org/name", "hf.co/org/name"):
            self.assertIn("hf download org/name", self.status(1, run("run", address, "x", env=env)))
        self.assertNotIn("hf download", self.status(1, run("run", "https://example.com/name", "x", env=env)))
        self.assertIn("postgresql://USER@HOST", self.status(1, run("masks", "list", "--store", "mysql://host/x")))
        self.assertIn("python3-pip-whl", self.status(1, run("pull", env={**env, "PATH": self.path("empty")})))
        env["XDG_CACHE_HOME"] = self.path("empty")
        self.assertIn(b"swiftlet pull", run("list", env=env).stdout)

    def test_json_has_the_fields_of_the_contract(self):
        for method in ["swift", "vanilla"]:
            report = self.json("-p", PROMPT, "-n", 40, "--method", method, "--task", "math")
            self.assertEqual(list(report), FIELDS)
            self.assertEqual(list(report["seconds"]), SECONDS)
            self.assertEqual(report["method"], method)
            self.assertEqual(report["task"], "math")
            self.assertIsNone(report["id"])
            self.assertIn(report["stop"], ["eos", "length"])
            self.assertLessEqual(len(report["tokens"]), 40)
            self.assertGreater(report["tokens_per_second"], 0)
        self.assertIsNone(report["M"])
        self.assertIsNone(report["alpha"])
        self.assertIsNone(report["mask"])
        self.assertEqual(report["draft_steps"], 0)
        self.assertEqual(report["plain_steps"], report["full_passes"])

    def test_text_is_the_same_however_it_is_asked_for(self):
        report = self.json("-p", PROMPT, "-n", 48)
        self.assertEqual(run("run", "-p", PROMPT, "-n", 48).stdout.decode(), report["text"])
        with open(self.path("prompt"), "w", encoding="utf-8") as file:
            file.write(PROMPT)
        self.assertEqual(run("run", "-m", "builtin", "-f", self.path("prompt"), "-n48").stdout.decode(), report["text"])
        self.assertEqual(run("run", "builtin", "-f", "-", "--max-tokens=48", data=PROMPT.encode()).stdout.decode(),
                         report["text"])
        for threads in [1, 2, 3]:
            self.assertEqual(self.json("-p", PROMPT, "-n", 48, "--threads", threads)["tokens"], report["tokens"])

    def test_a_seed_is_a_text(self):
        one = self.json("-p", PROMPT, "-n", 32, "--temp", 1.5, "--seed", 3)["tokens"]
        self.assertEqual(self.json("-p", PROMPT, "-n", 32, "--temp", 1.5, "--seed", 3)["tokens"], one)
        self.assertNotEqual(self.json("-p", PROMPT, "-n", 32, "--temp", 1.5, "--seed", 4)["tokens"], one)

    def test_a_stop_string_ends_before_itself(self):
        text = self.json("-p", PROMPT, "-n", 48)["text"]
        stop = text[10:13]
        for method in ["swift", "vanilla"]:
            report = self.json("-p", PROMPT, "-n", 48, "--stop", "never in it", "--stop", stop, "--method", method)
            self.assertEqual(report["stop"], "stop")
            self.assertEqual(report["text"], text[:text.index(stop)])

    def test_an_empty_prompt_starts_from_bos(self):
        self.assertEqual(self.json("-p", "", "-n", 4)["prompt_tokens"], 1)

    def test_chat_goes_through_the_template(self):
        plain = self.json("-p", "What is 2 + 3?", "-n", 4)
        chat = self.json("--chat", "-p", "What is 2 + 3?", "-n", 4)
        self.assertGreater(chat["prompt_tokens"], plain["prompt_tokens"])

    def test_a_full_device_is_a_failure(self):
        with open("/dev/full", "wb") as full:
            self.status(1, run("run", "-p", PROMPT, "-n", 8, stdout=full))
            self.status(1, run("run", "-p", PROMPT, "-n", 8, "--json", stdout=full))
            for words in (["--help"], ["--version"], ["run", "--help"], ["list"]):
                self.status(1, run(*words, stdout=full))
        self.assertIn("No space left", self.status(1, run("stream", "-i", DEMO, "-o", "/dev/full")))

    def test_a_new_home_is_explained(self):
        home = {**os.environ, "HOME": self.path("home")}
        for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
            home.pop(name, None)
        self.assertIn("nothing has been learned yet", self.status(1, run("masks", "list", env=home)))
        with open(self.path("file"), "w"):
            pass
        home["XDG_CACHE_HOME"] = self.path("file")  # no folder can be made in it, by root neither
        pulled = run("pull", "smollm2-135m", env=home)
        self.assertEqual(pulled.returncode, 1)
        self.assertIn(b"cannot be made", pulled.stderr)
        self.assertNotIn(b"Traceback", pulled.stderr)

    def test_the_first_token_comes_at_once(self):
        """In processor time: how long that takes is the machine's other work's matter too. A tenth of this is usual."""
        spent = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
        seconds = []
        for _ in range(3):
            start = spent()
            self.status(0, run("run", "-p", "Once", "-n", 1))
            seconds.append(spent() - start)
        if not SANITIZED:
            self.assertLess(min(seconds), 2)


class Stream(EndToEnd):
    def test_broken_lines_get_their_error_and_the_stream_goes_on(self):
        good = {"task": "math", "prompt": PROMPT, "max_tokens": 8}
        write_lines(self.path("in"), [
            {"id": "a", **good}, b"{\"id\": 12345678901234567890, \"prompt\": ", b"", {"id": [1, {"b": None}], **good},
            {"id": "long", "prompt": "word " * 10000}, {"id": "bad", "prompt": "x", "max_tokens": 0},
            b"{\"id\": \"latin\", \"prompt\": \"\xe9\"}", {"id": "a", **good}, {"prompt": PROMPT, "max_tokens": 1},
        ])
        lines = self.stream("-i", self.path("in"))
        self.assertEqual([line["id"] for line in lines], ["a", None, [1, {"b": None}], "long", "bad", None, "a", None])
        self.assertEqual([line.get("line") for line in lines], [None, 2, None, 5, 6, 7, None, None])
        for line in lines:
            if "error" in line:
                self.assertEqual(list(line), ["id", "line", "error"])
                self.assertTrue(line["error"]["message"])
            else:
                self.assertEqual(list(line), FIELDS)
        self.assertEqual(lines[0]["tokens"], lines[6]["tokens"])

    def test_exit_1_only_when_every_line_failed(self):
        write_lines(self.path("in"), [b"nothing", b"[]"])
        self.stream("-i", self.path("in"), expected=1)
        self.assertIn("the first, line 1: ", self.status(1, run("stream", "-i", self.path("in"))))
        write_lines(self.path("in"), [{"prompt": PROMPT, "max_tokens": 2}, b"nothing"])
        table = run("stream", "-i", self.path("in"), "-o", self.path("out"))
        self.assertIn(b"1 line failed; the first, line 2: ", table.stdout)
        write_lines(self.path("in"), [])
        self.assertEqual(self.stream("-i", self.path("in")), [])

    def test_results_summary_and_table(self):
        prompts = read_lines(DEMO)[:6]
        write_lines(self.path("in"), prompts)
        with open(self.path("in"), "rb") as file:
            data = file.read()
        result = run("stream", "--summary", self.path("sums"), "--draft", "always", data=data)
        self.status(0, result)
        self.assertEqual(result.stderr, b"")
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual([line["id"] for line in lines], [prompt["id"] for prompt in prompts])
        with open(self.path("sums"), encoding="utf-8") as file:
            summary = json.load(file)
        self.assertEqual(sum(task["tokens"] for task in summary["tasks"].values()), sum(len(l["tokens"]) for l in lines))
        self.assertEqual(set(summary["tasks"]), {prompt["task"] for prompt in prompts})
        for sums in [*summary["tasks"].values(), summary["total"]]:
            self.assertEqual(list(sums), ["instances", "tokens", "M", "alpha", "matchness", "optimize_steps",
                                          "tokens_per_second"])
        alpha = sum(l["accepted"] for l in lines) / sum(l["draft_steps"] for l in lines)
        self.assertAlmostEqual(summary["total"]["alpha"], alpha)
        table = run("stream", "-i", self.path("in"), "-o", self.path("out"))
        self.status(0, table)
        for task in summary["tasks"]:
            self.assertIn(task, table.stdout.decode())
        self.assertIn("attention", table.stdout.decode())

    def test_the_input_is_never_overwritten(self):
        write_lines(self.path("in"), [{"id": 1, "prompt": "a"}])
        os.symlink(self.path("in"), self.path("link"))
        self.status(2, run("stream", "-i", self.path("in"), "-o", self.path("link")))
        self.assertEqual(len(read_lines(self.path("in"))), 1)

    def test_messages_go_through_the_template(self):
        write_lines(self.path("in"), [{"id": 1, "messages": [{"role": "user", "content": "What is 2 + 3?"}], "max_tokens": 4}])
        line = self.stream("-i", self.path("in"))[0]
        self.assertEqual(line["tokens"], self.json("--chat", "-p", "What is 2 + 3?", "-n", 4)["tokens"])

    def test_a_template_that_refuses_fails_its_line_alone(self):
        with open(self.path("template"), "w") as file:
            file.write("{% if messages|length > 1 %}{{ raise_exception('one at most, not ' ~ messages|length) }}{% endif %}"
                       "{{ messages[0].content }}{{ kind }}")
        one = {"role": "user", "content": "Once"}
        write_lines(self.path("in"), [{"id": 1, "messages": [one, one]}, {"id": 2, "messages": [one], "max_tokens": 2,
                                                                         "chat_template_kwargs": {"kind": " upon"}}])
        refused, good = self.stream("-i", self.path("in"), "--chat-template", self.path("template"))
        self.assertIn("one at most, not 2", refused["error"]["message"])
        self.assertEqual(good["prompt_tokens"], len(json.loads(run("tokenize", "--json", "-p", "Once upon").stdout)["tokens"]))


class Chat(EndToEnd):
    def test_a_piped_conversation(self):
        result = run("chat", "-n", 16, data=b"What is 2 + 3?\n/stats\n/mask\n/hepl\nAnd 4 + 5?\n/quit\nnever\n")
        self.status(0, result)
        out = result.stdout.decode()
        self.assertIn("tokens/s", out)
        self.assertIn("attention", out)
        self.assertIn("did you mean /help?", out)
        first = self.json("--chat", "-p", "What is 2 + 3?", "-n", 16)["text"]
        self.assertTrue(out.startswith(first), out)

    def test_ends_with_its_input(self):
        self.status(0, run("chat", data=b""))

    def test_commands_of_a_conversation(self):
        saved, note = self.path("saved.json"), self.path("note")
        with open(note, "w", encoding="utf-8") as file:
            file.write("The sky is green.")
        lines = ["/system Be brief.", '"""', "What is", '2 + 3?"""', "/save " + saved, "/read " + note, "And the sky?",
                 "/regenerate", "/set temp 0.7", "/set", "/set temp much", "/load " + saved, "/load " + note, "/system",
                 "/reset", "/regenerate", "/help", "/bye", "never"]
        result = run("chat", "-n", 4, data="\n".join(lines).encode() + b"\n")
        self.status(0, result)
        out = result.stdout.decode()
        for words in ("3 messages are written", "17 bytes", "at temperature 0", "temp        0.7", "3 messages are read",
                      "system: Be brief.", "forgotten", "no answer to replace", "/regenerate"):
            self.assertIn(words, out)
        with open(saved, encoding="utf-8") as file:
            messages = json.load(file)["messages"]
        self.assertEqual([(m["role"], m["content"]) for m in messages[:2]],
                         [("system", "Be brief."), ("user", "What is\n2 + 3?")])
        self.assertIn(b"note", result.stderr)
        self.assertIn(b"/read reads any text", result.stderr)

    def converse(self, *keys):
        """A conversation at a terminal: each of `keys` is typed once the editor waits for a line."""
        env = {**os.environ, "XDG_STATE_HOME": self.path("state"), "TERM": "xterm", "LANG": "C.UTF-8"}
        child, terminal = pty.fork()
        if child == 0:
            os.execve(SWIFTLET, [SWIFTLET, "chat", "-n", "4"], env)
        out, waits = b"", 0
        for key in (*keys, b"/quit\r"):
            waits += 1
            while out.count(b"\033[?2004h") < waits:
                out += os.read(terminal, 65536)
            os.write(terminal, key)
        while True:
            try:
                out += os.read(terminal, 65536)
            except OSError:  # the other end is closed
                break
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        return out.decode(errors="replace")

    def test_an_answer_is_not_mixed_with_what_is_typed(self):
        """A text typed ahead waits for the next prompt, Ctrl-C leaves no ^C; keys are shown again, also after a second signal."""
        saved = self.path("saved.json")
        env = {**os.environ, "XDG_STATE_HOME": self.path("state"), "TERM": "xterm", "LANG": "C.UTF-8"}
        child, terminal = pty.fork()
        if child == 0:
            os.execve(SWIFTLET, [SWIFTLET, "chat", "-n", "1000", "--method", "vanilla"], env)
        editing, edited = b"\033[?2004h", b"\033[?2004l"
        out = b""

        def flags():
            return termios.tcgetattr(terminal)[3] & (termios.ECHO | termios.ICANON | termios.ISIG)

        def ask(text, key):
            """Types the text at the prompt, and the key while the answer is printed; what was printed before the next prompt."""
            nonlocal out
            while editing not in out:
                out += os.read(terminal, 65536)
            out = b""
            os.write(terminal, text + b"\r")
            while flags() != termios.ICANON | termios.ISIG:  # no echo: the answer is being printed
                self.assertNotIn(editing, out.partition(edited)[2])
                if select.select([terminal], [], [], .001)[0]:
                    out += os.read(terminal, 65536)
            os.write(terminal, key)
            while key and editing not in out.partition(edited)[2]:
                out += os.read(terminal, 65536)
            out = out.partition(edited)[2]
            return out.partition(editing)[0]

        self.assertNotIn(b"ahead", ask(b"Once upon a time", b"typed ahead"))
        self.assertNotIn(b"^C", ask(b"", b"\003"))  # sends what was typed ahead
        os.write(terminal, b"/save %s\r" % saved.encode())
        out = b""
        while b" written " not in out:
            out += os.read(terminal, 65536)
        self.assertEqual(self.said(saved), ["Once upon a time", "typed ahead"])
        ask(b"Once more", b"")
        os.kill(child, signal.SIGSTOP)  # so that both signals come at once
        os.kill(child, signal.SIGTERM)
        os.kill(child, signal.SIGINT)
        os.kill(child, signal.SIGCONT)
        self.assertIn(-os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), (signal.SIGTERM, signal.SIGINT))
        self.assertTrue(flags() & termios.ECHO)
        os.close(terminal)

    def test_an_end_during_an_answer_ends_the_conversation(self):
        """SIGTERM is not taken for the Ctrl-C that ends an answer alone, and keys are shown again."""
        env = {**os.environ, "XDG_STATE_HOME": self.path("state"), "TERM": "xterm", "LANG": "C.UTF-8"}
        child, terminal = pty.fork()
        if child == 0:
            os.execve(SWIFTLET, [SWIFTLET, "chat", "-n", "3000", "--method", "vanilla"], env)
        out = b""
        while b"\033[?2004h" not in out:
            out += os.read(terminal, 65536)
        os.write(terminal, b"Once upon a time\r")
        while termios.tcgetattr(terminal)[3] & (termios.ECHO | termios.ICANON) != termios.ICANON:
            if select.select([terminal], [], [], .001)[0]:
                os.read(terminal, 65536)
        os.kill(child, signal.SIGTERM)
        ended = 0
        while not ended:
            if select.select([terminal], [], [], .01)[0]:
                try:
                    self.assertNotIn(b"\033[?2004h", os.read(terminal, 65536))  # no further prompt
                except OSError:  # the other end is closed
                    pass
            ended, status = os.waitpid(child, os.WNOHANG)
        self.assertEqual(os.waitstatus_to_exitcode(status), 0)
        self.assertTrue(termios.tcgetattr(terminal)[3] & termios.ECHO)
        os.close(terminal)

    def said(self, path):
        with open(path, encoding="utf-8") as file:
            return [m["content"] for m in json.load(file)["messages"] if m["role"] == "user"]

    def test_a_terminal_edits_lines(self):
        """Arrow keys, a pasted block as one message, Ctrl-C, and a history that the next conversation has."""
        if b"libedit" not in subprocess.run(["ldd", SWIFTLET], stdout=subprocess.PIPE).stdout:
            self.skipTest("built without libedit")
        first, second = self.path("first.json"), self.path("second.json")
        out = self.converse(b"helXlo\033[D\033[D\010\r", b"\033[200~one\rtwo\033[201~\r",
                            b"\033[200~/a\r//b\033[201~\r", b"dropped\003", f"/save {first}\r".encode())
        self.assertIn("tokens/s", out)
        self.assertNotIn("times as fast", out)  # as in `run`: these answers are short
        self.assertEqual(self.said(first), ["hello", "one\ntwo", "/a\n//b"])
        self.converse(b"\033[A" * 5 + b"\r", f"/save {second}\r".encode())
        self.assertEqual(self.said(second), ["hello"])


class ConfigFile(EndToEnd):
    def file(self, text):
        with open(self.path("serve.conf"), "w") as out:
            out.write(text)
        return self.path("serve.conf")

    def test_wrong_lines_are_named(self):
        for text, status, message in [("# port\n\nprot = 1\n", 2, 'line 3: no option "prot"'), ("port\n", 2, "expected port = VALUE"),
                                      ("no-store = on", 2, "no-store takes no value"), ("port = x", 2, '"x"'), ("config = a", 2, "no option"),
                                      ("= 1", 2, 'no option ""'), ("temp = 1e9", 2, "--temp"), ("model = /nowhere/model\r\n", 1, "/nowhere/model:")]:
            with self.subTest(text=text):
                self.assertIn(message, self.status(status, run("serve", "--config", self.file(text))))
        self.assertIn("/nowhere/file", self.status(1, run("serve", "--config=/nowhere/file")))
        self.status(2, run("serve", "--config"))

    def test_a_service_begins_with_its_options(self):
        """And with those of the command line where both set one."""
        path = self.file("# a service\nmodel = builtin\n--alias = first name \nctx-size=64\nno-store\nport = 1\n")
        server = subprocess.Popen([SWIFTLET, "serve", "--config", path, "--port", "0"], stdout=subprocess.PIPE, text=True)
        try:
            said = "".join(server.stdout.readline() for _ in range(3))
            self.assertRegex(said, r"serves first name on .* at http://127\.0\.0\.1:\d{3,}/\n")
            self.assertIn("context of 64 tokens", said)
        finally:
            server.terminate()
            server.communicate()
        self.assertEqual(server.returncode, 0)


class Tokenize(EndToEnd):
    def test_there_and_back(self):
        for text in ["Hello, world", "", "  two  spaces \n\ttab", "é 😀 漢字 \u00a0", PROMPT]:
            ids = json.loads(run("tokenize", "--json", "-f", "-", data=text.encode()).stdout)["tokens"]
            line = run("tokenize", "-f", "-", data=text.encode()).stdout.decode()
            self.assertEqual([int(id) for id in line.split()], ids)
            back = run("tokenize", "--decode", "-f", "-", data=json.dumps({"tokens": ids}).encode())
            self.status(0, back)
            self.assertEqual(back.stdout.decode(), text)

    def test_model_and_text_are_words(self):
        ids = run("tokenize", "-p", PROMPT).stdout
        self.assertEqual(run("tokenize", "builtin", PROMPT).stdout, ids)
        self.assertEqual(run("tokenize", "-m", "builtin", PROMPT).stdout, ids)
        for wrong in (["builtin"], ["builtin", "a", "b"], ["builtin", "a", "-p", "b"], ["builtin", "a", "-f", "b"]):
            self.status(2, run("tokenize", *wrong))

    def test_any_bytes(self):
        data = bytes(range(1, 256)) + b"\0end"
        ids = run("tokenize", "-f", "-", data=data)
        self.status(0, ids)
        self.assertEqual(run("tokenize", "--decode", "-f", "-", data=ids.stdout).stdout, data)

    def test_special_tokens(self):
        plain = json.loads(run("tokenize", "--json", "-p", "a").stdout)["tokens"]
        special = json.loads(run("tokenize", "--json", "--add-special", "-p", "a").stdout)["tokens"]
        self.assertEqual(special[-len(plain):], plain)
        self.status(1, run("tokenize", "--decode", "-p", "99999999"))
        self.status(1, run("tokenize", "--decode", "-p", "1 x"))

    def test_messages_as_the_template_writes_them(self):
        messages = json.dumps([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "</s> 2 + 3?"}])
        text = run("tokenize", "--text", "--messages", messages)
        self.assertEqual(text.stdout.decode(), "<s>Be brief.\nQuestion: </s> 2 + 3?\nAnswer:")
        ids = json.loads(run("tokenize", "--json", "--messages", messages).stdout)["tokens"]
        self.assertEqual((ids.count(1), ids.count(2)), (1, 0))  # the template's BOS, and no EOS of the message's
        self.assertEqual(ids, json.loads(run("tokenize", "--json", "--messages", "@-", data=messages.encode()).stdout)["tokens"])
        for bad, message in (("{}", "no list"), ("[1", "not JSON")):
            result = run("tokenize", "--messages", bad)
            self.status(1, result)
            self.assertIn(message, result.stderr.decode())
        self.status(2, run("tokenize", "--messages", "[]", "-p", "a"))

    def test_another_template_and_its_variables(self):
        path = self.path("a.jinja")
        with open(path, "w") as file:
            file.write("{{ tools[0].x|tojson }}{{ think }}{{ documents }}\n{% for m in messages %}\n{{ m.a.b }}\n{% endfor %}")
        given = ["--messages", '[{"role": "user", "a": {"b": 1}}]', "--chat-template", path, "--tools", '[{"x": 1.0}]']
        result = run("tokenize", "--text", *given, "--chat-template-kwargs", '{"think": false}')
        self.assertEqual(result.stdout.decode(), "1.0FalseNone\n1\n")
        failed = run("tokenize", "--messages", '[{"role": "user"}]', "--chat-template", path)
        self.status(1, failed)
        self.assertIn("line 1", failed.stderr.decode())
        missing = run("tokenize", "--messages", "[]", "--chat-template", "/nowhere/a.jinja")
        self.status(1, missing)
        self.assertIn("/nowhere/a.jinja", missing.stderr.decode())


class Inspect(EndToEnd):
    def test_describes_the_model(self):
        result = run("inspect", "builtin", "--check")
        self.status(0, result)
        self.assertIn("20", result.stdout.decode())
        self.assertNotIn("\033", result.stdout.decode())  # no colours but on a terminal
        shape = json.loads(run("inspect", "builtin", "--check", "--json").stdout)
        self.assertEqual((shape["blocks"], shape["attention"]["query_heads"], shape["sound"]), (20, 2, True))
        self.status(0, run("inspect", os.path.join(SOURCE, "core", "builtin")))


main()
