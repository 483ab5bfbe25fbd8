"""The page in headless Chromium during a stream: the mask, the curves and the table move; wide and narrow, light and
dark, by keyboard. Speaks WebDriver to chromedriver by itself. Skipped where either is missing.
SWIFTLET_SCREENSHOTS names a folder to leave the pictures in."""
import base64, json, os, re, shutil, subprocess, threading, time, urllib.error, urllib.request

from service import SOURCE, Server, skip, wait_for

DRIVER = shutil.which("chromedriver")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if not DRIVER or not BROWSER:
    skip("no chromium with chromedriver on this machine")
PICTURES = os.environ.get("SWIFTLET_SCREENSHOTS")


class Browser:
    def __init__(self, width, height, dark):
        self.driver = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.port = None
        while not self.port:
            line = self.driver.stdout.readline()
            assert line, "chromedriver does not start"
            found = re.search(r"started successfully on port (\d+)", line)
            self.port = found and int(found.group(1))
        threading.Thread(target=self.driver.stdout.read, daemon=True).start()
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--window-size=%d,%d" % (width, height)]
        if dark:
            arguments.append("--force-dark-mode")
        options = {"binary": BROWSER, "args": arguments}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"},
                  "timeouts": {"script": 900000, "pageLoad": 900000}}
        try:
            self.session = "/session/" + self.begin({"capabilities": {"alwaysMatch": wanted}})
        except RuntimeError:
            self.driver.terminate()
            self.driver.wait()
            raise
        # a window has a least width; what the page sees does not
        self.ask("POST", "/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}})
        self.ask("POST", "/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]}})

    def begin(self, wanted, trials=5):
        """The session's name. The driver gives the browser a minute to start, which a busy machine may need for something else."""
        for trial in range(trials):
            try:
                return self.ask("POST", "/session", wanted, "")["sessionId"]
            except RuntimeError as e:
                if trial == trials - 1:
                    raise
                print("no browser yet:", e)

    def ask(self, method, path, body=None, base=None):
        url = "http://127.0.0.1:%d%s%s" % (self.port, self.session if base is None else base, path)
        request = urllib.request.Request(url, json.dumps(body or {}).encode() if method == "POST" else None, method=method)
        try:
            return json.load(urllib.request.urlopen(request, timeout=900))["value"]
        except urllib.error.HTTPError as e:
            raise RuntimeError(e.read().decode()[:500])

    def js(self, script):
        return self.ask("POST", "/execute/sync", {"script": script, "args": []})

    def open(self, url):
        self.ask("POST", "/url", {"url": url})

    def keys(self, text):
        element = self.js("return document.activeElement")
        self.ask("POST", "/element/%s/value" % list(element.values())[0], {"text": text})

    def picture(self, name):
        if not PICTURES:
            return
        height = self.js("return document.documentElement.scrollHeight")
        width = self.js("return innerWidth")
        shot = self.ask("POST", "/goog/cdp/execute", {"cmd": "Page.captureScreenshot", "params": {
            "captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}}})
        with open(os.path.join(PICTURES, name), "wb") as f:
            f.write(base64.b64decode(shot["data"]))

    def complaints(self):
        return [e for e in self.ask("POST", "/se/log", {"type": "browser"}) if e["level"] == "SEVERE"]

    def close(self):
        try:
            self.ask("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()


SNAPSHOT = """return {map: document.getElementById('map').innerText + document.getElementById('map').innerHTML.length,
 cells: document.querySelectorAll('#map td').length, skipped: document.querySelectorAll('#map td.skipped').length,
 ages: [...document.querySelectorAll('#map td')].map(t => t.title).join(),
 match: document.getElementById('match').innerHTML.length, speed: document.getElementById('speed').innerHTML,
 label: document.getElementById('speed').getAttribute('aria-label'),
 tasks: document.getElementById('tasks').innerText, rate: document.getElementById('n-rate').textContent,
 events: document.querySelectorAll('#events li').length}"""


def traffic(s, until):
    """The shipped mixed stream over and over, so that the page has something to show."""
    with open(os.path.join(SOURCE, "streams", "demo.jsonl")) as f:
        lines = [json.loads(line) for line in f if line.strip()]
    while not until.is_set():
        for line in lines:
            if until.is_set():
                return
            try:
                s.complete(line["prompt"], max_tokens=min(line.get("max_tokens", 64), 96), temperature=0,
                           metadata={"task": line.get("task", "none")})
            except AssertionError:
                time.sleep(0.2)


def with_map(b, s):
    b.open(s.url + "/")
    wait_for("the map", lambda: b.js("return document.querySelectorAll('#map td').length"))


def wait_for_status(b, words):
    wait_for("the status to be '%s'" % words,
             lambda: b.js("return document.getElementById('status').textContent.startsWith('%s')" % words))


def moves_during_a_stream(s):
    """Each figure changes while requests run. Nothing is said of when: the session that is shown may be a new one, whose
    sub-layers are 0 tokens old, and a slow machine takes long between two states."""
    b, over = Browser(1100, 900, False), threading.Event()
    threads = [threading.Thread(target=traffic, args=(s, over)) for _ in range(2)]
    try:
        with_map(b, s)
        before = b.js(SNAPSHOT)
        for t in threads:
            t.start()
        first = wait_for("three tasks", lambda: (lambda x: x if x["tasks"].count("\n") >= 2 else None)(b.js(SNAPSHOT)))
        for part in ("ages", "speed", "match", "tasks", "rate"):  # the mask's colours, the curves, the table, the numbers
            wait_for(part + " to move", lambda: b.js(SNAPSHOT)[part] not in (first[part], before[part]))
        wait_for("a mask", lambda: b.js(SNAPSHOT)["skipped"] > 0)
        wait_for("an event", lambda: b.js(SNAPSHOT)["events"] > 0)
        assert b.js(SNAPSHOT)["cells"] == before["cells"] >= 40, before
        assert "tokens a second" in b.js(SNAPSHOT)["label"]
        b.js("document.getElementById('task').value = 'math'; document.getElementById('send').click()")
        wait_for_status(b, "done")
        b.picture("page-light.png")
        assert not b.complaints(), b.complaints()
        assert b.js("return performance.getEntriesByType('resource').every(r => r.name.startsWith(location.origin))"), "outside assets"
    finally:
        over.set()
        for t in threads:
            if t.ident:
                t.join()
        b.close()


def prompt_by_keyboard(s):
    b = Browser(380, 800, True)
    try:
        with_map(b, s)
        assert b.js("return document.documentElement.scrollWidth") <= 380, "no sideways scrolling at 380 px"
        b.js("document.getElementById('prompt').focus(); document.getElementById('prompt').select()")
        b.keys("Question: Ann has 5 pears and eats 2. How many has she left?\nAnswer:\ue009\ue007")  # Control, Enter
        wait_for_status(b, "done")
        answer = b.js("return document.getElementById('answer').textContent")
        prompt = b.js("return document.getElementById('prompt').value")
        want = s.complete(prompt, max_tokens=96, temperature=0)["choices"][0]["text"]
        assert answer == prompt + want, (answer, want)
        kinds = b.js("return [...document.querySelectorAll('#answer span')].map(x => x.className)")
        sources = {k.removeprefix("drafted by-") for k in kinds if k.startswith("drafted")}
        assert sources and "" in kinds, "drafted and other tokens are told apart"
        assert sources <= {"mask", "retrieval", "recycle", "prediction"}, sources
        legend = b.js("return [...document.querySelectorAll('#sources li')].map(x => x.textContent)")
        assert all(any(l.startswith("drafted by " + s) and int(l.split()[-1]) > 0 for l in legend) for s in sources), legend
        colours = b.js("return [...document.querySelectorAll('#answer span[class^=drafted]')].map(x => [x.className, "
                       "getComputedStyle(x).backgroundColor])")
        assert len({c for _, c in colours}) == len(sources), "a colour a source"
        dark = b.js("return getComputedStyle(document.body).backgroundColor")
        assert sum(int(v) for v in dark[4:-1].split(",")) < 200, dark
        # every control can be reached by Tab and has a name
        names = b.js("""return [...document.querySelectorAll('a,button,input,select,textarea,[tabindex="0"]')].map(e =>
            e.labels && e.labels.length ? e.labels[0].innerText : e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.textContent)""")
        assert len(names) > 9 and all(n and n.strip() for n in names), names
        b.picture("page-dark-380.png")
        assert not b.complaints(), b.complaints()
        # stopped as soon as it generates; who asks from outside may come when all is over
        b.js("""new MutationObserver(() => { if (document.getElementById('status').textContent === 'generating…')
                document.getElementById('stop').click(); }).observe(document.getElementById('status'), {childList: true});
            document.getElementById('max').value = 1800; document.getElementById('send').click()""")
        wait_for_status(b, "stopped")
    finally:
        b.close()


def a_colour_a_source(s):
    """Whoever drafted a token shows: colour, underline, title and the legend's count, in light and dark."""
    for dark in (False, True):
        b = Browser(380, 800, dark)
        try:
            with_map(b, s)
            shown = b.js("""addTokens({choices: [{text: "one two three four five six"}], swiftlet: {tokens: [["one ", "mask"],
                ["two ", "retrieval"], ["three ", "recycle"], ["four ", "prediction"], ["five ", "retrieval"], ["six", null]]}});
                return [...document.querySelectorAll('#answer span')].map(x => [x.title, getComputedStyle(x).backgroundColor,
                    getComputedStyle(x).textDecorationStyle, getComputedStyle(x).textDecorationLine])""")
            assert [x[0] for x in shown] == ["drafted by mask", "drafted by retrieval", "drafted by recycle",
                                             "drafted by prediction", "drafted by retrieval", ""], shown
            assert len({x[1] for x in shown}) == 5 and shown[1] == shown[4], shown
            assert len({x[2] for x in shown[:4]}) == 4 and shown[5][3] == "none", shown
            legend = b.js("return [...document.querySelectorAll('#sources li')].map(x => x.textContent)")
            assert legend == ["drafted by mask 1", "drafted by retrieval 2", "drafted by recycle 1", "drafted by prediction 1",
                              "computed by the full model 1"], legend
            b.picture("page-sources-%s.png" % ("dark" if dark else "light"))
            assert not b.complaints(), b.complaints()
        finally:
            b.close()


with Server("--draft", "always", "--opt-budget", "inf") as s:
    moves_during_a_stream(s)
    prompt_by_keyboard(s)
    a_colour_a_source(s)
print("the page moves, in light and dark, wide and at 380 px")
