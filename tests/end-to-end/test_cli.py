#!/usr/bin/env python3
"""The command line of design section 7: usage, exit statuses, JSON fields, what each command prints."""
import json
import os
import resource

from support import DEMO, FIELDS, PROMPT, SANITIZED, SECONDS, SOURCE, EndToEnd, main, read_lines, run, write_lines

COMMANDS = ["run", "chat", "stream", "serve", "learn", "masks", "bench", "inspect", "tokenize"]


class Usage(EndToEnd):
    def test_help_teaches_every_command(self):
        result = run("--help")
        self.status(0, result)
        for command in COMMANDS:
            self.assertIn(command, result.stdout.decode())
            own = run(command, "--help")
            self.status(0, own)
            self.assertIn("usage: swiftlet %s" % command, own.stdout.decode())
        self.assertIn("--threshold", run("run", "--help").stdout.decode())
        self.status(0, run("--version"))

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
            "search": ["maybe"], "skip-ratio": ["1.5", "-1"], "skip-cost": ["1", "-1"], "window": ["0", "100000"], "bayes-interval": ["-1"],
            "max-steps": ["-1"], "max-matchness": ["2"], "opt-budget": ["-1", "nan"], "objective": ["speed"],
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
                                (["stream", "--sumary", "x"], "--summary")]:
            self.assertIn("did you mean %s" % near, self.status(2, run(*arguments)))

    def test_what_is_missing_is_1_and_named(self):
        for arguments in [["run", "/nowhere/model", "-p", "a"], ["run", "-f", "/nowhere/prompt"],
                          ["stream", "-i", "/nowhere/prompts"], ["inspect", "/nowhere/model"],
                          ["tokenize", "-m", "/nowhere/model", "-p", "a"], ["masks", "show", "/nowhere/mask"],
                          ["run", "-p", "a", "--mask", "/nowhere/mask"]]:
            self.assertIn("/nowhere/", self.status(1, run(*arguments)))


class Run(EndToEnd):
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
        self.assertIn("did you mean /help", out)
        first = self.json("--chat", "-p", "What is 2 + 3?", "-n", 16)["text"]
        self.assertTrue(out.startswith(first), out)

    def test_ends_with_its_input(self):
        self.status(0, run("chat", data=b""))


class Tokenize(EndToEnd):
    def test_there_and_back(self):
        for text in ["Hello, world", "", "  two  spaces \n\ttab", "é 😀 漢字 \u00a0", PROMPT]:
            ids = json.loads(run("tokenize", "--json", "-f", "-", data=text.encode()).stdout)["tokens"]
            line = run("tokenize", "-f", "-", data=text.encode()).stdout.decode()
            self.assertEqual([int(id) for id in line.split()], ids)
            back = run("tokenize", "--decode", "-f", "-", data=json.dumps({"tokens": ids}).encode())
            self.status(0, back)
            self.assertEqual(back.stdout.decode(), text)

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
    def test_says_what_the_model_is(self):
        result = run("inspect", "builtin", "--check")
        self.status(0, result)
        self.assertIn("20", result.stdout.decode())
        self.status(0, run("inspect", os.path.join(SOURCE, "core", "builtin")))


main()
