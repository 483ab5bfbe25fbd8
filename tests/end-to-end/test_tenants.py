"""Keys are kept apart: what one has sent shows in no figure of another's. Doors: hosts, lengths, paths, slow headers."""
import os, socket, sys, tempfile, time

from service import SOURCE, Server, wait_for

sys.path.insert(0, os.path.join(SOURCE, "tools", "load"))
import attacks

SECRET = attacks.letter("lantern")
KEYS = "first-key-0001\nsecond-key-0002\n"


def ask(server, key, prompt):
    status, _, answer = server.call("POST", "/v1/completions", {"prompt": prompt, "max_tokens": 4, "temperature": 0},
                                    {"Authorization": "Bearer " + key})
    assert status == 200, answer
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def keys_are_kept_apart(folder):
    file = os.path.join(folder, "keys")
    with open(file, "w") as f:
        f.write(KEYS)
    with Server("--api-key-file", file, "--sessions", "2") as s:
        assert ask(s, "first-key-0001", SECRET) == 0
        assert ask(s, "first-key-0001", SECRET) > 0, "its own prefix is found again"
        rows = attacks.attack(lambda key, prompt: ask(s, key, prompt), "first-key-0001", "second-key-0002")
        assert all(len(set(reported)) == 1 for _, reported in rows), "the right word shows: %s" % rows
        assert ask(s, "first-key-0001", SECRET) > 0, "and still after another key's request"
    with Server("--api-key-file", file, "--sessions", "1") as s:  # one slot, which passes from key to key
        assert ask(s, "first-key-0001", SECRET) == 0
        assert ask(s, "second-key-0002", SECRET) == 0
        assert ask(s, "first-key-0001", SECRET) > 0
    with Server("--api-key-file", file, "--share-prefixes") as s:
        rows = attacks.attack(lambda key, prompt: ask(s, key, prompt), "first-key-0001", "second-key-0002")
        assert attacks.found(rows) == len(rows), "where it is asked for, it does: %s" % rows


FILE = """# the operator's, two keys of one customer, and another's
admin-key-0000 group=ops admin
first-key-0001 group=one
first-key-0003 group=one
second-key-0002
"""
ADMIN, FIRST, THIRD, SECOND = ({"Authorization": "Bearer " + line.split()[0]} for line in FILE.splitlines()[1:])


def tasks(s, key):
    return {m["task"]: m for m in s.call("GET", "/v1/swiftlet/masks", headers=key)[2]["data"]}


def figure(s, key, name):
    for line in s.call("GET", "/metrics", headers=key)[2].splitlines():
        if line.startswith(name + " "):
            return float(line.split()[-1])


def generate(s, key, task, tokens=48, prompt="Once upon a time there was a fox who"):
    body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "metadata": {"task": task}}
    status, _, answer = s.call("POST", "/v1/completions", body, key)
    assert status == 200, answer
    return answer


def masks_are_a_tenants(s):
    generate(s, FIRST, "letters")
    generate(s, SECOND, "poems")
    for key, mine in ((FIRST, {"letters"}), (THIRD, {"letters"}), (SECOND, {"poems"}), (ADMIN, {"letters", "poems"})):
        assert set(tasks(s, key)) == mine, (key, tasks(s, key))
    letters = tasks(s, FIRST)["letters"]["id"]
    assert s.call("GET", "/v1/swiftlet/masks/%d" % letters, headers=SECOND)[0] == 404
    assert s.call("GET", "/v1/swiftlet/masks/%d" % letters, headers=ADMIN)[0] == 200
    mask = {"task": "everyone", "attention": [3, 5], "mlp": [4]}
    for method, path, body in (("PUT", "/v1/swiftlet/masks", mask), ("POST", "/v1/swiftlet/masks", mask),
                               ("DELETE", "/v1/swiftlet/masks/%d" % letters, None)):
        status, _, answer = s.call(method, path, body, FIRST)
        assert status == 403 and answer["error"]["code"] == "admin_key_needed", answer
    assert s.call("PUT", "/v1/swiftlet/masks", mask, ADMIN)[0] == 200
    assert tasks(s, SECOND)["everyone"]["owner"] == 0, "the operator's masks are everybody's"
    generate(s, SECOND, "everyone")
    seen = [m for m in s.call("GET", "/v1/swiftlet/masks", headers=ADMIN)[2]["data"] if m["task"] == "everyone"]
    assert [m["tokens_served"] for m in seen if m["owner"] == 0] == [0], "what a text shows is its tenant's: %s" % seen
    assert sum(m["tokens_served"] for m in seen) == 48 and len({m["owner"] for m in seen}) == 2, seen
    assert {m["owner"] for m in s.call("GET", "/v1/swiftlet/masks", headers=FIRST)[2]["data"] if m["task"] == "everyone"} == {0}


def optimizers_are_a_tenants(s):
    path = "/v1/swiftlet/optimizer"
    made = s.call("POST", path, {"blocks": 8}, FIRST)[2]["id"]
    for call in (("GET", path + "/" + made, None), ("POST", path + "/" + made + "/propose", {}), ("DELETE", path + "/" + made, None)):
        assert s.call(*call, headers=SECOND)[0] == 404, call
    assert s.call("GET", path, headers=SECOND)[2]["data"] == []
    for _ in range(40):
        assert s.call("POST", path, {"blocks": 8}, SECOND)[0] == 200
    assert s.call("GET", path + "/" + made, headers=THIRD)[0] == 200, "another's many push out none but his own"
    mine = s.call("GET", path, headers=SECOND)[2]["data"]
    assert len(s.call("GET", path, headers=ADMIN)[2]["data"]) == len(mine) + 1
    assert s.call("DELETE", path + "/" + mine[0]["id"], headers=ADMIN)[0] == 200


