"""Prefixes of models with recurrent blocks: a prompt goes on from a state that is kept in memory or on disk, with the text
and log probabilities of one that is computed at once; a damaged or half-written file is never used."""
import json, os, pathlib, random, shutil, signal, subprocess, tempfile, threading, urllib.request

from service import Server, prompt_cache_figure, prompt_cache_files, wait_for
from test_recurrent import GOLDEN, make_folder

MODELS = ("qwen3_5_text-plain", "granitemoehybrid-mamba-experts", "lfm2-plain")  # DeltaNet, Mamba-2, short convolutions
WORDS = ("the ", "and ", "in it ", "x", "q ", "is on ")
FIRST, SECOND = "first-key-0001", "second-key-0002"


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


# ---- on disk -----------------------------------------------------------------------------------------------


def kept(options, folder, prompt):
    """A first life of the service: (files, cached tokens, what was said)."""
    with Server(*options) as s:
        none, *said = ask(s, prompt, FIRST)
        assert none == 0 and not prompt_cache_files(folder), "what came once is not kept"
        cached, *again = ask(s, prompt, FIRST)
        assert cached >= 64 and cached % 32 == 0 and again == said
        wait_for("files to be written", lambda: prompt_cache_figure(s, "kept_total") == cached // 32 + 1)  # and the state
        assert prompt_cache_figure(s, "bytes") == sum(os.path.getsize(p) for p in prompt_cache_files(folder))
        s.process.kill()
        s.process.wait()
        s.process.returncode = 0  # as asked
    return len(prompt_cache_files(folder)), cached, said


def found_after_a_restart(options, folder, prompt):
    n, cached, said = kept(options, folder, prompt)
    assert n == cached // 32 + 1
    with Server(*options) as s:
        assert ask(s, prompt, SECOND) == (0, *said), "another key's are not found"
        assert ask(s, prompt, FIRST) == (cached, *said)
        assert prompt_cache_figure(s, "found_total") == n and prompt_cache_figure(s, "damaged_total") == 0
        assert ask(s, prompt + " and", FIRST)[0] == cached
        assert ask(s, prompt[:150], FIRST)[0] == 0, "a shorter text has pages and no state"
    with Server(*options) as s:  # pages that are in memory are not read again
        assert ask(s, prompt[:150], FIRST)[0] == 0
        assert ask(s, prompt, FIRST) == (cached, *said)
        assert 1 < prompt_cache_figure(s, "found_total") < n
    return cached, said


def damaged_ones_are_ignored(options, folder, prompt, said):
    draw, good = random.Random(2), {p: open(p, "rb").read() for p in prompt_cache_files(folder)}
    state, = (p for p in good if sum(len(d) == len(good[p]) for d in good.values()) == 1)  # the one of a size of its own
    for how in range(4):
        for path, data in good.items():
            pathlib.Path(path).write_bytes(data)
        data = good[state]
        at = draw.randrange(len(data))
        pathlib.Path(state).write_bytes((data[:at], data + b"x", draw.randbytes(len(data)),
                                         data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1:])[how])
        with Server(*options) as s:
            assert ask(s, prompt, FIRST) == (0, *said), how
            assert prompt_cache_figure(s, "damaged_total") == 1 and not os.path.exists(state)
            assert ask(s, prompt, FIRST)[1:] == tuple(said)
    for path, data in good.items():
        pathlib.Path(path).write_bytes(data)
    page = next(p for p in good if p != state)
    pathlib.Path(page).write_bytes(good[page][:-1] + bytes([good[page][-1] ^ 1]))
    with Server(*options) as s:  # a page before the state
        assert ask(s, prompt, FIRST) == (0, *said) and prompt_cache_figure(s, "damaged_total") == 1


def killed_amid_a_write(options, folder, prompt, cached, said, work):
    """While the state is written: pages without it are of no use, and the next life writes it."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if not compiler:
        print("a kill amid a write: not tried, there is no C compiler")
        return
    shim = os.path.join(work, "kill_at.so")
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kill_at.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", shim, source, "-ldl"], check=True)
    for at, found in (("write", 0), ("rename", 0), ("renamed", cached)):
        for p in prompt_cache_files(folder):
            os.remove(p)
        set_up = {"LD_PRELOAD": shim, "SWIFTLET_KILL_AT": at, "SWIFTLET_KILL_AFTER": str(cached // 32),
                  "ASAN_OPTIONS": "verify_asan_link_order=0"}
        os.environ.update(set_up)
        try:
            s = Server(*options).__enter__()
        finally:
            for name in set_up:
                del os.environ[name]
        try:
            ask(s, prompt, FIRST)
            ask(s, prompt, FIRST)
        except OSError:
            pass  # it was killed before the answer was written
        assert s.process.wait(120) == -signal.SIGKILL
        s.errors.close()
        s.folder.cleanup()
        assert len(prompt_cache_files(folder)) == cached // 32 + (found > 0), (at, os.listdir(folder))
        with Server(*options) as s:
            assert ask(s, prompt, FIRST) == (found, *said), at
            assert ask(s, prompt, FIRST) == (cached, *said), at
            wait_for("the state to be written", lambda: len(prompt_cache_files(folder)) == cached // 32 + 1)
            assert prompt_cache_figure(s, "damaged_total") == 0


def main():
    with tempfile.TemporaryDirectory() as work:
        keys = os.path.join(work, "keys")
        with open(keys, "w") as f:
            f.write("admin-key-0000 admin\n%s\n%s\n" % (FIRST, SECOND))
        for name in MODELS:
            model = make_model(name, os.path.join(work, name))
            reused(model)
            folder = os.path.join(work, "prompts-" + name)
            options = ("-m", model, "--api-key-file", keys, "--prompt-cache", folder, "--idle-learning", "off")
            prompt = words(8, 100)
            cached, said = found_after_a_restart(options, folder, prompt)
            damaged_ones_are_ignored(options, folder, prompt, said)
            if name == MODELS[0]:
                killed_amid_a_write(options, folder, prompt, cached, said, work)


if __name__ == "__main__":
    main()
