#!/usr/bin/env python3
"""Replicas that share a store in PostgreSQL: what one has learned the other drafts with from its first request; what
both learn is summed; the database may go away for half a minute, and either replica and the database be killed,
without a request or a stored record lost. Where PostgreSQL is not installed it is skipped."""
import itertools, json, os, re, shutil, signal, subprocess, sys, tempfile, threading, time
from service import FULL, MODEL, PROGRAM, SOURCE, Server, skip, wait_for

AWAY = 30 if FULL else 8
PROMPT = "Once upon a time there was a farmer who had seven sheep. "


class Database:
    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="swiftlet-fleet-")
        self.url = "postgresql://swiftlet@/postgres?host=" + self.folder
        status = self.run("start", check=False)
        if status:
            self.run("erase")
            if status == 77:
                skip("PostgreSQL is not installed (Debian: postgresql)")
            sys.exit("PostgreSQL did not start")
        return self

    def run(self, what, check=True):
        status = subprocess.run([SOURCE + "/tests/postgres.sh", self.folder, what]).returncode
        assert not check or status == 0, (what, status)
        return status

    def __exit__(self, *_):
        self.run("erase")


def metric(server, name):
    found = re.search(r"^swiftlet_%s(?:\{[^}]*\})? (\S+)$" % name, server.call("GET", "/metrics")[2], re.M)
    assert found, name
    return float(found.group(1))


def all_stored(server):
    wait_for("all to be stored", lambda: metric(server, "store_waiting") == 0 and metric(server, "store_away") == 0)


def masks(database):
    exported = subprocess.run([PROGRAM, "masks", "export", "--store", database.url], capture_output=True, text=True)
    if exported.returncode and "no mask" in exported.stderr:
        return []
    assert exported.returncode == 0, exported.stderr
    known = json.loads(exported.stdout)
    return known if isinstance(known, list) else [known]


def tokens(database, task):
    return sum(m["tokens_served"] for m in masks(database) if m["task"] == task)


def serve_some(server, task, n, first=0):
    """Sampled texts, each another one: what repeats is drafted from text, and leaves a search nothing to try."""
    return sum(server.complete(PROMPT + "Number %d. " % (first + i), max_tokens=48, seed=first + i, metadata={"task": task})
               ["usage"]["completion_tokens"] for i in range(n))


def mask_of(answer):
    return answer["swiftlet"]["mask"]


def learned_once(database):
    # each would begin with a mask of a size of its own: the second's first is the first's by the store alone
    with Server("--skip-ratio", "0.3", store=database.url) as first:
        serve_some(first, "tale", 12)

        numbers = itertools.count(12)

        def tried():
            """Another text now and then; seldom, for a busy machine leaves learning little, and a request ends its pass."""
            serve_some(first, "tale", 1, first=next(numbers))
            return any(metric(first, "idle_optimize_steps_total") > 0 or time.sleep(0.25) for _ in range(20))

        wait_for("something to be tried", tried)
    assert tokens(database, "tale") > 0
    known = [m for m in masks(database) if m["task"] == "tale"]
    with Server("--skip-ratio", "0.6", store=database.url) as second:
        assert metric(second, "mask_recalls_total") == 0
        answer = second.complete(PROMPT, max_tokens=8, metadata={"task": "tale"})
        assert metric(second, "mask_recalls_total") == 1
        drafts = mask_of(answer)
        assert any(drafts["attention"] == m["attention"] and drafts["mlp"] == m["mlp"] for m in known), (drafts, known)
    print("passed: the second replica's first request drafts with the first's mask (%d attention, %d MLP sub-layers)"
          % (len(drafts["attention"]), len(drafts["mlp"])))


