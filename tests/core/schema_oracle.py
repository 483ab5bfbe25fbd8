"""Random schemas, and whether the texts that are drawn from their grammars are valid by the jsonschema package. With `tagged`
the schemas are of a call's arguments, and the program draws values."""
import collections
import json
import random
import re
import subprocess
import sys

try:
    from jsonschema import Draft202012Validator as V
except ImportError:
    print("skipped: the Python package jsonschema is missing")
    sys.exit(77)

NAMES = ['a', 'b', 'foo', 'xa', 'é']
FORMATS = ['date', 'time', 'ipv4', 'ipv6', 'email', 'uuid']

def value(r, depth=0):
    k = r.randrange(9 if depth < 2 else 6)
    if k == 7: return {r.choice(NAMES): value(r, depth + 1)}
    if k == 8: return [value(r, depth + 1) for _ in range(r.randrange(3))]
    return [None, True, False, r.choice([0, 1, 2, 5, 1.5, -1, 0.5]), r.choice(['', 'a', 'ab', 'foo', 'é']), r.randrange(4), {}][k]

def schema(r, depth=0):
    if depth > 3 or r.random() < .05:
        return r.choice([True, {}, {'type': r.choice(['string', 'integer', 'null', 'number', 'boolean'])}, {'const': value(r)}])
    s = {}
    sub = lambda: schema(r, depth + 1)
    if r.random() < .5:
        s['type'] = r.choice(['object', 'object', 'array', 'array', 'string', 'number', 'integer', 'null', 'boolean', ['object', 'null'], ['string', 'number', 'array']])
    def may(p): return r.random() < p
    t = s.get('type')
    o = t in (None, 'object') or 'object' in (t or '')
    a = t in (None, 'array') or 'array' in (t or '')
    st = t in (None, 'string') or 'string' in (t or '')
    nu = t in (None, 'number', 'integer') or 'number' in (t or '')
    if o:
        if may(.5): s['properties'] = {n: sub() for n in r.sample(NAMES, r.randrange(1, 4))}
        if may(.3): s['required'] = r.sample(NAMES, r.randrange(1, 3))
        if may(.15): s['additionalProperties'] = r.choice([False, sub()])
        if may(.12): s['patternProperties'] = {r.choice(['^x', 'o$', 'a', '^f.*']): sub()}
        if may(.12): s['unevaluatedProperties'] = r.choice([False, sub()])
        if may(.06): s['propertyNames'] = r.choice([{'maxLength': 2}, {'pattern': 'a'}, {'enum': NAMES[:3]}])
        if may(.06): s['minProperties'] = r.randrange(3)
        if may(.06): s['maxProperties'] = r.randrange(4)
        if may(.06): s['dependentRequired'] = {r.choice(NAMES): [r.choice(NAMES)]}
        if may(.06): s['dependentSchemas'] = {r.choice(NAMES): sub()}
    if a:
        if may(.25): s['prefixItems'] = [sub() for _ in range(r.randrange(1, 4))]
        if may(.35): s['items'] = r.choice([False, sub(), sub()])
        if may(.12): s['unevaluatedItems'] = r.choice([False, sub()])
        if may(.15): s['contains'] = sub()
        if 'contains' in s and may(.3): s['minContains'] = r.randrange(3)
        if 'contains' in s and may(.3): s['maxContains'] = r.randrange(1, 4)
        if may(.12): s['minItems'] = r.randrange(3)
        if may(.12): s['maxItems'] = r.randrange(4)
        if may(.06): s['uniqueItems'] = True
    if st:
        if may(.1): s['minLength'] = r.randrange(3)
        if may(.1): s['maxLength'] = r.randrange(5)
        if may(.12): s['pattern'] = r.choice(['^a', 'b$', '^[a-c]*$', 'o', '^(foo|ab)$'])
    if nu:
        if may(.12): s['minimum'] = r.choice([0, 1, -2, 0.5, 100])
        if may(.12): s['maximum'] = r.choice([1, 2, 10, 1.5])
        if may(.06): s['multipleOf'] = r.choice([1, 2, 0.5, 3, 10, 100])
    if may(.06): s['enum'] = [value(r) for _ in range(r.randrange(1, 4))]
    if may(.03): s['const'] = value(r)
    if may(.1): s[r.choice(['anyOf', 'oneOf', 'allOf', 'allOf', 'oneOf'])] = [sub() for _ in range(r.randrange(1, 4))]
    if may(.06): s['not'] = sub()
    if may(.07):
        s['if'] = sub()
        if may(.8): s['then'] = sub()
        if may(.6): s['else'] = sub()
    if depth == 0 and may(.3):
        s['$defs'] = {'d': sub()}
        s[r.choice(['allOf', 'anyOf'])] = [{'$ref': '#/$defs/d'}, sub()][:r.randrange(1, 3)]
    return s

def arguments(r):
    names = r.sample(NAMES, r.randrange(1, 5))
    s = {'type': 'object', 'properties': {n: schema(r, r.choice([1, 2, 3, 3])) for n in names}, 'required': [n for n in names if r.random() < .7]}
    if r.random() < .5: s['additionalProperties'] = False
    if r.random() < .3: s['properties'][names[0]] = {'$ref': '#/$defs/d'}
    if r.random() < .3: s['properties'][names[-1]] = r.choice([{'type': 'string'}, {'type': ['string', 'null']}, {'anyOf': [{'type': 'string'}, {'type': 'integer'}]}])
    return {**s, '$defs': {'d': schema(r, 2)}}

def main():
    program = sys.argv[1]
    tagged = sys.argv[4:] == ['tagged']
    n, seed = (int(a) for a in (sys.argv[2:4] or (600, 1)))
    r = random.Random(seed)
    schemas = [arguments(r) if tagged else schema(r) for _ in range(n)]
    lines = "".join(json.dumps(s) + "\n" for s in schemas)
    out = subprocess.run([program, "draw"], input=lines.encode(), stdout=subprocess.PIPE, check=True).stdout
    invalid = texts = refused = 0
    reasons = collections.Counter()
    for s, line in zip(schemas, out.decode().split("\n"), strict=False):
        try:
            drawn = json.loads(line)
        except ValueError:
            print("NO JSON", line, "under", json.dumps(s))
            invalid += 1
            continue
        if isinstance(drawn, str):
            refused += 1
            reasons[drawn.split(": ")[-1]] += 1
            continue
        validator = V(s)
        for text in drawn:
            if tagged:
                text = json.dumps(text, ensure_ascii=False)
            if re.search("[0-9.]{16}", text):  # more digits than Python's numbers keep
                continue
            texts += 1
            if not validator.is_valid(json.loads(text)):
                invalid += 1
                print("INVALID", text, "under", json.dumps(s))
    print(f"{n} schemas, {refused} refused, {texts} texts, {invalid} invalid")
    for reason, count in reasons.most_common(10):
        print("   ", count, reason)
    return invalid > 0 or texts < 5 * n or refused > n / 2


sys.exit(main())
