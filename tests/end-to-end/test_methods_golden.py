"""Every neighbouring method against plain references written from its paper (tools/oracle/references.py): the same drafts,
the same stops, the same accepted counts, round by round, on the built-in model and on one trained by LayerSkip's recipe;
and bench match-rate's hits by block. tests/data/methods holds what the references did."""
import json
import os
import unittest

import support

DATA = os.path.join(support.SOURCE, "tests", "data")
MODELS = {"builtin": "builtin", "layerskip": os.path.join(DATA, "tiny-tasks-20l-layerskip")}


def expected_rows(root, round_):
    """(token, parent) below the root, of a chain or of a tree."""
    if "draft" in round_:
        return [[token, i] for i, token in enumerate(round_["draft"])]
    return [list(row) for row in round_["rows"]]


def emitted(rounds, tokens):
    """Tokens that each round brought: the accepted ones and the bonus; the last may end before its bonus."""
    out = [round_["accepted"] + 1 for round_ in rounds]
    out[-1] -= sum(out) - (tokens - 1)  # the first token came with the prompt
    return out


def goldens():
    for model in MODELS:
        with open(os.path.join(DATA, "methods", model + ".json"), encoding="utf-8") as file:
            yield json.load(file)


class MethodsGolden(support.EndToEnd):
    def options(self, golden, case):
        """The command line's options of a case, its files in place."""
        out = ["--method", case["method"]]
        for option in case["options"]:
            if option == "@mask":
                option = self.path("mask.json")
                with open(option, "w", encoding="utf-8") as file:
                    json.dump({"golden": golden["mask"]}, file)
            elif option.startswith("@"):
                option = os.path.join(DATA, "parts", option[1:])
            out.append(option)
        return out

    def compare(self, golden, name):
        case, trace = golden["cases"][name], self.path("trace.jsonl")
        for prompt in golden["prompts"]:
            if name not in prompt["cases"]:
                continue
            with self.subTest(model=golden["model"], case=name, prompt=prompt["id"]):
                got = self.json("-m", MODELS[golden["model"]], "-p", prompt["prompt"], "--raw", "-n", golden["max_tokens"],
                                "--cache-type", "f32", "--no-store", "--trace", trace, *self.options(golden, case))
                self.assertEqual(got["tokens"], prompt["tokens"])
                rounds = support.read_lines(trace)
                for i, (here, there) in enumerate(zip(rounds, prompt["cases"][name])):
                    self.assertEqual(here["rows"][1:], expected_rows(here["root"], there), "round %d" % i)
                    self.assertEqual(here["accepted"], there["accepted"], "round %d" % i)
                    self.assertEqual(here["stop"], there.get("stop", here["stop"]), "round %d" % i)
                self.assertEqual(len(rounds), len(prompt["cases"][name]))
                brought = emitted(prompt["cases"][name], len(prompt["tokens"]))
                self.assertAlmostEqual(got["CR"], sum(brought) / len(brought), 6)  # Kangaroo, Eq. 1 and 2
                for w in range(1, 7):
                    self.assertAlmostEqual(got["CTAR"][w - 1], sum(n > w for n in brought) / len(brought), 6)

    def test_rounds(self):
        for golden in goldens():
            for name in golden["cases"]:
                self.compare(golden, name)

    def test_match_rate(self):
        for golden in goldens():
            stream, want = self.path("prompts.jsonl"), golden["match_rate"]
            support.write_lines(stream, [{"id": prompt["id"], "prompt": prompt["prompt"], "max_tokens": golden["max_tokens"]}
                                         for prompt in golden["prompts"]])
            heads = ["--heads", os.path.join(DATA, "parts", "heads.safetensors")] if golden["model"] == "builtin" else []
            result = support.run("bench", "match-rate", "-m", MODELS[golden["model"]], "-i", stream, "--cache-type", "f32",
                                 "--json", *heads)
            self.status(0, result)
            got = {"%d %s" % (rate["block"], "NY"[rate["trained"]]): rate["p_correct"]
                   for rate in json.loads(result.stdout)["rates"]}
            self.assertEqual(set(got), set(want["hits"]))
            for key, hits in want["hits"].items():
                for k, n in enumerate(hits):  # a near tie among the first k may go either way
                    self.assertAlmostEqual(got[key][k] * want["rows"], n, delta=1.01, msg="%s, k = %d" % (key, k + 1))


if __name__ == "__main__":
    support.main()
