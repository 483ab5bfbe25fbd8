"""packaging/nginx/swiftlet.conf in front of two services: requests that begin alike, or name a session, go to one
replica and find their prefix in its cache; streams pass as they come; a replica that is gone costs no request.
Skipped where there is no nginx."""
import json, os, re, shutil, socket, subprocess, tempfile, time, urllib.request

from service import MODEL, SOURCE, Server, skip, wait_for

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
if not NGINX:
    skip("no nginx on this machine")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def write_configuration(folder, port, replicas):
    with open(os.path.join(SOURCE, "packaging", "nginx", "swiftlet.conf")) as f:
        shipped = f.read()
    shipped = re.sub(r"listen 8080;", "listen 127.0.0.1:%d;" % port, shipped)
    for i, replica in enumerate(replicas):
        shipped = shipped.replace("127.0.0.1:%d " % (8081 + i), "127.0.0.1:%d " % replica)
    path = os.path.join(folder, "nginx.conf")
    paths = "".join("%s_temp_path %s/%s;\n" % (kind, folder, kind) for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    with open(path, "w") as f:
        f.write("pid %s/pid;\nerror_log %s/error.log;\ndaemon off;\nworker_processes 1;\n%sevents {}\nhttp {\naccess_log off;\n%s%s}\n"
                % (folder, folder, "user root;\n" if os.getuid() == 0 else "", paths, shipped))
    return path


class Front:
    def __init__(self, port):
        self.url = "http://127.0.0.1:%d" % port

    def complete(self, prompt, headers=None, stream=False):
        body = {"model": MODEL, "prompt": prompt, "max_tokens": 4, "temperature": 0, "stream": stream}
        request = urllib.request.Request(self.url + "/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json", **(headers or {})})
        with urllib.request.urlopen(request, timeout=900) as answer:
            return answer.read().decode()


def completions(replica):
    text = replica.call("GET", "/metrics")[2]
    found = re.search(r'swiftlet_requests_total\{route="/v1/completions",status="200"\} (\d+)', text)
    return int(found.group(1)) if found else 0


seen = {}  # completions counted so far, by port


def moved(replicas, ask, n):
    """How many of the n completions each replica answered. A request is counted when its end is known, a moment after
    its client has the answer: the sum is waited for."""
    ask()
    until = time.monotonic() + 900
    while True:
        now = {r.port: completions(r) for r in replicas}
        got = [now[r.port] - seen.get(r.port, 0) for r in replicas]
        if sum(got) >= n or time.monotonic() > until:
            seen.update(now)
            return got
        time.sleep(0.05)


def affinity(front, replicas):
    used = set()
    for i in range(100):  # where a document goes depends on the ports, as if at random
        if i > 7 and len(used) == 2:
            break
        document = "Document %d. " % i + "The house is old and stands by the river. " * 30
        got = moved(replicas, lambda: [front.complete(document + "Question %d?" % k) for k in range(3)], 3)
        assert sorted(got) == [0, 3], got
        used.add(got.index(3))
    assert used == {0, 1}, "both replicas are used"
    got = moved(replicas, lambda: [front.complete("Turn %d" % k, {"X-Session-Id": "s1"}) for k in range(6)], 6)
    assert sorted(got) == [0, 6], got
    document = "A prefix that is kept. " * 80
    front.complete(document + "One?")
    again = json.loads(front.complete(document + "Two?"))
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] >= 256, again["usage"]


def streams_and_large_bodies(front):
    lines = [l for l in front.complete("Once upon", stream=True).split("\n") if l]
    assert lines[-1] == "data: [DONE]" and len(lines) > 3, lines
    try:
        front.complete("word " * 300000)
    except urllib.error.HTTPError as e:
        assert e.code == 400 and json.load(e)["error"]["code"] == "context_length_exceeded"
    else:
        raise AssertionError("a prompt beyond the context was answered")


def a_replica_gone(front, first):
    assert first.stop() == 0
    for i in range(12):
        assert json.loads(front.complete("After it went, %d" % i))["choices"]


def start(folder, replicas):
    """nginx and its port. The port is free when it is chosen; should another take it before nginx does, another is chosen."""
    for _ in range(20):
        port = free_port()
        path = write_configuration(folder, port, [r.port for r in replicas])
        nginx = subprocess.Popen([NGINX, "-p", folder, "-c", path], stderr=subprocess.DEVNULL)
        if wait_for("nginx", lambda: "over" if nginx.poll() is not None else listens(folder, port)) != "over":
            return nginx, port
    raise AssertionError(open(os.path.join(folder, "error.log")).read())


def listens(folder, port):
    if not os.path.exists(os.path.join(folder, "pid")):  # written once it has the port
        return False
    try:
        socket.create_connection(("127.0.0.1", port), timeout=300).close()
        return True
    except OSError:
        return False


with tempfile.TemporaryDirectory() as folder, Server() as one, Server() as two:
    nginx, port = start(folder, [one, two])
    try:
        front = Front(port)
        affinity(front, [one, two])
        streams_and_large_bodies(front)
        a_replica_gone(front, one)
    finally:
        nginx.terminate()
        nginx.wait(900)
print("requests that begin alike go to one replica; a replica that goes costs none")
