"""Nobody stalls anybody: long prompts, clients that leave, many items at once, streams that wait, blocked threads."""
import concurrent.futures, contextlib, ctypes, fcntl, http.client, json, os, re, socket, subprocess, sys, threading, time, urllib.request

from service import MODEL, PROGRAM, SOURCE, Server, wait_for

sys.path.insert(0, os.path.join(SOURCE, "tools", "load"))
import attacks


def long_prompts_stall_nobody():
    """Seven megabytes took 15 to 50 s, in which the server answered nobody. Generous: a sanitizer on a busy machine is slow."""
    with Server() as s:
        for chat in (False, True):
            for name, unit in attacks.LONG_PROMPTS[:2] if chat else attacks.LONG_PROMPTS:
                status, seconds, gap, health = attacks.long_prompt(s.port, unit, attacks.LONG, chat)
                assert status == 400 and health < 5 and gap < 5, (name, chat, status, seconds, gap, health)
        status, _, answer = s.call("POST", "/v1/completions", {"prompt": "word " * 100000, "max_tokens": 4})
        assert status == 400 and answer["error"]["code"] == "context_length_exceeded", answer
        text = "one two three " * 20000
        status, _, answer = s.call("POST", "/tokenize", {"prompt": text})
        assert status == 200 and answer["count"] > 20000, "what is counted has no limit"
        assert s.call("POST", "/detokenize", {"tokens": answer["tokens"]})[2]["prompt"].endswith(text)


def clients_that_leave_hold_nothing():
    with Server("--header-seconds", "60") as s:
        body = b'{"prompt":"a","max_tokens":400}'
        chat = attacks.POST.replace(b"Connection: close\r\n", b"")
        for name, data in (("GET", None), ("half of its headers", b"GET /health HTTP/1.1\r\nHo"),
                           ("its body is missing", attacks.POST + b"Content-Length: 100\r\n\r\n"),
                           ("half of its body is", attacks.POST + b"Content-Length: 100\r\n\r\n{"),
                           ("POST", chat + b"Content-Length: %d\r\n\r\n" % len(body) + body)):
            seconds = attacks.leave(s.port, data=data)
            assert seconds is not None and seconds < 30, (name, seconds)
            assert s.call("GET", "/health")[0] == 200
        for path in (b"/health", b"/version"):  # a client that only closes its side behind a whole request is there still
            with socket.create_connection(("127.0.0.1", s.port)) as c:
                c.sendall(b"GET " + path + b" HTTP/1.0\r\n\r\n")
                c.shutdown(socket.SHUT_WR)
                assert c.recv(100).startswith(b"HTTP/1."), path