def learned_together(database):
    # without a search the mask stays one: its record is the sum of both replicas'; and it drafts, whatever it costs
    fixed = ("--search", "off", "--draft", "always")
    with Server(*fixed, store=database.url) as one, Server(*fixed, store=database.url) as two:
        served = serve_some(one, "poem", 8) + serve_some(two, "poem", 8, first=100)
        # what one has learned after the other began: by notification
        serve_some(one, "letter", 8)
        all_stored(one)
        wait_for("news", lambda: metric(two, "store_news_total") > 1)
        wait_for("news of the letter", lambda: (two.complete(PROMPT, max_tokens=1, metadata={"task": "else"}) and any(
            m["task"] == "letter" for m in two.call("GET", "/v1/swiftlet/masks")[2]["data"])))
    assert tokens(database, "poem") == served, (tokens(database, "poem"), served)
    rows = subprocess.run(["psql", "-X", "-A", "-t", database.url, "-c",
                           "SELECT count(*) FROM swiftlet.figure WHERE what LIKE 'v-%'"], capture_output=True, text=True, check=True)
    assert int(rows.stdout) > 0, rows.stdout
    print("passed: two replicas' records are summed (%d tokens), %s costs" % (served, rows.stdout.strip()))


def away(database):
    with Server(store=database.url) as server:
        serve_some(server, "away", 4)
        database.run("kill")
        stop, answered = time.monotonic() + AWAY, 0
        while time.monotonic() < stop:
            answered += serve_some(server, "away", 1, first=answered) > 0
        assert answered > 0
        wait_for("its absence to be noticed", lambda: metric(server, "store_away") == 1)
        database.run("start")
        all_stored(server)
    print("passed: database away for %d s: %d requests, 0 failed" % (AWAY, answered))


def kills(database, n):
    """Kills a replica while it serves and stores, and every third time the database: what was there stays."""
    before = 0
    for k in range(n):
        server = Server(store=database.url)
        with server.folder:
            server.__enter__()
            for i in range(8):
                server.complete(PROMPT + str(i), max_tokens=8, metadata={"task": "kill"})
            wait_for("its tokens to be stored", lambda: tokens(database, "kill") > before)
            before = tokens(database, "kill")
            if k % 3 == 2:
                database.run("kill")
            server.process.send_signal(signal.SIGKILL)
            server.process.wait()
            server.errors.close()
            if k % 3 == 2:
                database.run("start")
            assert tokens(database, "kill") >= before
    assert before > 0
    print("passed: %d kills of a replica, %d of the database, no stored record lost" % (n, n // 3))


def tools_work(database):
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/masks.json"
        run = lambda *words: subprocess.run([PROGRAM, "masks", *words], capture_output=True, text=True)
        exported = run("export", "--store", database.url, "-o", path)
        assert exported.returncode == 0, exported.stderr
        other = folder + "/other.db"
        imported = run("import", path, "--store", other)
        assert imported.returncode == 0, imported.stderr
        back = run("import", path, "--store", database.url)
        assert back.returncode == 0, back.stderr
        some = re.search(r"^ *(\d+)", run("list", "--store", database.url).stdout, re.M).group(1)
        assert run("show", some, "--store", database.url).returncode == 0
        assert run("delete", some, "--store", database.url).returncode == 0
        assert run("show", some, "--store", database.url).returncode == 1
    wrong = run("list", "--store", "postgresql://nobody:secret@/none?host=" + database.folder)
    assert wrong.returncode == 1 and "secret" not in wrong.stderr, wrong.stderr
    print("passed: masks list, show, export, import, delete on PostgreSQL")


def refused(database):
    subprocess.run(["psql", "-q", "-X", database.url, "-c", "UPDATE swiftlet.version SET number = 99"], check=True)
    served = subprocess.run([PROGRAM, "serve", "-m", MODEL, "--port", "0", "--store", database.url], capture_output=True,
                            text=True)
    assert served.returncode == 1 and "newer than this program's" in served.stderr, served
    print("passed: a database of a newer version is refused")


def main():
    with Database() as database:
        learned_once(database)
        learned_together(database)
        away(database)
        kills(database, 60 if FULL else 3)
        tools_work(database)
        refused(database)


if __name__ == "__main__":
    main()
