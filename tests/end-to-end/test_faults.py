#!/usr/bin/env python3
"""Clients that misbehave, each beside one that does not: bodies that are too long, never come or come too slowly,
streams that nobody reads, connections half open. Each has a clear answer or is closed, and hurts no other."""
import concurrent.futures, json, socket, threading, time
from service import MODEL, Server, wait_for

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def connect(s, small=False):
    c = socket.socket()
    if small:
        c.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    c.connect(("127.0.0.1", s.port))
    c.settimeout(900)
    return c


def rest(c):
    out = b""
    try:
        while True:
            got = c.recv(65536)
            if not got:
                return out
            out += got
    except ConnectionResetError:
        return out


def say(c, data):
    """Sends as much as is taken: who has answered already may have closed."""
    try:
        c.sendall(data)
    except (ConnectionResetError, BrokenPipeError):
        pass


def overlong(s):
    """Said before the body is sent, where its length is given; else once it is too long."""
    with connect(s) as c:
        c.sendall(HEAD + b"Content-Length: 999999999999\r\n\r\n")
        assert rest(c).startswith(b"HTTP/1.1 413 "), "refused by its length"
    with connect(s) as c:
        say(c, HEAD + b"Content-Length: 9000000\r\n\r\n" + b" " * 9000000)
        assert c.recv(64).startswith(b"HTTP/1.1 413 ")


def slow_writer(s):
    """A byte now and then: 408 when the body's time is over."""
    with connect(s) as c:
        c.sendall(HEAD + b"Content-Length: 1000\r\n\r\n")
        c.settimeout(0.1)
        answer = b""
        for _ in range(900):
            say(c, b" ")
            try:
                answer = c.recv(4096)
                break
            except socket.timeout:
                continue
        assert answer.startswith(b"HTTP/1.1 408 ") and b"took too long" in answer, answer


def silent_writer(s):
    """Half a body, then nothing: 408 too, by the time for silent connections."""
    with connect(s) as c:
        c.sendall(HEAD + b"Content-Length: 1000\r\n\r\n{")
        answer = rest(c)
        assert answer.startswith(b"HTTP/1.1 408 "), answer


def half_open(s):
    """Connections that say nothing, or half a head, are closed; others are answered meanwhile."""
    silent = [connect(s) for _ in range(40)]
    for i, c in enumerate(silent):
        if i % 2:
            c.sendall(HEAD[:30])
    assert s.complete("x", max_tokens=2)["choices"]
    for c in silent:
        assert not rest(c).startswith(b"HTTP/1.1 2")
        c.close()


def slow_reader(s):
    """A stream that nobody reads holds its place no longer than a silent connection may, and no other's tokens."""
    fields = {"model": MODEL, "prompt": "Once upon a time", "max_tokens": 1500, "temperature": 1, "n": 4, "logprobs": 20,
              "stream": True}
    body = json.dumps(fields).encode()
    with connect(s, small=True) as c:
        c.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        for _ in range(3):
            assert s.complete("Once", max_tokens=8, temperature=0)["choices"][0]["text"]
        s.wait_until_idle()


def late_reader(s):
    """One that reads late, but reads, gets all of it."""
    fields = {"model": MODEL, "prompt": "Once upon a time", "max_tokens": 40, "temperature": 1, "logprobs": 20, "stream": True}
    body = json.dumps(fields).encode()
    with connect(s, small=True) as c:
        c.sendall(HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        time.sleep(0.5)
        assert b"data: [DONE]" in rest(c)


def beside_others(s, *checks):
    """The checks wait side by side, and beside one that behaves well."""
    want = s.complete("Once upon a time", max_tokens=40, temperature=0)["choices"][0]["text"]
    over, texts = threading.Event(), []

    def well_behaved():
        while True:
            texts.append(s.complete("Once upon a time", max_tokens=40, temperature=0)["choices"][0]["text"])
            if over.is_set():
                return

    with concurrent.futures.ThreadPoolExecutor() as pool:
        beside = pool.submit(well_behaved)
        try:
            for check, done in [(check, pool.submit(check, s)) for check in checks]:
                done.result()
                print(check.__name__, "passed", flush=True)
        finally:
            over.set()
        beside.result()
    assert set(texts) == {want}, set(texts)
    print("beside them %d requests, all answered as alone" % len(texts))


def main():
    # who is slow is reported so soon; who is not has as long as a server gives anyone, on a machine however busy
    with Server("--idle", "10", "--body-seconds", "10") as s:
        beside_others(s, slow_writer, silent_writer, half_open)
        slow_reader(s)
        print("slow_reader passed")
    with Server() as s:
        beside_others(s, overlong, late_reader)


if __name__ == "__main__":
    main()
