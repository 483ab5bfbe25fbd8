"""Learning while no request runs: at idle priority, no more than requests took, shown in figures, out of the way at once."""
import json, os, threading, time, urllib.request

from service import MODEL, Server, run_text, wait_for

SCHED_IDLE = "5"
BODY = {"prompt": "Once upon a time there was a fox who", "max_tokens": 200, "temperature": 0}
TICK = os.sysconf("SC_CLK_TCK")


def processor_seconds(s):
    """The server's threads: (at idle priority, others)."""
    idle = other = 0.0
    for task in os.listdir("/proc/%d/task" % s.process.pid):
        try:
            with open("/proc/%d/task/%s/stat" % (s.process.pid, task)) as f:
                field = f.read().rsplit(")", 1)[1].split()
        except FileNotFoundError:
            continue
        used = (int(field[11]) + int(field[12])) / TICK
        if field[38] == SCHED_IDLE:
            idle += used
        else:
            other += used
    return idle, other


def learned(s):
    return s.metric("swiftlet_idle_seconds_total")


def level(s):
    """Until learning has ended; its seconds."""
    seen = [learned(s)]

    def still():
        seen.append(learned(s))
        return len(seen) > 40 and seen[-1] == seen[-40]

    wait_for("learning to end", still)
    return seen[-1]


def asking_costs(s):
    """Processor seconds a second that go into answering level's questions, while there is nothing to learn."""
    before, began = processor_seconds(s)[1], time.monotonic()
    wait_for("two seconds", lambda: learned(s) > 0 or time.monotonic() > began + 2)
    return (processor_seconds(s)[1] - before) / (time.monotonic() - began)


def is_bounded_and_at_idle_priority():
    share = 20  # of a request of a tenth of a second: beside other programs less is no time at all
    with Server("--idle-learning", str(share)) as s:
        assert learned(s) == 0
        asking = asking_costs(s)
        began = time.monotonic()
        s.complete(**BODY)
        took = time.monotonic() - began
        before = processor_seconds(s)
        wait_for("a mask to be scored", lambda: s.metric("swiftlet_idle_optimize_steps_total") > 0)
        seconds = level(s)
        after = processor_seconds(s)
        # its own looking whether someone waits costs no more than answering this test's questions
        asked = 2 * asking * (time.monotonic() - began)
        assert 0 < seconds <= share * took + 1, (seconds, took)
        idle, other = after[0] - before[0], after[1] - before[1]
        assert idle > 0.1 * seconds and other < 0.25 * idle + 0.3 + asked, (idle, other, seconds)
        state = s.call("GET", "/v1/swiftlet/state")[2]
        assert state["skipping"] in (None, "leaving out layers does not pay here")
    for share in (1, 0.25):
        with Server("--idle-learning", str(share)) as s:
            began = time.monotonic()
            s.complete(**BODY)
            took = time.monotonic() - began
            assert level(s) <= share * took + 1
    with Server("--idle-learning", "off") as s:
        s.complete(**BODY)
        time.sleep(1)
        assert learned(s) == 0


def gives_way():
    """Requests that come in the midst of it are answered as ever, and what their text has in the cache is found."""
    long = "A fox walked through the wood. " * 60
    plain = run_text(BODY["prompt"], "-n", "200", "--method", "vanilla")["text"]
    with Server("--idle-learning", "inf", "--sessions", "1") as s:
        for turn in range(8):
            assert s.complete(**BODY)["choices"][0]["text"] == plain
            s.complete(prompt=long, max_tokens=40, temperature=0)
            before = learned(s)
            wait_for("it to learn", lambda: learned(s) > before or s.call("GET", "/v1/swiftlet/state")[2]["sessions"][0]["search"] != "running")
            found = s.complete(prompt=long, max_tokens=2, temperature=0)["usage"]["prompt_tokens_details"]["cached_tokens"]
            assert found >= 256, found
            time.sleep(0.003 * turn)


def shows_the_end_before_it_learns():
    """Watchers hear that a request has ended before learning begins, which may take long on a busy machine."""
    states, over = [], threading.Event()

    def watch(url):
        asked = urllib.request.Request(url + "/v1/swiftlet/state", headers={"Accept": "text/event-stream"})
        with urllib.request.urlopen(asked, timeout=900) as events:
            while not over.is_set():
                line = events.readline()
                if line.startswith(b'data: {"model"'):
                    states.append(json.loads(line[6:]))

    with Server("--idle-learning", "inf", "--sessions", "1") as s:
        watcher = threading.Thread(target=watch, args=(s.url,))
        watcher.start()
        wait_for("the first state", lambda: states)
        tokens = 0
        for n in range(3):  # long enough to be seen at work
            tokens += s.complete("Once upon a time", max_tokens=1500, temperature=1, seed=n)["usage"]["completion_tokens"]
            wait_for("the end to be shown", lambda: states[-1]["tokens"] == tokens and not states[-1]["sessions"][0]["busy"])
        over.set()
        s.complete(prompt="One more", max_tokens=2)
        watcher.join()
    ends = [(a, b) for a, b in zip(states, states[1:]) if a["sessions"][0]["busy"] and not b["sessions"][0]["busy"]]
    assert all(a["idle_seconds"] == b["idle_seconds"] for a, b in ends) and ends, [(x["sessions"][0]["busy"], x["idle_seconds"]) for x in states]


is_bounded_and_at_idle_priority()
gives_way()
shows_the_end_before_it_learns()
