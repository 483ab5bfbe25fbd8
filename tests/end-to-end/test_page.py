"""The page in headless Chromium, by clicking through: a conversation with its history, stop and regenerate, markdown that
is never HTML, drafted tokens in their tint, the figures that move while requests run; wide and narrow, light and dark, by
keyboard. Speaks WebDriver to chromedriver by itself. Skipped where either is missing.
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
        self.size(width, height)
        self.ask("POST", "/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {"features": [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]}})

    def size(self, width, height):
        self.ask("POST", "/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}})

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
        width, height = self.js("return [innerWidth, innerHeight]")
        tab = self.js("return [...document.querySelectorAll('.panel')].find(p => !p.hidden).scrollHeight - document.querySelector('main').clientHeight")
        self.size(width, height + tab)  # a panel scrolls by itself
        time.sleep(0.5)
        shot = self.ask("POST", "/goog/cdp/execute", {"cmd": "Page.captureScreenshot", "params": {}})
        self.size(width, height)
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


SNAPSHOT = """return {cells: document.querySelectorAll('#map td').length, skipped: document.querySelectorAll('#map td.skipped').length,
 ages: [...document.querySelectorAll('#map td')].map(t => t.title).join(),
 match: document.getElementById('match').innerHTML.length, speed: document.getElementById('speed').innerHTML,
 label: document.getElementById('speed').getAttribute('aria-label'),
 tasks: document.getElementById('tasks').textContent, names: document.querySelectorAll('#tasks tr').length,
 rate: document.getElementById('n-rate').textContent, faster: document.getElementById('faster').textContent,
 saved: document.getElementById('n-saved').textContent, from: document.querySelectorAll('#from tr').length,
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


def start(b, s):
    b.open(s.url + "/")
    wait_for("the state", lambda: b.js("return state && document.getElementById('model').textContent.includes(' on ')"))


def click(b, name):
    b.js("document.getElementById('%s').click()" % name)


def wait_for_status(b, words):
    wait_for("the status to be '%s'" % words,
             lambda: b.js("return document.getElementById('status').textContent.startsWith('%s')" % words))


def ask(b, text, tokens=48):
    b.js("document.getElementById('max').value = %d; document.getElementById('prompt').value = %s; document.getElementById('send').click()"
         % (tokens, json.dumps(text)))
    wait_for_status(b, "done")


def answers(b):
    return b.js("return now.messages.filter(m => m.role === 'assistant').map(m => m.content)")


def a_conversation(s):
    """History, tint, regenerate, edit, a system prompt, and what is there after the page is loaded again."""
    b = Browser(1280, 900, False)
    try:
        start(b, s)
        b.picture("page-empty-1280.png")
        b.js("leastSeconds = 1e9")
        ask(b, "Once", 8)
        said = b.js("return document.querySelector('.theirs .notes').textContent + document.getElementById('faster').textContent")
        assert "8 tokens" in said and "times as fast" not in said, said
        click(b, "new")
        b.js("leastSeconds = 0")
        ask(b, "Tom has 3 apples and buys 4 more. How many apples has he now?")
        first = answers(b)[0]
        want = s.chat([{"role": "user", "content": "Tom has 3 apples and buys 4 more. How many apples has he now?"}], 48)
        assert first == want, (first, want)
        kinds = b.js("return [...document.querySelectorAll('.theirs .d')].map(x => x.className)")
        assert kinds and all(re.fullmatch(r"d by-(mask|retrieval|recycle|prediction)", k) for k in kinds), kinds
        tinted = b.js("return getComputedStyle(document.querySelector('.theirs .d')).backgroundColor")
        click(b, "tint")
        assert b.js("return getComputedStyle(document.querySelector('.theirs .d')).backgroundColor") != tinted
        click(b, "tint")
        said = b.js("return document.querySelector('.theirs .notes').textContent")
        assert "tokens/s" in said and "times as fast as without" in said, said
        assert "times as fast as without" in wait_for("the speed in sight", lambda: b.js("return document.getElementById('faster').textContent"))
        ask(b, "And if he eats 2?")
        second = answers(b)[1]
        history = [{"role": "user", "content": "Tom has 3 apples and buys 4 more. How many apples has he now?"},
                   {"role": "assistant", "content": first}, {"role": "user", "content": "And if he eats 2?"}]
        assert second == s.chat(history, 48), second
        b.picture("page-chat-1280.png")
        click(b, "again")  # at temperature 0 it would be the same: another temperature is set
        wait_for("another answer", lambda: b.js("return !running && now.messages.length === 4"))
        assert float(b.js("return document.getElementById('temperature').value")) > 0 and len(answers(b)) == 2
        b.js("document.getElementById('temperature').value = 0")
        click(b, "new")
        b.js("document.getElementById('system').value = 'Count.'; document.getElementById('system').dispatchEvent(new Event('change'))")
        ask(b, "1, 2, 3", 8)
        assert answers(b)[0] == s.chat([{"role": "system", "content": "Count."}, {"role": "user", "content": "1, 2, 3"}], 8)
        b.open(s.url + "/")
        titles = wait_for("the history", lambda: b.js("return [...document.querySelectorAll('#conversations li button:first-child')].map(x => x.textContent)"))
        assert len(titles) == 3 and titles[0] == "1, 2, 3" and titles[1].startswith("Tom has 3"), titles
        b.js("document.querySelectorAll('#conversations li button')[2].click()")
        assert answers(b)[0] == first and b.js("return document.querySelectorAll('.theirs .d').length") > 0
        b.js("document.querySelector('#conversations li.now button[aria-label]').click()")
        assert b.js("return document.querySelectorAll('#conversations li').length") == 2
        # stopped as soon as it generates; who asks from outside may come when all is over
        b.js("""new MutationObserver(() => { if (document.getElementById('status').textContent === 'generating…')
                document.getElementById('stop').click(); }).observe(document.getElementById('status'), {childList: true});
            document.getElementById('max').value = 1800; document.getElementById('prompt').value = 'Once upon a time';
            document.getElementById('send').click()""")
        wait_for_status(b, "stopped")
        assert not b.js("return document.getElementById('send').hidden") and b.js("return document.getElementById('stop').hidden")
        # what is refused is said
        b.js("document.getElementById('temperature').min = -9; document.getElementById('temperature').value = -5; send.call(null, document.getElementById('prompt').value = 'x')")
        wait_for("the reason", lambda: b.js("return document.getElementById('status').className === 'problem' && document.getElementById('status').textContent"))
        assert [c for c in b.complaints() if "400" not in c["message"]] == []
        assert b.js("return performance.getEntriesByType('resource').every(r => r.name.startsWith(location.origin))"), "outside assets"
    finally:
        b.close()


MARKDOWN = """# Title

Some **bold**, *slanted*, `code <b>` and [a link](https://example.org/a) but [not](javascript:alert(1)) this.
<img src=x onerror=window.broken=1><script>window.broken=1</script>

- one
- two
  - inner **x**

3. three
4. four

> quoted

| a | b |
| --- | --- |
| 1 | **2** |

```python
print("<i>") # **no**
```
snake_case_name 2 * 3 * 4"""


def markdown_is_safe(s):
    b = Browser(1280, 900, False)
    try:
        start(b, s)
        out = b.js("""const e = document.createElement('div'), p = plain(%s); p.m.fill(drafter('retrieval'), 3, 5); render(e, p);
            document.body.append(e); return {html: e.innerHTML, h: e.querySelector('h3').textContent, strong: e.querySelector('strong').textContent,
            em: e.querySelector('em').textContent, codes: [...e.querySelectorAll('code')].map(x => x.textContent),
            links: [...e.querySelectorAll('a')].map(x => [x.getAttribute('href'), x.rel]), images: e.querySelectorAll('img,script,iframe').length,
            items: [...e.querySelectorAll('li')].map(x => x.textContent), first: e.querySelector('ol').start,
            cells: [...e.querySelectorAll('th,td')].map(x => x.textContent), quote: e.querySelector('blockquote').textContent,
            tint: [...e.querySelectorAll('.d')].map(x => x.textContent), last: e.lastElementChild.textContent, ems: e.querySelectorAll('em').length}"""
            % json.dumps(MARKDOWN))
        assert out["h"] == "Title" and out["strong"] == "bold" and out["em"] == "slanted" and out["ems"] == 1, out
        assert out["codes"] == ["code <b>", 'print("<i>") # **no**'], out
        assert out["links"] == [["https://example.org/a", "noopener noreferrer nofollow"]], out
        assert out["images"] == 0 and not b.js("return window.broken"), out
        assert out["items"][0] == "one" and "inner x" in out["items"][1] and out["first"] == 3, out
        assert out["cells"] == ["a", "b", "1", "2"] and out["quote"] == "quoted" and out["tint"] == ["it"], out
        assert out["last"] == "snake_case_name 2 * 3 * 4", out
        # every beginning of a text renders, and no text is lost but marks
        assert b.js("""const text = %s; for (let i = 0; i <= text.length; i++) render(document.createElement('div'), plain(text.slice(0, i)));
            let seed = 7; const letters = '*_`~[]()|>#-+1. \\n<ab\\\\';
            for (let n = 0; n < 3000; n++) { let t = ''; for (let i = 0; i < 40; i++) { seed = (seed * 1103515245 + 12345) %% 2147483648; t += letters[seed %% letters.length]; }
                const e = document.createElement('div'); render(e, plain(t)); const kept = x => x.replace(/[^ab<]/g, '');
                if (kept(e.textContent.replaceAll('Copy', '')) !== kept(t) && !t.includes('``') && !t.includes('~~~') && !t.includes('|')) return t; }
            return 'good'""" % json.dumps(MARKDOWN)) == "good"
        # a long text takes no long time
        seconds = b.js("const t = performance.now(); render(document.createElement('div'), plain('*a `b _c [d '.repeat(2000))); return (performance.now() - t) / 1000")
        assert seconds < 5, seconds
        assert not b.complaints(), b.complaints()
    finally:
        b.close()


def moves_during_a_stream(s):
    """Each figure changes while requests run. Nothing is said of when: the session that is shown may be a new one, whose
    sub-layers are 0 tokens old, and a slow machine takes long between two states."""
    b, over = Browser(1280, 900, False), threading.Event()
    threads = [threading.Thread(target=traffic, args=(s, over)) for _ in range(2)]
    try:
        start(b, s)
        b.js("leastSeconds = 0")
        click(b, "tab-engine")
        wait_for("the map", lambda: b.js("return document.querySelectorAll('#map td').length"))
        before = b.js(SNAPSHOT)
        for t in threads:
            t.start()
        first = wait_for("three tasks", lambda: (lambda x: x if x["names"] >= 3 else None)(b.js(SNAPSHOT)))
        for part in ("ages", "speed", "match", "tasks", "rate"):  # the mask's colours, the curves, the table, the numbers
            wait_for(part + " to move", lambda: b.js(SNAPSHOT)[part] not in (first[part], before[part]))
        for part in ("skipped", "events", "from", "faster", "saved"):
            wait_for(part, lambda: b.js(SNAPSHOT)[part] not in (0, "", "–"))
        assert b.js(SNAPSHOT)["cells"] == before["cells"] >= 40, before
        assert "tokens a second" in b.js(SNAPSHOT)["label"]
        b.picture("page-engine-1280.png")
        unexplained = b.js("return [...document.querySelectorAll('.meanings > div')].filter(d => !(d.querySelector('.means').textContent.length > 20)).length")
        assert unexplained == 0, "a sentence for each figure"
        click(b, "tab-service")
        wait_for("the slots", lambda: b.js("return document.querySelectorAll('#slots tr').length"))
        assert " of " in b.js("return document.getElementById('n-busy').textContent")
        b.picture("page-service-1280.png")
        assert not b.complaints(), b.complaints()
    finally:
        over.set()
        for t in threads:
            if t.ident:
                t.join()
        b.close()


def on_a_phone_by_keyboard(s):
    b = Browser(400, 800, True)
    try:
        start(b, s)
        for tab in ("chat", "engine", "service"):
            click(b, "tab-" + tab)
            assert b.js("return document.documentElement.scrollWidth") <= 400, "no sideways scrolling at 400 px: " + tab
            assert b.js("return document.documentElement.scrollHeight <= innerHeight"), "a panel scrolls, the page does not: " + tab
            assert b.js("return [...document.querySelectorAll('[role=tabpanel]')].filter(x => !x.hidden).map(x => x.id)") == [tab]
            b.picture("page-%s-dark-400.png" % tab)
        assert b.js("return document.querySelector('header').getBoundingClientRect().height") < 90, "a header of two lines"
        assert b.js("return document.querySelector('#map-caption').closest('.scroll') === null"), "what the map shows stays in sight"
        b.js("document.getElementById('tab-service').focus()")
        b.keys("\ue014")  # the right arrow: the first tab again
        assert b.js("return document.activeElement.id") == "tab-chat"
        assert b.js("const r = document.getElementById('prompt').getBoundingClientRect(); return r.bottom <= innerHeight"), "the message's box is in sight"
        b.js("document.getElementById('max').value = 40; document.getElementById('prompt').focus()")
        b.keys("Ann has 5 pears and eats 2. How many are left?\ue009\ue007")  # Control, Enter
        wait_for_status(b, "done")
        assert answers(b)[0] == s.chat([{"role": "user", "content": "Ann has 5 pears and eats 2. How many are left?"}], 40)
        click(b, "open-past")
        assert b.js("return getComputedStyle(document.getElementById('past')).display") == "flex"
        b.picture("page-past-dark-400.png")
        click(b, "close-past")
        dark = b.js("return getComputedStyle(document.body).backgroundColor")
        assert sum(int(v) for v in dark[4:-1].split(",")) < 200, dark
        b.picture("page-answer-dark-400.png")
        # every control can be reached by Tab and has a name
        names = b.js("""return [...document.querySelectorAll('a,button,input,select,textarea,[tabindex="0"]')].map(e =>
            e.labels && e.labels.length ? e.labels[0].textContent : e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.textContent)""")
        assert len(names) > 15 and all(n and n.strip() for n in names), names
        assert not b.complaints(), b.complaints()
    finally:
        b.close()


def a_colour_a_source(s):
    """The page shows which drafter made a token: colour, title and the legend's count, in light and dark."""
    for dark in (False, True):
        b = Browser(400, 800, dark)
        try:
            start(b, s)
            b.js("""live = {m: {thought: '', tokens: 0, role: 'assistant', content: ''}, piece: plain(''), element: null, due: false};
                live.element = messageElement(live.m, false); document.getElementById('messages').append(live.element); counts = {};
                addTokens({choices: [{delta: {content: "one two three four five six"}}], swiftlet: {tokens: [["one ", "mask"],
                ["two ", "retrieval"], ["three ", "recycle"], ["four ", "prediction"], ["five ", "retrieval"], ["six", null]]}})""")
            shown = wait_for("the tokens", lambda: b.js("return [...live.element.querySelectorAll('.d')].map(x => [x.title, getComputedStyle(x).backgroundColor])"))
            assert [x[0] for x in shown] == ["drafted: own drafts", "drafted: earlier text", "drafted: near misses",
                                             "drafted: expected text", "drafted: earlier text"], shown
            assert len({x[1] for x in shown}) == 4 and shown[1] == shown[4], shown
            legend = b.js("return [...document.querySelectorAll('#sources li')].map(x => x.textContent)")
            assert legend == ["own drafts 1", "earlier text 2", "near misses 1", "expected text 1", "full model 1"], legend
            with open(os.path.join(SOURCE, "core", "draft", "drafter.h")) as f:
                names = re.findall(r"name\((\w+)\)", f.read().split("#define DRAFTERS(name)")[1].split("enum")[0])
            colours = b.js("return %s.map(n => SOURCES[n] && getComputedStyle(document.documentElement).getPropertyValue('--' + SOURCES[n][0]))"
                           % json.dumps(names))
            assert len(names) >= 7 and all(colours) and len(set(colours)) == len(names), dict(zip(names, colours))
            assert not b.complaints(), b.complaints()
        finally:
            b.close()


def curves_hold_and_fall(s):
    """A speed is the mean of the time before its point: it neither climbs nor falls slowly while nothing runs."""
    b = Browser(1280, 900, False)
    try:
        start(b, s)
        click(b, "tab-engine")
        drawn = b.js("""points = [[1, null, 50, null, 0], [2, 0.5, 100, null, 0], [9, null, 0, 0.25, 0]]; showCurves();
            return ['speed', 'match'].map(id => [...document.querySelectorAll('#' + id + ' path[fill=none]')].map(p => p.getAttribute('d')))""")
        assert re.fullmatch(r"M[\d. ]+H[\d.]+V[\d.]+H[\d.]+V[\d.]+H[\d.]+", drawn[0][0]), drawn
        assert all(re.fullmatch(r"M[\d. ]+H[\d.]+", d) for d in drawn[1]), drawn
        b.js("points = []; showCurves()")
        assert b.js("return document.getElementById('speed').textContent") == "nothing to draw yet"
        assert b.js("state.sessions.forEach(x => x.busy = false); points = [[1, null, 50, null, 0]]; showNumbers(shown()); return document.getElementById('n-rate').textContent") == "0"
        wide = b.js("return [...document.querySelectorAll('#engine .scroll')].map(x => x.scrollWidth - x.clientWidth)")
        assert max(wide) <= 0, "tables are whole at 1280 px: %s" % wide
        assert not b.complaints(), b.complaints()
    finally:
        b.close()


def chat(s, messages, tokens):
    status, reply = s.call("POST", "/v1/chat/completions", {"messages": messages, "max_tokens": tokens, "temperature": 0})[::2]
    assert status == 200, reply
    return reply["choices"][0]["message"]["content"]


with Server("--draft", "always", "--opt-budget", "inf") as s:
    s.chat = lambda messages, tokens: chat(s, messages, tokens)
    markdown_is_safe(s)
    a_conversation(s)
    on_a_phone_by_keyboard(s)
    a_colour_a_source(s)
    curves_hold_and_fall(s)
    moves_during_a_stream(s)
print("the page talks and explains, in light and dark, wide and at 400 px")
