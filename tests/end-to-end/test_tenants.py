"""Keys are kept apart: what one has sent shows in no figure of another's. Doors: hosts, lengths, paths, slow headers."""
import json, os, socket, tempfile, time

from service import Server, wait_for

SECRET = "Dear Agnes, the safe behind the clock opens with the word lantern, and nobody but you may ever know of it. Burn this letter."
KEYS = "first-key-0001\nsecond-key-0002\n"


def ask(server, key, prompt):
    status, _, answer = server.call("POST", "/v1/completions", {"prompt": prompt, "max_tokens": 4, "temperature": 0},
                                    {"Authorization": "Bearer " + key})
    assert status == 200, answer
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


WORDS = ["bicycle", "gallery", "kitchen", "lantern", "mailbox", "station"]


def guesses(server, key):
    """What a key is told for each word that it supposes in the letter. One that is none of them is asked first, so that
    what guesses have in common with one another is found alike."""
    ask(server, key, SECRET.replace("lantern", "village"))
    return [ask(server, key, SECRET.replace("lantern", word)) for word in WORDS]


def keys_are_kept_apart(folder):
    file = os.path.join(folder, "keys")
    with open(file, "w") as f:
        f.write(KEYS)
    with Server("--api-key-file", file, "--sessions", "2") as s:
        assert ask(s, "first-key-0001", SECRET) == 0
        assert ask(s, "first-key-0001", SECRET) > 0, "its own prefix is found again"
        told = guesses(s, "second-key-0002")
        assert len(set(told)) == 1, "the right word shows: %s" % told
        assert ask(s, "first-key-0001", SECRET) > 0, "and still after another key's request"
    with Server("--api-key-file", file, "--sessions", "1") as s:  # one seat, which passes from key to key
        assert ask(s, "first-key-0001", SECRET) == 0
        assert ask(s, "second-key-0002", SECRET) == 0
        assert ask(s, "first-key-0001", SECRET) > 0
    with Server("--api-key-file", file, "--share-prefixes") as s:
        assert ask(s, "first-key-0001", SECRET) == 0
        told = guesses(s, "second-key-0002")
        assert told.index(max(told)) == WORDS.index("lantern") and len(set(told)) > 1, "where it is asked for, it does: %s" % told


def raw(server, text, wait=10):
    """The answer's first line to bytes sent as they are."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=wait) as s:
        s.sendall(text.encode())
        said = b""
        while b"\r\n" not in said:
            more = s.recv(4096)
            if not more:
                break
            said += more
    return said.split(b"\r\n")[0].decode()


def doors(s):
    get = "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n"
    for host, status in (("127.0.0.1", 200), ("127.0.0.2:80", 200), ("localhost:1", 200), ("[::1]", 200), ("LOCALHOST", 200),
                         ("127.evil.com", 403), ("127.0.0.1.evil.com", 403), ("127.0.0.1x", 403), ("evil.com", 403), ("[::2]", 403),
                         ("[::1", 403), ("127.1", 403)):
        got = raw(s, get % ("/v1/models", host))
        assert (" %d " % status) in got, (host, got)
    for path, status in (("/health", 200), ("/health%00x", 404), ("/v1%2fmodels", 404), ("/%76%31/models", 200), ("/health%0", 404)):
        got = raw(s, get % (path, "localhost"))
        assert (" %d " % status) in got, (path, got)
    post = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%s\r\n"
    for lengths in ("Content-Length: 2\r\nContent-Length: 3\r\n", "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
                    "Transfer-Encoding: gzip\r\n"):
        got = raw(s, post % lengths + "{}")
        assert " 400 " in got, (lengths, got)


def a_chunked_body_that_never_ends_is_told_so(s):
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
    """More connections than there are places, each with a header now and then."""
    with Server("--header-seconds", "3") as s:
        slow = []
        for _ in range(600):
            c = socket.socket()
            c.setblocking(False)
            c.connect_ex(("127.0.0.1", s.port))
            slow.append(c)
        began, longest = time.monotonic(), 0.0
        while time.monotonic() - began < 8:
            for c in slow:
                try:
                    c.send(b"GET / HTTP/1.1\r\nX: y\r\n")
                except OSError:
                    pass
            asked = time.monotonic()
            status, _, _ = s.call("GET", "/health")
            longest = max(longest, time.monotonic() - asked)
            assert status == 200
        for c in slow:
            c.close()
        assert longest < 8, longest
        slow = [socket.create_connection(("127.0.0.1", s.port))]
        slow[0].sendall(b"GET /health HTTP/1.1\r\nX: y\r\n")
        slow[0].settimeout(30)
        asked = time.monotonic()
        assert slow[0].recv(100) == b"", "it is closed"
        assert 2 < time.monotonic() - asked < 20


with tempfile.TemporaryDirectory() as folder:
    keys_are_kept_apart(folder)
with Server() as s:
    doors(s)
    a_chunked_body_that_never_ends_is_told_so(s)
    wait_for("connections to be closed", lambda: s.call("GET", "/health")[0] == 200)
slow_headers_keep_nobody_out()
