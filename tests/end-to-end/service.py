"""Shared by the service's tests: a server on a free port, a Python with a client, and a skip with its reason.
Standard library alone."""
import glob, json, os, re, signal, subprocess, sys, tempfile, threading, time, urllib.error, urllib.request

PROGRAM = os.environ.get("SWIFTLET", "build/swiftlet")
SOURCE = os.environ.get("SWIFTLET_SOURCE", os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
FULL = os.environ.get("SWIFTLET_FULL", "0") == "1"
MODEL = os.environ.get("SWIFTLET_TEST_MODEL", "builtin")


def skip(reason):
    print("skipped:", reason)
    sys.exit(77)


def find_python(package):
    """A Python that has the package, which Debian does not: SWIFTLET_PYTHON, or this one. None: there is none."""
    for python in (os.environ.get("SWIFTLET_PYTHON"), sys.executable):
        if python and subprocess.run([python, "-c", "import " + package], capture_output=True).returncode == 0:
            return python
    return None


# A chat template that speaks of tools in the way of Hermes and Qwen, for models that have none.
TOOLS_TEMPLATE = """{%- if tools %}<|im_start|>system
You may call functions. Tools: {{ tools | tojson }}
For a call write <tool_call>
{"name": NAME, "arguments": OBJECT}
</tool_call><|im_end|>
{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content or '' }}{% for c in m.tool_calls or [] %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


def tools_template(folder):
    """The file of it, for --chat-template."""
    path = os.path.join(folder, "tools.jinja")
    with open(path, "w") as out:
        out.write(TOOLS_TEMPLATE)
    return path


def client_url(package, script, tools=False):
    """The URL of a server, for a test of a client: the script is run again, beside a server, by a Python that has the
    package; skipped where there is none. tools: its chat template speaks of them."""
    url = os.environ.get("SWIFTLET_CLIENT_URL")
    if url:
        return url
    python = find_python(package)
    if not python:
        skip("no Python with the package %s; tools/test --ci makes one, SWIFTLET_PYTHON names one" % package)
    with tempfile.TemporaryDirectory() as folder, Server(*(["--chat-template", tools_template(folder)] if tools else [])) as s:
        env = {**os.environ, "SWIFTLET_CLIENT_URL": s.url + "/v1"}
        status = subprocess.run([python, os.path.abspath(script)], env=env).returncode
    sys.exit(status)


def wait_for(what, condition, seconds=900):
    """Asks until the condition holds; what it said then. Generous: a sanitizer on a busy machine is slow."""
    until, said = time.monotonic() + seconds, None
    while time.monotonic() < until:
        said = condition()
        if said:
            return said
        time.sleep(0.05)
    raise AssertionError("waited in vain for %s; last: %s" % (what, said))


def greedily(fields):
    """The fields, with temperature 0 where they name neither temperature nor seed: a text that is sampled by chance may end
    anywhere. seed=None leaves both to the server."""
    return fields if "temperature" in fields or "seed" in fields else {"temperature": 0, **fields}


class Server:
    """`swiftlet serve` on a free port of the loopback; use as a context."""

    def __init__(self, *options, store=None):
        self.options = list(options)
        self.folder = tempfile.TemporaryDirectory()
        self.store = store or os.path.join(self.folder.name, "masks.db")

    def __enter__(self):
        command = [PROGRAM, "serve", "-m", MODEL, "--port", "0", "--store", self.store, *self.options]
        self.errors = open(os.path.join(self.folder.name, "errors"), "w+")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        line = self.process.stdout.readline()
        found = re.search(r"http://[^/]*:(\d+)/", line)
        if not found:
            self.process.wait()
            self.errors.seek(0)
            raise RuntimeError("the server did not start: " + line + self.errors.read())
        self.port = int(found.group(1))
        self.url = "http://127.0.0.1:%d" % self.port
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        return self

    def stop(self, seconds=900):
        """SIGTERM; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def __exit__(self, *_):
        try:
            status = self.stop()
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self.errors.seek(0)
        self.said = self.errors.read()
        self.errors.close()
        self.folder.cleanup()
        assert status == 0, "the server ended with %s: %s" % (status, self.said)

    def call(self, method, path, body=None, headers=None, raw=None):
        """(status, headers, parsed or plain body)"""
        data = raw if raw is not None else json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + path, data=data, method=method)
        if data is not None:
            request.add_header("Content-Type", "application/json")
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        try:
            answer = urllib.request.urlopen(request, timeout=900)
        except urllib.error.HTTPError as error:
            answer = error
        text = answer.read().decode()
        kind = answer.headers.get("Content-Type", "")
        return answer.status, answer.headers, json.loads(text) if kind.startswith("application/json") and text else text

    def metric(self, name):
        """The figure of that name at /metrics, without labels."""
        return float(re.search(r"^%s (\S+)$" % re.escape(name), self.call("GET", "/metrics")[2], re.M).group(1))

    def wait_until_busy(self, n=1):
        """Until n generations run."""
        wait_for("%d to run" % n, lambda: self.metric("swiftlet_sessions_busy") >= n)

    def wait_until_idle(self):
        wait_for("all to end", lambda: self.metric("swiftlet_sessions_busy") == self.metric("swiftlet_queue_length") == 0)

    def complete(self, prompt, **fields):
        body = {"model": MODEL, "prompt": prompt, **greedily(fields)}
        status, _, answer = self.call("POST", "/v1/completions", body)
        assert status == 200, (status, answer)
        return answer

    def stream(self, prompt, path="/v1/completions", headers=None, **fields):
        """The chunks of a streamed completion; without a prompt, of a chat."""
        body = {"model": MODEL, "stream": True, **({} if prompt is None else {"prompt": prompt}), **greedily(fields)}
        request = urllib.request.Request(self.url + path, data=json.dumps(body).encode())
        request.add_header("Content-Type", "application/json")
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        chunks, done = [], False
        with urllib.request.urlopen(request, timeout=900) as answer:
            for line in answer:
                line = line.decode().rstrip("\n")
                if line == "data: [DONE]":
                    done = True
                elif line.startswith("data: "):
                    chunks.append(json.loads(line[6:]))
        assert done, "the stream ended without [DONE]"
        return chunks

    def stream_text(self, prompt, **fields):
        return "".join(c["choices"][0]["text"] for c in self.stream(prompt, **fields) if c["choices"])


def run_text(prompt, *options):
    """The text in the JSON of `swiftlet run` for the same prompt."""
    command = [PROGRAM, "run", "-m", MODEL, "-p", prompt, "--json", *options]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def prompt_cache_figure(s, name):
    """A figure of --prompt-cache by /metrics, of a server with tests' keys."""
    for line in s.call("GET", "/metrics", headers={"Authorization": "Bearer admin-key-0000"})[2].splitlines():
        if line.startswith("swiftlet_prompt_cache_%s " % name):
            return float(line.split()[-1])


def prompt_cache_files(folder):
    """Whole files of --prompt-cache; a temporary one has a longer name."""
    return sorted(p for p in glob.glob(os.path.join(folder, "*")) if len(os.path.basename(p)) == 64)
