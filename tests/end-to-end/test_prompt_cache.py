"""Prefixes of prompts on disk: found after a restart with the same text, by their tenant alone, and never when damaged."""
import os, random, shutil, signal, subprocess, tempfile

from service import MODEL, PROGRAM, Server, prompt_cache_figure, prompt_cache_files, run_text, wait_for

SYSTEM = "You are the keeper of a small library by the sea. " * 10
PROMPT = SYSTEM + "Once upon a time there was a fox who"
FIRST, SECOND = "first-key-0001", "second-key-0002"


def ask(s, key=FIRST, prompt=PROMPT):
    status, _, answer = s.call("POST", "/v1/completions", {"prompt": prompt, "max_tokens": 24, "temperature": 0},
                               {"Authorization": "Bearer " + key})
    assert status == 200, answer
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"], answer["choices"][0]["text"]


def first_run(options, folder, end, text):
    with Server(*options) as s:
        assert ask(s) == (0, text)
        assert not prompt_cache_files(folder), "what came once is not kept"
        cached, again = ask(s)
        assert cached > 64 and again == text
        wait_for("pages to be written", lambda: prompt_cache_figure(s, "kept_total") == cached // 32)
        assert prompt_cache_figure(s, "bytes") == sum(os.path.getsize(p) for p in prompt_cache_files(folder))
        try:
            with Server(*options):
                raise AssertionError("two servers with one folder")
        except RuntimeError as said:
            assert "another server uses" in str(said), said
        if end == signal.SIGKILL:
            s.process.kill()
            s.process.wait()
            s.process.returncode = 0  # as asked
    return cached


def killed_and_found_again(options, folder, text):
    for end in (signal.SIGKILL, signal.SIGTERM):
        for p in prompt_cache_files(folder):
            os.remove(p)
        cached = first_run(options, folder, end, text)
        with Server(*options) as s:
            assert ask(s, SECOND) == (0, text), "another key's are not found"
            found, again = ask(s)
            assert found == cached // 32 * 32 and again == text, (found, cached)
            assert prompt_cache_figure(s, "found_total") == cached // 32
            assert ask(s, FIRST, PROMPT.replace("small", "large"))[0] < found
    with Server(*options, "--share-prefixes") as s:
        assert ask(s) == (0, text), "a tenant's own are not everybody's afterwards"
    with Server(*options, "--cache-type", "q8_0") as s:
        assert ask(s)[0] == 0, "another type's bits are others"
    if MODEL == "builtin":
        synth = "synth:layers=4,dim=64,heads=4,kv-heads=2,ffn=128,vocab=300"
        with Server(*options, "-m", synth) as s:
            assert ask(s)[0] == 0, "another model's"


def killed_amid_a_write(options, folder, text, work):
    """At half a file, before it is synced, before it has its name and after: what is found is whole, and the next life writes on."""
    shim = os.path.join(work, "kill_at.so")
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if not compiler:
        print("a kill amid a write: not tried, there is no C compiler")
        return
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kill_at.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", shim, source, "-ldl"], check=True)
    for at, whole in (("write", 0), ("fsync", 0), ("rename", 0), ("renamed", 1)):
        for p in prompt_cache_files(folder):
            os.remove(p)
        set_up = {"LD_PRELOAD": shim, "SWIFTLET_KILL_AT": at, "ASAN_OPTIONS": "verify_asan_link_order=0"}
        os.environ.update(set_up)
        try:
            s = Server(*options).__enter__()
        finally:
            for name in set_up:
                del os.environ[name]
        try:
            ask(s)
            ask(s)
        except OSError:
            pass  # it was killed before the answer was written
        assert s.process.wait(120) == -signal.SIGKILL
        s.errors.close()
        s.folder.cleanup()
        left = os.path.join(folder, "page.new")
        assert len(prompt_cache_files(folder)) == whole and os.path.exists(left) != whole, (at, os.listdir(folder))
        with Server(*options) as s:
            found, again = ask(s)
            assert (found, again) == (32 * whole, text), (at, found)
            ask(s)
            wait_for("pages to be written", lambda: len(prompt_cache_files(folder)) > 3)
            assert prompt_cache_figure(s, "damaged_total") == 0
        with Server(*options) as s:
            assert ask(s)[0] > 64 and not os.path.exists(left)


def damage(data, draw):
    kind = draw.randrange(4)
    if kind == 0:
        return data[:draw.randrange(len(data))]
    if kind == 1:
        return data + bytes([draw.randrange(256)])
    if kind == 2:
        return draw.randbytes(draw.randrange(1, 2 * len(data)))
    at = draw.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1:]


def damaged_ones_are_ignored(options, folder, text):
    draw, good = random.Random(1), {p: open(p, "rb").read() for p in prompt_cache_files(folder)}
    assert good
    for _ in range(3):
        for path, data in good.items():
            with open(path, "wb") as f:
                f.write(damage(data, draw))
        with Server(*options) as s:
            assert ask(s) == (0, text)
            assert prompt_cache_figure(s, "found_total") == 0 and prompt_cache_figure(s, "damaged_total") <= 1
        assert s.said.count("was damaged") <= 1, s.said
    for path, data in good.items():
        with open(path, "wb") as f:
            f.write(data)
    path = max(good, key=os.path.getmtime)  # whichever: a bit of the keys
    for path in good:
        with open(path, "r+b") as f:
            f.seek(-1, 2)
            last = f.read(1)[0]
            f.seek(-1, 2)
            f.write(bytes([last ^ 1]))
    with Server(*options) as s:
        assert ask(s) == (0, text) and prompt_cache_figure(s, "damaged_total") == 1
    assert s.said.count("was damaged") == 1, s.said


def the_longest_unused_go(folder):
    """A model whose pages take half a MiB each: two of them fit."""
    synth = "synth:layers=8,dim=512,heads=8,kv-heads=8,ffn=64,vocab=300,dtype=f32"
    options = ("-m", synth, "--prompt-cache", folder, "--prompt-cache-size", "3", "--context", "512", "--idle-learning", "off")
    with Server(*options) as s:
        for text in ("a" * 70, "b" * 70, "c" * 70):
            for _ in range(2):
                s.complete(text, model=synth, max_tokens=1)
        wait_for("pages to be written", lambda: prompt_cache_figure(s, "kept_total") == 6)
        assert 0 < prompt_cache_figure(s, "bytes") <= 3 << 20
        assert sum(os.path.getsize(p) for p in prompt_cache_files(folder)) == prompt_cache_figure(s, "bytes")
    with Server(*options) as s:
        cached = [s.complete(c * 70, model=synth, max_tokens=1)["usage"]["prompt_tokens_details"]["cached_tokens"] for c in "ca"]
        assert cached == [64, 0], cached


with tempfile.TemporaryDirectory() as work:
    keys, folder = os.path.join(work, "keys"), os.path.join(work, "prompts")
    with open(keys, "w") as f:
        f.write("admin-key-0000 admin\n%s\n%s\n" % (FIRST, SECOND))
    options = ("--api-key-file", keys, "--prompt-cache", folder, "--idle-learning", "off")
    text = run_text(PROMPT, "-n", "24", "--method", "vanilla")["text"]
    killed_and_found_again(options, folder, text)
    killed_amid_a_write(options, folder, text, work)
    damaged_ones_are_ignored(options, folder, text)
    the_longest_unused_go(os.path.join(work, "small"))
    refused = subprocess.run([PROGRAM, "serve", "-m", MODEL, "--port", "0", "--no-store", "--prompt-cache", keys], capture_output=True, text=True)
    assert refused.returncode == 1 and "--prompt-cache" in refused.stderr, refused
