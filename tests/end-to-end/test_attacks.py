"""Nobody stalls anybody: long prompts, clients that leave, many items at once, streams that wait."""
import json, os, sys, threading, time, urllib.request

from service import SOURCE, Server

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
    with Server() as s:
        body = b'{"prompt":"a","max_tokens":400}'
        chat = attacks.POST.replace(b"Connection: close\r\n", b"")
        for name, data in (("GET", None), ("its body is missing", attacks.POST + b"Content-Length: 100\r\n\r\n"),
                           ("half of its body is", attacks.POST + b"Content-Length: 100\r\n\r\n{"),
                           ("POST", chat + b"Content-Length: %d\r\n\r\n" % len(body) + body)):
            seconds = attacks.leave(s.port, data=data)
            assert seconds is not None and seconds < 30, (name, seconds)
            assert s.call("GET", "/health")[0] == 200


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
    with Server("--sessions", "1") as s:
        def stream(tokens):
            body = json.dumps({"prompt": "a", "max_tokens": tokens, "stream": True, "ignore_eos": True}).encode()
            request = urllib.request.Request(s.url + "/v1/completions", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request) as answer:
                return answer.read().decode()
        reported = []
        threads = [threading.Thread(target=lambda: reported.append(stream(1900))) for _ in range(12)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert all(text.endswith("data: [DONE]\n\n") for text in reported)
        assert any("\n: " in "\n" + text for text in reported), "a stream waits silently"


long_prompts_stall_nobody()
clients_that_leave_hold_nothing()
many_items_take_turns()
many_items_leave_room()
streams_that_wait_are_heard_of()
