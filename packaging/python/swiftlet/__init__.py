"""swiftlet from Python: a language model on this machine, several tokens a pass, with exactly the text that ordinary
decoding gives.

    import swiftlet

    with swiftlet.LLM("smollm2-135m") as llm:
        print(llm.chat("Why is the sky blue?").text)
        for piece in llm.stream("Once upon a time"):
            print(piece, end="")

    with swiftlet.serve("model.gguf", port=8080) as server:  # OpenAI's, Anthropic's and Ollama's interfaces
        print(server.url)

A model is a GGUF file, a Hugging Face folder, or a name that `swiftlet list` prints; `swiftlet pull` fetches some. The
program that came with this package does the work, in a process of its own that only this machine can reach."""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import weakref
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Sequence

__all__ = ["LLM", "Completion", "Error", "Server", "serve", "program"]
__version__ = "@VERSION@"

Messages = Sequence[Mapping[str, Any]]


# Requests go to this machine, so never by a proxy.
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Error(RuntimeError):
    """The program's or the service's own message."""


def program() -> str:
    """The path of the program."""
    return str(pathlib.Path(__file__).parent / "bin" / "swiftlet")


@dataclass(frozen=True)
class Completion:
    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    tokens_per_second: float | None
    speedup: float | None
    """How many times as fast as plain decoding; None where there is nothing to compare."""


def _end(process: subprocess.Popen[str], maker: int) -> None:
    if os.getpid() != maker or process.poll() is not None:  # a fork of the maker must not end its service
        return
    process.terminate()
    process.wait()


def _collect(stream: Iterator[str], said: list[str]) -> None:
    for line in stream:
        said[:] = [*said[-20:], line]


class Server:
    """A service that runs until it is closed, or dropped, or Python ends."""

    def __init__(self, model: str, host: str, port: int, options: Sequence[str]) -> None:
        command = [program(), "serve", model, "--host", host, "--port", str(port), *options]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                         text=True)
        assert self._process.stdout and self._process.stderr
        self._finalizer = weakref.finalize(self, _end, self._process, os.getpid())
        said: list[str] = []
        # The thread must not know the server, which would then never be dropped.
        listener = threading.Thread(target=_collect, args=(self._process.stderr, said), daemon=True)
        listener.start()
        first = self._process.stdout.readline()
        if " at http://" not in first:
            self._process.wait()
            listener.join()
            raise Error(("".join(said).strip().splitlines() or ["swiftlet does not start"])[-1])
        self.url: str = first.rsplit(" at ", 1)[1].strip().rstrip("/")
        threading.Thread(target=self._process.stdout.read, daemon=True).start()

    def close(self) -> None:
        """Ends what runs, and the process."""
        self._finalizer()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(model: str = "builtin", *, host: str = "127.0.0.1", port: int = 8080, options: Sequence[str] = ()) -> Server:
    """Starts the service; port 0 takes a free one. options: as `swiftlet serve --help` lists them. The model is loaded when
    this returns."""
    return Server(model, host, port, options)


class LLM:
    """A model, loaded once and asked many times. options: as `swiftlet serve --help` lists them."""

    def __init__(self, model: str = "builtin", *, context: int | None = None, options: Sequence[str] = ()) -> None:
        size = ["--context", str(context)] if context else []
        self._server = Server(model, "127.0.0.1", 0, [*size, *options])

    @property
    def url(self) -> str:
        """The service behind it, for OpenAI's client: url + "/v1"."""
        return self._server.url

    def generate(self, prompt: str, *, max_tokens: int = 128, temperature: float = 0.0, stop: str | Sequence[str] = (),
                 seed: int | None = None, **fields: Any) -> Completion:
        """The prompt's text goes on. fields: others of /v1/completions."""
        return self._whole("/v1/completions", {"prompt": prompt, **_body(max_tokens, temperature, stop, seed, fields)})

    def stream(self, prompt: str, *, max_tokens: int = 128, temperature: float = 0.0, stop: str | Sequence[str] = (),
               seed: int | None = None, **fields: Any) -> Iterator[str]:
        """The same, piece by piece."""
        return self._pieces("/v1/completions", {"prompt": prompt, **_body(max_tokens, temperature, stop, seed, fields)})

    def chat(self, messages: str | Messages, *, max_tokens: int = 512, temperature: float = 0.0, stop: str | Sequence[str] = (),
             seed: int | None = None, **fields: Any) -> Completion:
        """Answers a conversation by the model's template; a string is one user's message. fields: others of
        /v1/chat/completions."""
        return self._whole("/v1/chat/completions", {"messages": _messages(messages), **_body(max_tokens, temperature, stop, seed, fields)})

    def stream_chat(self, messages: str | Messages, *, max_tokens: int = 512, temperature: float = 0.0,
                    stop: str | Sequence[str] = (), seed: int | None = None, **fields: Any) -> Iterator[str]:
        """The same, piece by piece."""
        return self._pieces("/v1/chat/completions", {"messages": _messages(messages), **_body(max_tokens, temperature, stop, seed, fields)})

    def close(self) -> None:
        self._server.close()

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            return _direct.open(request)
        except urllib.error.HTTPError as error:
            raise Error(json.load(error)["error"]["message"]) from None
        except urllib.error.URLError as error:
            raise Error(f"the service at {self.url} does not answer ({error.reason}): it was closed, or it ended") from None

    def _whole(self, path: str, body: Mapping[str, Any]) -> Completion:
        with self._post(path, body) as answer:
            reported = json.load(answer)
        choice, usage, figures = reported["choices"][0], reported["usage"], reported.get("swiftlet") or {}
        text = choice["message"]["content"] if "message" in choice else choice["text"]
        return Completion(text or "", choice["finish_reason"], usage["prompt_tokens"], usage["completion_tokens"],
                          figures.get("tokens_per_second"), figures.get("speedup"))

    def _pieces(self, path: str, body: Mapping[str, Any]) -> Iterator[str]:
        with self._post(path, {**body, "stream": True}) as answer:
            for line in answer:
                if not line.startswith(b"data: {"):
                    continue
                chunk = json.loads(line[6:])
                if "error" in chunk:
                    raise Error(chunk["error"]["message"])
                for choice in chunk["choices"]:
                    piece = choice["delta"].get("content") if "delta" in choice else choice["text"]
                    if piece:
                        yield piece


def _body(max_tokens: int, temperature: float, stop: str | Sequence[str], seed: int | None, fields: Mapping[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {"max_tokens": max_tokens, "temperature": temperature, **fields}
    if stop:
        body["stop"] = [stop] if isinstance(stop, str) else list(stop)
    if seed is not None:
        body["seed"] = seed
    return body


def _messages(messages: str | Messages) -> list[Mapping[str, Any]]:
    return [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)


def _main() -> None:
    """The command `swiftlet`. `swiftlet pull` starts python3 with pip: the one that this package was installed into has it."""
    os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    os.execv(program(), ["swiftlet", *sys.argv[1:]])
