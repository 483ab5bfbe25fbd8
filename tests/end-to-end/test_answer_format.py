"""Answers of a given format: what the grammar allows is valid by another validator, the text is plain decoding's whoever drafts,
and text that has to come is drafted."""
import concurrent.futures, json, os, re, sys

from service import Server, find_python, skip

SCHEMAS = [
    {"type": "array", "items": {"type": "string", "maxLength": 3}, "uniqueItems": True, "minItems": 3, "maxItems": 9},
    {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 120},
                                      "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}, "maxItems": 3}},
     "required": ["name", "age"], "additionalProperties": False},
    {"type": "array", "items": {"type": "number", "minimum": -1, "maximum": 1}, "minItems": 2, "maxItems": 4},
    {"anyOf": [{"type": "object", "properties": {"kind": {"const": "circle"}, "radius": {"type": "number", "exclusiveMinimum": 0, "maximum": 9}},
                "required": ["kind", "radius"], "additionalProperties": False},
               {"type": "object", "properties": {"kind": {"const": "square"}, "side": {"$ref": "#/$defs/side"}},
                "required": ["kind", "side"], "additionalProperties": False}],
     "$defs": {"side": {"type": "integer", "minimum": 1, "maximum": 50}}},
    {"type": "object", "properties": {"when": {"type": "string", "format": "date"}, "id": {"type": "string", "pattern": "^[A-Z]{2}-\\d{4}$"},
                                      "done": {"type": ["boolean", "null"]}}, "required": ["when", "id", "done"]},
    {"type": "object", "properties": {"left": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}, "value": {"type": "integer", "minimum": 0, "maximum": 9}},
     "required": ["left", "value"], "additionalProperties": False},
]


def ask(server, schema, seed, temperature=1.0):
    body = {"messages": [{"role": "user", "content": "An example, please."}], "max_tokens": 400, "temperature": temperature, "seed": seed,
            "response_format": {"type": "json_schema", "json_schema": {"name": "example", "strict": True, "schema": schema}}}
    status, _, answer = server.call("POST", "/v1/chat/completions", {**body, "top_p": 0.9})
    assert status == 200, answer
    choice = answer["choices"][0]
    return choice["message"]["content"], choice["finish_reason"]


def validate(schema, text):
    import jsonschema

    jsonschema.validate(json.loads(text), schema, jsonschema.Draft202012Validator)


def main():
    with Server() as s, Server("--method", "vanilla") as plain:
        asked = [(schema, seed) for schema in SCHEMAS for seed in range(4)]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            together = list(pool.map(lambda a: ask(s, *a), asked))
        ended = 0
        for (schema, seed), answer in zip(asked, together):
            assert answer == ask(plain, schema, seed), (schema, seed, answer)
            if answer[1] == "stop":  # the others were cut off by max_tokens
                ended += 1
                validate(schema, answer[0])
        assert ended >= len(asked) // 2, together
        for field, value, check in (("guided_regex", "(yes|no), \\d{3}", lambda t: re.fullmatch(r"(yes|no), \d{3}", t)),
                                    ("guided_choice", ["north", "south"], lambda t: t in ("north", "south")),
                                    ("guided_json", {"const": [1, 2]}, lambda t: t == "[1,2]")):
            for seed in range(3):
                text = s.complete("Say: ", max_tokens=40, temperature=1, seed=seed, **{field: value})["choices"][0]["text"]
                assert check(text), (field, text)
        names = [f"name {i}" for i in range(10000)]
        text = s.complete("Say: ", max_tokens=40, temperature=1, seed=1, guided_json={"enum": names})["choices"][0]["text"]
        assert json.loads(text) in names, text
        text = s.complete("Say: ", max_tokens=40, temperature=1, seed=1, guided_choice=names)["choices"][0]["text"]
        assert text in names, text
        rules = "\n".join(["root ::= r0"] + ['r%d ::= "%d" r%d' % (i, i % 10, i + 1) for i in range(2000)] + ['r2000 ::= "."'])
        text = s.complete("Say: ", max_tokens=40, temperature=1, seed=1, guided_grammar=rules)["choices"][0]["text"]
        assert text.startswith("0123456789012345"), text
        status, _, answer = s.call("POST", "/v1/completions", {"prompt": "Say: ", "guided_regex": r"(\w?){3000}\w{3000}"})
        assert status == 400 and "too ambiguous" in json.dumps(answer), (status, answer)
        gbnf = 'root ::= "(" [a-z]{1,3} ("," [a-z]){0,4} ")"'
        for field in ("guided_grammar", "grammar"):
            answers = [x.complete("Say: ", max_tokens=40, temperature=1, seed=3, **{field: gbnf})["choices"][0]["text"] for x in (s, plain)]
            assert answers[0] == answers[1] and re.fullmatch(r"\([a-z]{1,3}(,[a-z]){0,4}\)", answers[0]), answers
        status, _, answer = s.call("POST", "/v1/completions", {"prompt": "x", "grammar": "root ::= root"})
        assert status == 400 and answer["error"]["param"] == "grammar" and "begins with itself" in answer["error"]["message"], answer
        with Server("--method", "lookahead") as other:  # whose own rounds know no grammar: it decodes plainly
            assert ask(other, SCHEMAS[0], 1) == ask(plain, SCHEMAS[0], 1)
    # what has to come is drafted: on a server whose account of drafts nothing has burdened yet
    long = {"const": "a sentence that is known from its first letter to its last, and longer than a few tokens are"}
    with Server() as fresh:
        for _ in range(5):
            assert json.loads(ask(fresh, long, 1, 0)[0]) == long["const"]
        assert fresh.metric('swiftlet_candidates_accepted_total{source="form"}') > 20


if __name__ == "__main__":
    if os.environ.get("SWIFTLET_ANSWER_FORMAT") != "1":
        python = find_python("jsonschema") or skip("no Python with the package jsonschema")
        os.execve(python, [python, os.path.abspath(__file__)], {**os.environ, "SWIFTLET_ANSWER_FORMAT": "1"})
    main()
