"""The files of packaging/ under their own tools: the Dockerfile (hadolint), the Helm chart (its schema, yamllint and
Kubernetes' own schemas; helm's lint where helm is), the Prometheus rules (promtool, with their unit tests), the
Grafana board (every query is one that Prometheus takes and asks for figures that the service gives).
Skipped, after what can be checked, where one of the tools is missing."""
import glob, json, os, re, shutil, subprocess, sys, tempfile

from service import SOURCE, Server, find_python, skip, wait_for

PACKAGING = os.path.join(SOURCE, "packaging")
missing = []


def tool(name):
    path = shutil.which(name) or shutil.which(name, path=os.path.dirname(sys.executable))
    if not path:
        missing.append(name)
    return path


def lint(*command):
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, "%s\n%s%s" % (" ".join(command), result.stdout, result.stderr)


def dockerfile():
    hadolint = tool("hadolint")
    if hadolint:
        lint(hadolint, os.path.join(PACKAGING, "docker", "Dockerfile"))
    lint("bash", "-n", os.path.join(PACKAGING, "docker", "collect-libraries"))


# ---- the chart ----------------------------------------------------------------------------------------------------

CHART = os.path.join(PACKAGING, "helm", "swiftlet")


def value_at(values, path):
    for name in path.split(".")[2:]:
        values = values[name]  # a KeyError names what values.yaml lacks
    return values


def filled(template, values, yaml):
    """The few forms of template that the chart keeps to, with the values put in."""
    text = template.replace("{{ .Release.Name }}", "tried")
    while True:
        block = re.search(r"[ ]*\{\{- if (\.Values[\w.]+) \}\}\n((?:(?![ ]*\{\{- (?:if|end))[\s\S])*)[ ]*\{\{- end \}\}\n", text)
        if not block:
            break
        text = text[:block.start()] + (block.group(2) if value_at(values, block.group(1)) else "") + text[block.end():]

    def dumped(m):
        lines = yaml.safe_dump(value_at(values, m.group(1)), default_flow_style=False).rstrip("\n").split("\n")
        return "\n".join(" " * int(m.group(2)) + line for line in lines)

    text = re.sub(r"[ ]*\{\{- toYaml (\.Values[\w.]+) \| nindent (\d+) \}\}", dumped, text)
    text = re.sub(r"\{\{ (\.Values[\w.]+) \| quote \}\}", lambda m: json.dumps(str(value_at(values, m.group(1)))), text)
    text = re.sub(r"\{\{ add (\.Values[\w.]+) (\d+) \}\}", lambda m: str(value_at(values, m.group(1)) + int(m.group(2))), text)
    text = re.sub(r"\{\{ (\.Values[\w.]+) \}\}", lambda m: str(value_at(values, m.group(1))), text)
    assert "{{" not in text, text
    return text


def chart():
    yamllint = tool("yamllint")
    if yamllint:
        rules = "{extends: default, rules: {line-length: {max: 120}, document-start: disable, braces: disable}}"
        files = [os.path.join(CHART, "Chart.yaml"), os.path.join(CHART, "values.yaml"), *glob.glob(PACKAGING + "/prometheus/*.yml")]
        lint(yamllint, "--strict", "-d", rules, *files)
    if shutil.which("helm"):
        lint("helm", "lint", "--strict", CHART)
        lint("helm", "template", "tried", CHART, "--set", "serviceMonitor.enabled=true")
    try:
        import jsonschema, kubernetes_validate, yaml
    except ImportError as e:
        missing.append(e.name)
        return
    with open(os.path.join(CHART, "values.yaml")) as f:
        defaults = yaml.safe_load(f)
    with open(os.path.join(CHART, "values.schema.json")) as f:
        schema = json.load(f)
    jsonschema.Draft7Validator.check_schema(schema)
    other = {**defaults, "serviceMonitor": {"enabled": True, "interval": "5s", "labels": {"release": "prometheus"}},
             "arguments": ["--draft", "always"], "nodeSelector": {"pool": "gpu"},
             "resources": {"limits": {"nvidia.com/gpu": 1}}, "models": {"persistentVolumeClaim": {"claimName": "models"}},
             "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}
    for values in (defaults, other):
        jsonschema.validate(values, schema)
        kinds = []
        for path in sorted(glob.glob(CHART + "/templates/*.yaml")):
            with open(path) as f:
                objects = list(yaml.safe_load_all(filled(f.read(), values, yaml)))
            for item in filter(None, objects):
                kinds.append(item["kind"])
                if item["kind"] != "ServiceMonitor":  # the operator's, not Kubernetes' own
                    kubernetes_validate.validate(item, "1.32", strict=True)
        monitored = ["ServiceMonitor"] if values["serviceMonitor"]["enabled"] else []
        assert kinds == ["PodDisruptionBudget", "Service", "Service"] + monitored + ["StatefulSet"], kinds
    for wrong in ({"replicas": -1}, {"sessions": 0}, {"unknown": 1}, {"service": {"port": "http"}}):
        try:
            jsonschema.validate({**defaults, **wrong}, schema)
        except jsonschema.ValidationError:
            continue
        raise AssertionError("the schema takes %s" % wrong)


# ---- Prometheus and Grafana -----------------------------------------------------------------------------------------

def given_figures():
    """Names of what the service gives at /metrics. A request is counted a moment after its client has the answer."""
    with Server() as s:
        s.complete("Once", max_tokens=4)
        names = lambda: set(re.findall(r"^([a-zA-Z_:]+)", s.call("GET", "/metrics")[2], re.M))
        return wait_for("the request to be counted", lambda: (lambda n: n if "swiftlet_requests_total" in n else None)(names()))


def rules_and_board():
    folder = os.path.join(PACKAGING, "prometheus")
    promtool = tool("promtool")
    if promtool:
        lint(promtool, "check", "rules", os.path.join(folder, "swiftlet.rules.yml"))
        lint(promtool, "test", "rules", os.path.join(folder, "swiftlet.test.yml"))
    with open(os.path.join(PACKAGING, "grafana", "swiftlet.json")) as f:
        board = json.load(f)
    ids = [p["id"] for p in board["panels"]]
    assert len(set(ids)) == len(ids) >= 10 and all(p["title"] and p["targets"] for p in board["panels"])
    queries = [t["expr"] for p in board["panels"] for t in p["targets"]]
    with open(os.path.join(folder, "swiftlet.rules.yml")) as f:
        rules = f.read()
    figures = given_figures()
    for name in re.findall(r"\b((?:swiftlet_|vllm:)[a-z_]+)", "\n".join(queries) + rules):
        assert name in figures, "%s is asked for and not given" % name
    if promtool:
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as f:
            tried = [q.replace("$__rate_interval", "5m").replace("$instance", ".*") for q in queries]
            json.dump({"groups": [{"name": "board", "rules": [{"record": "board:%d" % i, "expr": q} for i, q in enumerate(tried)]}]}, f)
            f.flush()
            lint(promtool, "check", "rules", f.name)


python = find_python("kubernetes_validate")
if python and python != sys.executable and "SWIFTLET_AGAIN" not in os.environ:
    sys.exit(subprocess.run([python, os.path.abspath(__file__)], env={**os.environ, "SWIFTLET_AGAIN": "1"}).returncode)
for check in (dockerfile, chart, rules_and_board):
    check()
    print(check.__name__, "ok", flush=True)
if not shutil.which("helm"):
    print("helm is not here: the chart's templates were filled in by this test alone")
if missing:
    skip("not here: " + ", ".join(sorted(set(missing))))
