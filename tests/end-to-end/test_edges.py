"""Faults outside the program: a full disk, a model's file that is cut short, the end amid answers, connections that wait, origins."""
import json, os, re, resource, shutil, socket, subprocess, tempfile, threading, time

import service
from service import PROGRAM, Server, run_text, wait_for

PROMPT = "Once upon a time there was a fox who"


def full_disk():
    """Reported by log and metric, and nothing is lost: what could not be stored is, once there is room."""
    with Server() as s:
        for i in range(4):
            s.complete(PROMPT, max_tokens=24, temperature=0, metadata={"task": "before"})
        assert s.metric("swiftlet_store_failed") == 0
        none, most = resource.prlimit(s.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(s.process.pid, resource.RLIMIT_FSIZE, (512, most))

        def fails():
            s.complete(PROMPT, max_tokens=24, temperature=0, metadata={"task": "full"})
            return s.metric("swiftlet_store_failed") == 1

        wait_for("the store to fail", fails, 120)
        resource.prlimit(s.process.pid, resource.RLIMIT_FSIZE, (none, most))
        resumes = lambda: (s.complete(PROMPT, max_tokens=24, temperature=0, metadata={"task": "after"}), s.metric("swiftlet_store_failed") == 0)[1]
        wait_for("the store to be written again", resumes, 120)
        listed = subprocess.run([PROGRAM, "masks", "list", "--all", "--store", s.store], capture_output=True, text=True).stdout
        assert "full" in listed, listed
    assert "kept in memory" in s.said and "written again" in s.said, s.said


def truncated_model():
    """A file that is cut short while it is mapped: where it is needed the service ends with a sentence, else it answers on."""
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "model")
        shutil.copytree(os.path.join(service.SOURCE, "core/builtin"), copy)
        model, service.MODEL = service.MODEL, copy
        s = Server("--alias", "builtin", "--draft-bits", "off")
        try:
            s.__enter__()
            s.call("POST", "/v1/completions", {"prompt": PROMPT, "max_tokens": 8})
            os.truncate(os.path.join(copy, "model.safetensors"), 4096)
            try:
                s.call("POST", "/v1/completions", {"prompt": "Another text, of which no row is anywhere yet: " + PROMPT, "max_tokens": 200, "ignore_eos": True})
            except OSError:
                pass
            status = s.process.wait(120)
            s.errors.seek(0)
            said = s.errors.read()
            assert status == 1 and copy in said and "cut short" in said, (status, said)
        finally:
            service.MODEL = model
            s.process.kill()
            s.process.wait()
            s.errors.close()
            s.folder.cleanup()


def end_amid_answers():
    """Whole and streamed answers that do not fit the grace are what there is of them; who has not begun is refused."""
    tokens, answers = 2000, {}
    whole = run_text(PROMPT, "-n", str(tokens), "--method", "vanilla")["text"]
    with Server("--grace", "1", "--sessions", "4", "--idle-learning", "off") as s:

        def ask(i):
            if i % 2:
                chunks = s.stream(PROMPT, max_tokens=tokens, temperature=0)
                ended = [c["choices"][0]["finish_reason"] for c in chunks if c.get("choices")]
                answers[i] = 200, "".join(c["choices"][0]["text"] for c in chunks if c.get("choices")), ended[-1] if ended else None
            else:
                status, _, a = s.call("POST", "/v1/completions", {"prompt": PROMPT, "max_tokens": tokens, "temperature": 0})
                answers[i] = (status, a["choices"][0]["text"], a["choices"][0]["finish_reason"]) if status == 200 else (status, "", None)

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        s.wait_until_busy(4)
        wait_for("tokens of each", lambda: all(x["tokens"] > 4 for x in s.call("GET", "/v1/swiftlet/state")[2]["sessions"]))
        assert s.stop() == 0
        for t in threads:
            t.join()
    assert len(answers) == 4
    for status, text, ended in answers.values():
        assert status == 200 and ended == "length" and text and whole.startswith(text), (status, text, ended)


