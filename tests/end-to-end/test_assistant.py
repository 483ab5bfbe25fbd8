#!/usr/bin/env python3
"""A Gemma 4 assistant as --draft-model: its drafts change no token, greedy and sampled, beside other drafters, and of many
sequences at once; one that does not fit is refused. optimizer/assistant has more, on a clock of its own."""
import copy
import json
import os
import pathlib
import random
import threading

from service import Server
from support import SOURCE, EndToEnd, main, run, write_lines
from test_recurrent import make_folder, names, values

CONFIGS = pathlib.Path(SOURCE, "tests", "core", "golden", "configs")


def cases():
    for path in sorted(CONFIGS.glob("*-assistant.json")):
        yield path.stem, json.loads(path.read_text())


def case_of(name):
    return json.loads((CONFIGS / (name + ".json")).read_text())


def silence(case):
    """Tensors of a case whose blocks add nothing."""
    out = {}
    for entry in case["tensors"]:
        if entry["name"].endswith(("o_proj.weight", "down_proj.weight", "per_layer_projection.weight")):
            n = entry["shape"][0] * entry["shape"][1]
            out.update({name: [0.0] * n for name in names(entry)})
    return out


def entry_of(case, name):
    return next(entry for entry in case["tensors"] if entry["name"] == name)


class Assistant(EndToEnd):
    def folders(self, name, case):
        assistant = make_folder(case["assistant"], self.path(name + "-drafter"))
        for file in "tokenizer.json", "tokenizer_config.json":  # it needs none
            os.unlink(os.path.join(assistant, file))
        return make_folder(case, self.path(name)), assistant

    def right_folders(self):
        """A token follows from the one before it alone, and the assistant has the model's own norm and head."""
        case = case_of("gemma4_text-assistant")
        dim, vocab = case["config"]["hidden_size"], case["config"]["vocab_size"]
        config = case["assistant"]["config"]
        config["text_config"]["hidden_size"] = dim
        config["tie_word_embeddings"] = config["text_config"]["tie_word_embeddings"] = False
        was = entry_of(case["assistant"], "pre_projection.weight")["shape"][0]
        for entry in case["assistant"]["tensors"]:
            entry["shape"] = [dim if n == was else n for n in entry["shape"]]
        head = entry_of(case, "lm_head.weight")
        case["assistant"]["tensors"].append(copy.deepcopy(head))
        given = silence(case["assistant"])
        given["pre_projection.weight"] = [float(j == i) for i in range(dim) for j in range(2 * dim)]
        for entry in head, entry_of(case, "model.norm.weight"):
            n = dim * (vocab if entry is head else 1)
            given[entry["name"]] = list(values(entry["name"], n, entry["scale"], entry["offset"]))
        return (make_folder(case, self.path("right"), silence(case)),
                make_folder(case["assistant"], self.path("right-drafter"), given))

    def lines(self, n, tokens):
        rng = random.Random(3)
        write_lines(self.path("in"), [{"id": str(i), "max_tokens": tokens, "prompt": "".join(
            rng.choice(["the ", "and ", "x", "in the "]) for _ in range(1 + 40 * i))} for i in range(n)])

    def test_texts(self):
        self.lines(3, 120)
        tokens = drafted = 0
        for name, case in cases():
            model, assistant = self.folders(name, case)
            for sampling in [], ["--temp", "0.9", "--seed", "5"]:
                base = ["-m", model, "-i", self.path("in"), *sampling]
                plain = self.stream(*base, "--method", "vanilla")
                for options in ["--drafters", "mtp"], [], ["--cache-type", "f32", "--threads", "1"]:
                    with self.subTest(model=name, options=options, sampling=sampling):
                        out = self.stream(*base, "--draft-model", assistant, *options)
                        self.assertEqual([line["tokens"] for line in out], [line["tokens"] for line in plain])
                        tokens += sum(len(line["tokens"]) for line in out)
                        drafted += sum(line["sources"].get("mtp", {"rows": 0})["rows"] for line in out)
        print("%d tokens compared, %d rows drafted" % (tokens, drafted), flush=True)  # how many, measured times decide

    def test_many_at_once(self):
        model, assistant = self.right_folders()
        prompts = [("the and x in the " * n, {"max_tokens": 60, "temperature": n % 2 * 0.8, "seed": n}) for n in range(1, 9)]
        texts = []

        def ask(s, out, i):
            out[i] = s.complete(prompts[i][0], **prompts[i][1])["choices"][0]["text"]

        for options in (["--method", "vanilla", "--sessions", "1"], ["--sessions", "4", "--draft-model", assistant],
                        ["--sessions", "4", "--draft-model", assistant, "--drafters", "mtp"]):
            said = [None] * len(prompts)
            with Server("-m", model, *options) as s:
                threads = [threading.Thread(target=ask, args=(s, said, i)) for i in range(len(prompts))]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            texts.append(said)
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(texts[0], texts[2])

    def refused(self, model, assistant, expected):
        result = run("run", "-m", model, "--draft-model", assistant, "-p", "the", "-n", "4")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(expected, result.stderr.decode())

    def test_one_that_does_not_fit(self):
        case = case_of("gemma4_text-shared-assistant")
        model, assistant = self.folders("model", case)
        result = run("run", "-m", assistant, "-p", "the")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("is no model by itself: give it as --draft-model", result.stderr.decode())
        self.refused("builtin", assistant, "drafts for Gemma 4, and builtin is of the family")
        wrong = {
            "with states of 36 elements and 272 tokens": lambda c: c.update(backbone_hidden_size=36),
            "reads 4 key/value heads of 8": lambda c: c["text_config"].update(num_key_value_heads=4, num_attention_heads=8),
            "reads 2 key/value heads of 12": lambda c: c["text_config"].update(head_dim=12),
            "num_kv_shared_layers is 2": lambda c: c["text_config"].update(num_kv_shared_layers=2),
            "hidden_size_per_layer_input 4": lambda c: c["text_config"].update(hidden_size_per_layer_input=4),
            "num_centroids is 33": lambda c: c.update(num_centroids=33),
            "tensor model.embed_tokens.weight has shape": lambda c: c["text_config"].update(hidden_size=44),
            "text_config is missing": lambda c: c.pop("text_config"),
        }
        for expected, change in wrong.items():
            with self.subTest(expected=expected):
                config = copy.deepcopy(case["assistant"]["config"])
                change(config)
                pathlib.Path(assistant, "config.json").write_text(json.dumps(config))
                self.refused(model, assistant, expected)
        entry_of(case["assistant"], "masked_embedding.token_ordering")["scale"] = 2
        self.refused(model, make_folder(case["assistant"], self.path("twice")), "a list that has each token once")
        case["assistant"]["tensors"] = [e for e in case["assistant"]["tensors"] if "token_ordering" not in e["name"]]
        self.refused(model, make_folder(case["assistant"], self.path("none")), "order of tokens")


if __name__ == "__main__":
    main()