def clients_that_leave_are_not_waited_for():
    """A connection was held until a worker had done its request, although the client was gone: 12 of these took 12 times as long
    as one. Now those that wait are dropped, and only the one that is worked on is done."""
    with Server() as s:
        fields = {"prompt": attacks.words(attacks.LONG), "return_token_strs": True, "with_pieces": True}
        began = time.monotonic()
        assert s.call("POST", "/tokenize", fields)[0] == 200
        one = time.monotonic() - began
        seconds = attacks.leave(s.port, n=12, data=attacks.whole("/tokenize", fields), within=300)
        assert seconds is not None and seconds < 5 * one + 2, (seconds, one)
        began = time.monotonic()  # watchers were seen to be gone at the second sign of life, after 5 to 10 s
        seconds = [attacks.leave(s.port, n=20, data=b"GET /v1/swiftlet/state HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
                   for _ in range(3)]
        assert min(seconds) < 4, seconds


def clients_that_leave_wait_for_no_step():
    """The threads that generate are halted, as by a step that takes long: the connections of clients that leave are given back."""
    ask = {"prompt": "a", "max_tokens": 2}
    with Server() as s:
        s.complete("a", max_tokens=2)
        for thread in threads_of(s):
            try:
                with halted([thread]), concurrent.futures.ThreadPoolExecutor(3) as pool:
                    if not answers_within(s.port, "/version", 2) or answers_within(s.port, "/v1/completions", 2, json.dumps(ask)):
                        continue
                    if not answers_within(s.port, "/tokenize", 2, '{"prompt": "a"}'):
                        continue
                    for stream in (False, True):
                        seconds = attacks.leave(s.port, n=20, data=attacks.whole("/v1/completions", {**ask, "stream": stream}))
                        assert seconds is not None and seconds < 30, (stream, seconds)
                    break
            except PermissionError:
                return
        else:
            raise AssertionError("no thread generates")
        s.complete("a", max_tokens=2)


def many_items_take_turns():
    with Server("--sessions", "2", "--queue", "4") as s:
        texts = ["number %d" % i for i in range(300)]
        status, _, answer = s.call("POST", "/v1/embeddings", {"input": texts})
        assert status == 200 and [e["index"] for e in answer["data"]] == list(range(300)), answer
        for i in (0, 7, 299):
            assert s.call("POST", "/v1/embeddings", {"input": texts[i]})[2]["data"][0]["embedding"] == answer["data"][i]["embedding"]
        status, _, answer = s.call("POST", "/v1/completions", {"prompt": texts[:20], "n": 3, "max_tokens": 2, "temperature": 0})
        assert status == 200 and [c["index"] for c in answer["choices"]] == list(range(60))
        assert all(answer["choices"][i]["text"] == answer["choices"][i - i % 3]["text"] for i in range(60))
        status, _, answer = s.call("POST", "/v1/embeddings", {"input": texts * 7})
        assert status == 400 and answer["error"]["message"].startswith("'input' holds more than 2048"), answer


def many_items_leave_room():
    """Two requests of many items filled the queue, so that every other request was refused, or waited for all items."""
    with Server("--sessions", "16", "--queue", "16") as s:
        texts = ["number %d " % i * 10 for i in range(100)]
        ended, said = [], []

        def embed():
            said.append(s.call("POST", "/v1/embeddings", {"input": texts})[0])
            ended.append(time.monotonic())
        threads = [threading.Thread(target=embed) for _ in range(4)]
        for t in threads:
            t.start()
        time.sleep(0.5)
        for _ in range(5):
            status, _, answer = s.call("POST", "/v1/completions", {"prompt": "a", "max_tokens": 2})
            assert status == 200, answer
        answered = time.monotonic()
        for t in threads:
            t.join()
        assert said == [200] * 4 and answered < min(ended), (said, answered, ended)


def streams_that_wait_are_heard_of():
    """Once one that waits is heard of, those that wait behind it leave."""
    heard = threading.Event()
    with Server("--sessions", "1") as s:
        def stream(_):
            """The last line; None: it left."""
            body = json.dumps({"prompt": "a", "max_tokens": 1900, "stream": True, "ignore_eos": True}).encode()
            request = urllib.request.Request(s.url + "/v1/completions", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request) as answer:
                own = False
                for line in filter(None, (line.strip() for line in answer)):
                    if line.startswith(b": ") and not heard.is_set():
                        heard.set()
                        own = True
                    if heard.is_set() and not own:
                        return None
                return line
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            ends = list(pool.map(stream, range(12)))
        assert heard.is_set(), "a stream waits silently"
        assert set(ends) <= {None, b"data: [DONE]"} and b"data: [DONE]" in ends, ends


@contextlib.contextmanager
def halted(threads):
    """Halts these threads of another process as a debugger does."""
    attach, detach, any_thread = 16, 17, 0x40000000
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    held = []
    try:
        for thread in threads:
            if libc.ptrace(attach, thread, None, None) != 0:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            os.waitpid(thread, any_thread)
            held.append(thread)
        yield
    finally:
        for thread in held:
            libc.ptrace(detach, thread, None, None)


def threads_of(server):
    """All but the first, in the order in which they began."""
    return sorted(int(name) for name in os.listdir("/proc/%d/task" % server.process.pid))[1:]


def answers_within(port, path, seconds, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    try:
        connection.request("POST" if body else "GET", path, body)
        return connection.getresponse().read() != b""
    except TimeoutError:
        return False
    finally:
        connection.close()


def probes_have_their_own_threads():
    """Finds the five threads that answer all other requests, and halts them: health checks and metrics are answered still."""
    with Server() as s, concurrent.futures.ThreadPoolExecutor(6) as pool:
        def some_answer(path):
            return any(pool.map(lambda _: answers_within(s.port, path, 0.5), range(6)))
        threads = threads_of(s)
        for group in (threads[i:i + n] for n in (5, 6, 7) for i in range(len(threads) - n + 1)):  # another may begin between them
            try:
                with halted(group):
                    if not some_answer("/version") and answers_within(s.port, "/health", 5):
                        for path in ("/health", "/ready", "/metrics", "/health?full=1") * 10:
                            assert answers_within(s.port, path, 5), path
                        break
            except PermissionError:
                print("a debugger may halt no thread here: the test of blocked threads is left out")
                return
        else:
            raise AssertionError("health checks have no thread of their own")
        assert s.call("GET", "/version")[0] == 200


def kept_connections_are_answered_beside_heavy_requests():
    """Each thread that serves all requests has two of the ten connections on which /health is asked again and again: none of them
    does what takes long."""
    with open(PROGRAM, "rb") as program:
        limit = 3 if b"__sanitizer" in program.read() else 0.3
    with Server() as s:
        s.complete("a", max_tokens=2)
        for name, path, body in (attacks.HEAVY[i] for i in (1, 2, 10, 14)):
            data = body()
            for _ in range(3):  # the machine may be busy
                statuses, _, health = attacks.beside(s.port, path, data, 2)
                if health < limit:
                    break
            else:
                raise AssertionError((name, statuses, health))


def events_that_come_together_are_handled():
    """libmicrohttpd takes 128 events at once, and then waits for more before it handles them. Each of two threads had 128
    connections here, and none of these requests was answered before the connections had been idle for a minute."""
    request = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with Server() as s, contextlib.ExitStack() as stack:
        clients = []
        for _ in range(256):
            clients.append(stack.enter_context(socket.create_connection(("127.0.0.1", s.port), timeout=30)))
            clients[-1].sendall(request)
            assert clients[-1].recv(4096).startswith(b"HTTP/1.1 200 ")
        try:
            with halted(threads_of(s)):
                for c in clients:
                    c.sendall(request)
                time.sleep(0.2)
        except PermissionError:
            return
        assert all(c.recv(4096).startswith(b"HTTP/1.1 200 ") for c in clients)


def log_lines_stall_nobody():
    """Standard error is a pipe that nobody reads, as behind a pager that is halted."""
    with attacks.Server(MODEL, "--log-requests", stderr=subprocess.PIPE) as s:
        errors = s.process.stderr
        fcntl.fcntl(errors, fcntl.F_SETPIPE_SZ, 8192)
        kept = http.client.HTTPConnection("127.0.0.1", s.port, timeout=10)
        for path in ("/version", "/health") * 200:  # the same connection: threads that serve all requests answer both
            kept.request("GET", path)
            assert kept.getresponse().read(), path
            assert answers_within(s.port, path, 10), path
        assert attacks.post(s.port, "/v1/completions", {"prompt": "a", "max_tokens": 2})[0] == 200
        os.set_blocking(errors.fileno(), False)

        def read():  # text streams cannot read what may have nothing: the buffer below can
            return (errors.buffer.read() or b"").decode()

        said = read()
        assert re.fullmatch(r"(GET /(version|health) 200 [0-9.]+ s req_\w+\n|swiftlet: .*\n)+", said), said
        assert len(said) <= 8192
        assert attacks.post(s.port, "/v1/none", {})[0] == 404
        wait_for("a line that there is room for", lambda: "/v1/none 404" in read(), 10)


def small_requests_pass_large_ones():
    """Two large requests kept both workers busy, and every other client's request waited for one of them."""
    with Server() as s:
        body = json.dumps({"prompt": attacks.words(attacks.LONG), "return_token_strs": True, "with_pieces": True}).encode()
        large, small, stop = [], [], threading.Event()

        def send():
            while not stop.is_set():
                began = time.monotonic()
                status = attacks.post(s.port, "/tokenize", body)[0]
                large.append(time.monotonic() - began)
                assert status == 200, status
        clients = [threading.Thread(target=send) for _ in range(3)]
        for c in clients:
            c.start()
        wait_for("a large one", lambda: large)
        for _ in range(10):
            began = time.monotonic()
            assert s.call("POST", "/tokenize", {"prompt": "a"})[0] == 200
            small.append(time.monotonic() - began)
            time.sleep(0.1)
        stop.set()
        for c in clients:
            c.join()
        small, large = sorted(small)[len(small) // 2], sorted(large)[len(large) // 2]
        assert small < large / 10, (small, large)


def probes_have_their_own_places():
    """512 open connections left no place for a health check."""
    with Server() as s:
        held = []
        for _ in range(512):
            held.append(socket.create_connection(("127.0.0.1", s.port)))
            held[-1].sendall(attacks.POST + b"Content-Length: 100\r\n\r\n")  # whose body does not come
        wait_for("all to be open", lambda: s.metric("swiftlet_connections") >= 512, 30)
        for path in ("/health", "/metrics", "/ready") * 20:
            assert answers_within(s.port, path, 5), path
        assert not answers_within(s.port, "/version", 0.3), "a place was free: this test shows nothing"
        for connection in held:
            connection.close()


def answers_to(port, data, seconds=1):
    """What comes within that time, or until the server closes the connection."""
    said, until = b"", time.monotonic() + seconds
    with socket.create_connection(("127.0.0.1", port)) as s:
        s.sendall(data)
        with contextlib.suppress(TimeoutError):
            while time.monotonic() < until:
                s.settimeout(max(0.01, until - time.monotonic()))
                part = s.recv(65536)
                if not part:
                    break
                said += part
    return said


def one_request_on_the_threads_of_probes():
    """A connection of these threads serves no second request, which could be large."""
    with Server() as s:
        for first, closes in ((b"GET /health HTTP/1.1", True), (b"HEAD /metrics HTTP/1.1", True),
                              (b"GET /health/ HTTP/1.1", False), (b"GET /version HTTP/1.1", False)):
            answer = answers_to(s.port, first + b"\r\nHost: localhost\r\n\r\n")
            assert (b"\r\nConnection: close\r\n" in answer) == closes, answer
        both = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        answer = answers_to(s.port, both + both.replace(b"/health", b"/version"))
        assert answer.count(b"HTTP/1.1 200 ") == 2, answer
        body = b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
        answer = answers_to(s.port, body)
        assert answer.startswith(b"HTTP/1.1 200 ") and b"\r\nConnection: close\r\n" not in answer, answer


long_prompts_stall_nobody()
clients_that_leave_hold_nothing()
clients_that_leave_are_not_waited_for()
clients_that_leave_wait_for_no_step()
many_items_take_turns()
many_items_leave_room()
streams_that_wait_are_heard_of()
probes_have_their_own_threads()
kept_connections_are_answered_beside_heavy_requests()
events_that_come_together_are_handled()
log_lines_stall_nobody()
small_requests_pass_large_ones()
probes_have_their_own_places()
one_request_on_the_threads_of_probes()