def who_had_an_answer_keeps_his_place():
    """While silent connections press, one that has had an answer may wait; they may not."""
    get = b"GET /version HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with Server() as s:
        kept = socket.create_connection(("127.0.0.1", s.port), timeout=60)
        kept.sendall(get)
        assert b" 200 " in kept.recv(4096)
        silent = [socket.create_connection(("127.0.0.1", s.port)) for _ in range(420)]
        time.sleep(3)
        kept.sendall(get)
        assert b" 200 " in kept.recv(4096), "it is still there"
        closed = 0
        for c in silent:
            c.settimeout(30)
            closed += c.recv(1) == b""
            c.close()
        kept.close()
        assert closed == len(silent)


def own_address():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as c:
        try:
            c.connect(("192.0.2.1", 9))  # sends nothing
            return c.getsockname()[0]
        except OSError:
            return None


def places_of_one_address():
    address = own_address()
    if not address or address.startswith("127."):
        print("places of one address: not tried, this machine has no address but its own")
        return
    with tempfile.NamedTemporaryFile("w") as f:
        f.write("some-key-0001\n")
        f.flush()
        with Server("--host", "0.0.0.0", "--api-key-file", f.name, "--address-connections", "5") as s:
            held = []
            for i in range(8):
                c = socket.create_connection((address, s.port), timeout=30)
                c.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\nX-Api-Key: some-key-0001\r\n\r\n")
                said = c.recv(4096)
                held.append(b" 200 " in said)
                if not held[-1]:
                    head, _, body = said.partition(b"\r\n\r\n")
                    assert b" 429 " in head and json.loads(body)["error"]["code"] == "too_many_connections", said
                if held[-1]:
                    held[-1] = c
            assert [bool(c) for c in held] == [True] * 5 + [False] * 3, held
            with socket.create_connection(("127.0.0.1", s.port)) as c:
                c.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                assert b" 200 " in c.recv(4096), "this machine's own are not counted"
            for c in held[:5]:
                c.close()


def strangers_take_no_slow_clients_place():
    """A client of one address is slow to send its headers, while another address takes all places for that. The oldest was
    closed, whoever had it, and everybody had one second."""
    address = own_address()
    if not address or address.startswith("127."):
        print("places of slow clients: not tried, this machine has no address but its own")
        return
    with tempfile.NamedTemporaryFile("w") as f:
        f.write("some-key-0001\n")
        f.flush()
        for limit in ("0", "128"):  # the strangers' further connections wait, or are refused
            options = ("--address-connections", limit, "--header-seconds", "60")
            with Server("--host", "0.0.0.0", "--api-key-file", f.name, *options) as s:
                slow = socket.create_connection(("127.0.0.1", s.port), timeout=60)
                slow.sendall(b"GET /health HTTP/1.1\r\n")
                strangers = []
                for _ in range(3):
                    strangers += [socket.create_connection((address, s.port)) for _ in range(200)]
                    time.sleep(0.7)
                metrics = s.call("GET", "/metrics", headers={"X-Api-Key": "some-key-0001"})[2]
                pending = int(re.search(r"^swiftlet_connections_pending (\d+)$", metrics, re.M)[1])
                assert 0 < pending <= 256, pending
                slow.sendall(b"Host: localhost\r\n\r\n")
                assert slow.recv(4096).startswith(b"HTTP/1.1 200 "), limit
                for c in (slow, *strangers):
                    c.close()


def origins():
    with Server() as s:
        host = "127.0.0.1:%d" % s.port
        for origin, forwarded, status in (("http://" + host, None, 200), ("https://" + host, None, 403), ("https://" + host, "https", 200),
                                          ("http://" + host, "https", 403), ("null", None, 403), ("http://127.0.0.1", None, 403),
                                          ("ftp://" + host, None, 403), (host, None, 403)):
            headers = {"Origin": origin, **({"X-Forwarded-Proto": forwarded} if forwarded else {})}
            assert s.call("GET", "/v1/models", headers=headers)[0] == status, (origin, forwarded)


for check in (origins, end_amid_answers, full_disk, truncated_model, who_had_an_answer_keeps_his_place, places_of_one_address,
              strangers_take_no_slow_clients_place):
    began = time.time()
    check()
    print("%-36s ok, %.1f s" % (check.__name__, time.time() - began), flush=True)