def figures_are_a_tenants(s):
    name = 'swiftlet_tokens_total{kind="generated"}'
    before = figure(s, FIRST, name), figure(s, SECOND, name), figure(s, ADMIN, name)
    generate(s, FIRST, "letters", 40)
    after = figure(s, THIRD, name), figure(s, SECOND, name), figure(s, ADMIN, name)
    assert [b - a for a, b in zip(before, after)] == [40, 0, 40], (before, after)
    for hidden in ("swiftlet_sessions_busy", "swiftlet_queue_length", "swiftlet_bank_masks"):
        assert figure(s, SECOND, hidden) is None and figure(s, ADMIN, hidden) is not None, hidden
    for path in ("/v1/swiftlet/state", "/"):
        assert s.call("GET", path, headers=SECOND)[0] == 403 and s.call("GET", path, headers=ADMIN)[0] == 200


def what_was_learned_shows_in_no_other_keys_figures(file):
    """On one slot, with what repeats where nothing is measured: a key's second answer drafts otherwise than its first, and
    another key's is the same whether there was a first key or not."""
    options = ("--sessions", "1", "--draft", "always", "--max-tree", "16", "--opt-budget", "inf", "--idle-learning", "off")

    def drafted(s, key):
        u = generate(s, key, "letters", 120)["swiftlet"]
        return [u[k] for k in ("draft_steps", "accepted", "verify_passes", "optimize_steps", "mask")]

    with Server("--api-key-file", file, *options) as s:
        alone = drafted(s, SECOND)
    with Server("--api-key-file", file, *options) as s:
        first = [drafted(s, FIRST) for _ in range(3)]
        assert first[0] == alone and first[2] != first[0], "a key learns from its own texts"
        assert drafted(s, SECOND) == alone, "and from no other's"


def learned_things_are_kept_apart(folder):
    file, store = os.path.join(folder, "groups"), os.path.join(folder, "masks.db")
    with open(file, "w") as f:
        f.write(FILE)
    what_was_learned_shows_in_no_other_keys_figures(file)
    with Server("--api-key-file", file, "--sessions", "2", "--idle-learning", "off", store=store) as s:
        assert ask(s, "first-key-0001", SECRET) == 0 and ask(s, "first-key-0003", SECRET) > 0, "one tenant has two keys"
        assert ask(s, "second-key-0002", SECRET) == 0
    os.remove(store)
    with Server("--api-key-file", file, "--sessions", "2", "--idle-learning", "off", store=store) as s:
        for check in (masks_are_a_tenants, optimizers_are_a_tenants, figures_are_a_tenants):
            check(s)
    with Server("--api-key-file", file, store=store) as s:
        assert "letters" in tasks(s, THIRD) and "letters" not in tasks(s, SECOND) and "poems" in tasks(s, SECOND), "and after a restart"
    for text, words in (("first-key-0001 root\n", "expected group=NAME"), ("first-key-0001 group=\n", "expected group=NAME"),
                        ("first-key-0001\nfirst-key-0001 admin\n", "this key is listed twice"), ("short\n", "8 to 255")):
        with open(file, "w") as f:
            f.write(text)
        try:
            with Server("--api-key-file", file):
                raise AssertionError("a server with such keys: " + text)
        except RuntimeError as said:
            assert words in str(said), said


def doors(s):
    for what, data, status in attacks.REQUESTS:
        got, body = attacks.response_to(s.port, data)
        assert got == status and (status == 200 or attacks.is_error(body)), (what, got, body)
    for what, data, status in attacks.OTHERS:
        assert attacks.response_to(s.port, data)[0] == status, what


def a_chunked_body_that_never_ends_is_refused(s):
    with socket.create_connection(("127.0.0.1", s.port), timeout=60) as c:
        c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                  b"Transfer-Encoding: chunked\r\n\r\n")
        chunk = b"100000\r\n" + b" " * (1 << 20) + b"\r\n"
        said = b""
        try:
            for _ in range(40):
                c.sendall(chunk)
        except (ConnectionResetError, BrokenPipeError):
            pass
        try:
            said = c.recv(4096)
        except ConnectionResetError:
            return  # the answer was sent; what was still on its way undid it
    assert b" 413 " in said.split(b"\r\n")[0], said


def slow_headers_keep_nobody_out():
    """A thousand connections, more than there are places, each with a header now and then."""
    with Server("--header-seconds", "3") as s:
        def honest():
            assert s.call("GET", "/health")[0] == 200

        n, longest, _ = attacks.slow_headers(s.port, honest)
        print("%d slow connections: the longest of the honest answers took %.3f s" % (n, longest))
        assert longest < 8, longest
        slow = [socket.create_connection(("127.0.0.1", s.port))]
        slow[0].sendall(b"GET /health HTTP/1.1\r\nX: y\r\n")
        slow[0].settimeout(30)
        asked = time.monotonic()
        assert b" 408 " in slow[0].recv(1000).split(b"\r\n")[0] and slow[0].recv(100) == b"", "it gets that status and is closed"
        assert 2 < time.monotonic() - asked < 20


with tempfile.TemporaryDirectory() as folder:
    keys_are_kept_apart(folder)
    learned_things_are_kept_apart(folder)
with Server() as s:
    doors(s)
    a_chunked_body_that_never_ends_is_refused(s)
    wait_for("connections to be closed", lambda: s.call("GET", "/health")[0] == 200)
slow_headers_keep_nobody_out()
