"""Prefixes of models with recurrent blocks: a prompt goes on from a state that is kept in memory, with the text and log
probabilities of one that is computed at once."""
import json, os, random, tempfile, threading, urllib.request

from service import Server
from test_recurrent import GOLDEN, make_folder

MODELS = ("qwen3_5_text-plain", "granitemoehybrid-mamba-experts", "lfm2-plain")  # DeltaNet, Mamba-2, short convolutions
WORDS = ("the ", "and ", "in it ", "x", "q ", "is on ")


def make_model(name, folder):
    case = json.loads((GOLDEN / "configs" / (name + ".json")).read_text())
    case["config"]["max_position_embeddings"] = 4096
    return make_folder(case, folder)


def words(seed, n):
    rng = random.Random(seed)
    return "".join(rng.choice(WORDS) for _ in range(n))


def ask(s, prompt, key=None, **fields):
    """(cached tokens, text, log probabilities)"""
    body = {"prompt": prompt, "max_tokens": 20, "temperature": 0, "logprobs": 3, **fields}
    status, _, answer = s.call("POST", "/v1/completions", body, {"Authorization": "Bearer " + key} if key else None)
    assert status == 200, answer
    choice = answer["choices"][0]
    return (answer["usage"]["prompt_tokens_details"]["cached_tokens"], choice["text"],
            (choice["logprobs"]["token_logprobs"], choice["logprobs"]["top_logprobs"]))


def count_tokens(s, text):
    return len(s.call("POST", "/tokenize", {"content": text})[2]["tokens"])


def end_of_prompt(tokens):
    return (tokens - 1) // 32 * 32


# ---- in memory ---------------------------------------------------------------------------------------------


def computed_alone(model, requests):
    """Each by a server of its own, which has seen nothing before."""
    said = []
    for prompt, more in requests:
        with Server("-m", model, "--method", "vanilla", "--idle-learning", "off") as s:
            cached, *rest = ask(s, prompt, **more)
            assert cached == 0
            said.append(tuple(rest))
    return said


def reused(model):
    system = words(1, 330)
    turn = system + "what is it"
    sampled = {"temperature": 0.8, "seed": 5}
    requests = [(turn, {}), (turn, {}), (turn, sampled), (turn + words(2, 11), {}), (system + "other", {}),
                (turn + words(2, 11) + words(3, 40), sampled), (system[:500] + words(4, 7), {}), (system[:500] + words(5, 9), {}),
                (system[:500] + words(6, 35), sampled)]
    alone = computed_alone(model, requests)
    for sessions in "1", "4":
        with Server("-m", model, "--sessions", sessions, "--idle-learning", "off") as s:
            cached = []
            for (prompt, more), expected in zip(requests, alone):
                found, *rest = ask(s, prompt, **more)
                assert tuple(rest) == expected, (sessions, prompt[-20:], found)
                cached.append(found)
            n = [count_tokens(s, prompt) for prompt, _ in requests]
            shared = count_tokens(s, system)
            assert n[0] > 512 and cached[0] == 0, (n, cached)
            end = end_of_prompt(n[0])
            assert cached[1] == cached[2] == cached[3] == end, "the prompt again, and the next turn without the answer"
            assert shared / 2 < cached[4] <= shared, "the same system prompt"
            assert cached[5] >= end_of_prompt(n[3]), "the turn after that"
            assert cached[6] == 256 and 256 <= cached[7] == cached[8] <= count_tokens(s, system[:500]), (n, cached)
            left_in_the_middle(s, system + words(7, 60))
            assert ask(s, *requests[3][:1])[1:] == alone[3]


def left_in_the_middle(s, prompt):
    """A client that goes while its prompt or its answer is computed, and others meanwhile."""
    said = []
    threads = [threading.Thread(target=lambda i=i: said.append(ask(s, prompt[:-i])[1:])) for i in (1, 2, 3)]
    for t in threads:
        t.start()
    body = {"prompt": prompt, "max_tokens": 200, "temperature": 0, "stream": True}
    request = urllib.request.Request(s.url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=900) as answer:
        answer.readline()
    for t in threads:
        t.join()
    s.wait_until_idle()
    for i in (1, 2, 3):
        assert ask(s, prompt[:-i])[1:] in said


def main():
    with tempfile.TemporaryDirectory() as work:
        for name in MODELS:
            reused(make_model(name, os.path.join(work, name)))


if __name__ == "__main__":
    main()
