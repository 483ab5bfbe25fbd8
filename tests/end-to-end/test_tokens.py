"""Tokens over HTTP: /tokenize and /detokenize agree with the program, /version gives what --version gives, and a request may
say which tokens end its answer."""
import json, subprocess

from service import MODEL, PROGRAM, Server, run_text

PROMPT = "Once upon a time"


def main():
    with Server() as s:
        printed = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True).stdout.split()
        assert s.call("GET", "/version")[2] == {"version": printed[1]}, printed

        def tokenize(**body):
            status, _, answer = s.call("POST", "/tokenize", body)
            assert status == 200, answer
            assert answer["count"] == len(answer["tokens"]) and answer["max_model_len"] > 0
            return answer

        for text in (PROMPT, "", "  é 😀\n\t<x>", "def f(x):\n    return x\n" * 50):
            plain = tokenize(prompt=text, add_special_tokens=False)["tokens"]
            assert plain == tokenize(content=text)["tokens"]  # llama.cpp's name, and its default
            reported = subprocess.run([PROGRAM, "tokenize", "-m", MODEL, "-p", text, "--json"], capture_output=True, text=True, check=True)
            assert plain == json.loads(reported.stdout)["tokens"], text
            back = s.call("POST", "/detokenize", {"model": MODEL, "tokens": plain})[2]
            assert back["prompt"] == back["content"] == text, (text, back)
        messages = [{"role": "user", "content": PROMPT}]
        chat = s.call("POST", "/v1/chat/completions", {"messages": messages, "max_tokens": 1})[2]
        asked = tokenize(messages=messages, return_token_strs=True)
        assert asked["count"] == chat["usage"]["prompt_tokens"] and len(asked["token_strs"]) == asked["count"]
        assert PROMPT.split()[0] in "".join(asked["token_strs"])
        for path, body, param in (("/tokenize", {}, "prompt"), ("/tokenize", {"prompt": 5}, "prompt"), ("/tokenize", {"messages": []}, "messages"),
                                  ("/detokenize", {}, "tokens"), ("/detokenize", {"tokens": [-1]}, "tokens"),
                                  ("/detokenize", {"tokens": [10**9]}, "tokens"), ("/detokenize", {"tokens": ["a"]}, "tokens")):
            status, _, answer = s.call("POST", path, body)
            assert status == 400 and answer["error"]["param"] == param, (path, body, answer)
        # a token of the text may end it; the model's own end may not
        long = s.complete(PROMPT, max_tokens=40, temperature=0, logprobs=0)["choices"][0]
        ids = tokenize(prompt=PROMPT)["tokens"]
        whole = tokenize(prompt=PROMPT + run_text(PROMPT, "-n", "40", "--temp", "0")["text"])["tokens"]
        end = whole[len(ids) + 9]
        before = whole[len(ids):].index(end)
        cut = s.complete(PROMPT, max_tokens=40, temperature=0, stop_token_ids=[end])
        assert cut["choices"][0]["finish_reason"] == "stop" and cut["usage"]["completion_tokens"] == before + 1, (before, cut)
        assert long["text"].startswith(cut["choices"][0]["text"]) and len(cut["choices"][0]["text"]) < len(long["text"])
        # the model's end token, made certain by a bias, is a token like others where it is to be ignored
        eos = next(i for i in range(0, 64) if not s.call("POST", "/detokenize", {"tokens": [i]})[2]["prompt"].strip("</>s|endofx_") and
                   s.complete(PROMPT, max_tokens=3, temperature=0, logit_bias={str(i): 100})["choices"][0]["finish_reason"] == "stop")
        free = s.complete(PROMPT, max_tokens=7, temperature=0, logit_bias={str(eos): 100}, ignore_eos=True)
        assert free["choices"][0]["finish_reason"] == "length" and free["usage"]["completion_tokens"] == 7, free
        both = s.complete(PROMPT, max_tokens=7, temperature=0, logit_bias={str(eos): 100}, ignore_eos=True, stop_token_ids=[eos])
        assert both["choices"][0]["finish_reason"] == "stop" and both["usage"]["completion_tokens"] == 1, both


main()
