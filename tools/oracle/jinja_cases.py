#!/usr/bin/env python3
"""Writes tests/core/golden/jinja_cases.json: small templates and what jinja2 makes of them.

Each exercises one thing that chat templates use, in the environment that transformers renders them in
(chat_jinja.py); where jinja2 refuses, the golden records that.
"""
import argparse
import json

import chat_jinja

VARIABLES = {
    "s": "Hello, World", "t": "  a b  c \n", "u": "\u00c4\u00df\u00e9 \u4f60\u597d \U0001f999 x", "e": "", "n": None, "yes": True,
    "i": 7, "f": 2.5, "big": 1e16, "small": 0.00001, "third": 1 / 3, "neg": -7,
    "l": [3, 1, 2], "w": ["b", "A", "c", "a"], "d": {"b": 1, "a": [1, {"x": None}], "C": "q'\"\n"},
    "m": [{"role": "user", "n": 2, "a": {"b": "x"}}, {"role": "tool", "n": 1, "a": {"b": "y"}}, {"role": "user", "n": 3}],
    "lines": "one\n\ntwo\n three", "html": "<a href=\"x\">'&'</a>", "nested": [[1, 2], [3, [4]]], "deep": {"items": 5},
}

CASES = """
{{ s }} {{ i }} {{ f }} {{ n }} {{ yes }} {{ l }} {{ d }} {{ missing }}|
{{ big }} {{ small }} {{ third }} {{ 1.0 }} {{ 100.0 }} {{ 1e22 }} {{ 123456789012345680.0 }} {{ 5e-324 }} {{ 0.1 + 0.2 }}
{{ 1 + 2 * 3 - 4 }} {{ 7 // 2 }} {{ neg // 2 }} {{ neg % 3 }} {{ 7 % neg }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }}
{{ -2 ** 2 }} {{ 2 ** 3 ** 2 }} {{ -i|abs }} {{ (-i)|abs }} {{ +i }} {{ not i }} {{ not not i }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ yes == 1 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 'a' in 'cat' }} {{ 4 not in l }}
{{ 'a' 'b' "c" }} {{ 'x' ~ 1 ~ none ~ 2.0 ~ missing }} {{ 'ab' * 3 }} {{ [1] * 2 + [3] }} {{ (1, 2) + (3,) }}
{{ 1 if yes else 2 }} {{ 1 if n }}| {{ (1 if n else 2) if yes else 3 }} {{ 'a' if not n else 'b' }}
{{ n or 'x' }} {{ 'y' and 'z' }} {{ 0 or e or n }} {{ missing or 'd' }} {{ yes and not n }}
{{ s[0] }} {{ s[-1] }} {{ s[1:4] }} {{ s[::-1] }} {{ s[::2] }} {{ s[-3:] }} {{ s[:-3] }} {{ s[100] }}| {{ u[1] }} {{ u[::-1] }} {{ u[4:6] }}
{{ l[0] }} {{ l[-1] }} {{ l[1:] }} {{ l[::-1] }} {{ l[5] }}| {{ l[-9:9] }} {{ l[2:0:-1] }} {{ l[:0] }} {{ (1, 2, 3)[1:] }} {{ l[::-2] }}
{{ d.b }} {{ d['a'][1]['x'] }} {{ d.missing }}| {{ d.a.0 }} {{ d.get('b') }} {{ d.get('zz') }} {{ d.get('zz', 4) }} {{ deep.items is defined }}
{{ deep['items'] }} {{ d.keys() }} {{ d.values() }} {{ d.items() }} {{ d.keys()|list }} {{ d|length }} {{ d.items()|length }}
{{ 'b' in d }} {{ 'zz' in d }} {{ 1 in d.values() }} {{ d == {'b': 1} }} {{ {'a': 1} == {'a': 1.0} }} {{ {1: 2, 'x': (1,)} }} {{ {} }} {{ [] }} {{ () }}
{{ missing.x }}
{{ missing + 1 }}
{{ 'a' + 1 }}
{{ n.x }}| {{ i.x }}| {{ s.x }}|
{{ n.x.y }}
{{ 1 / 0 }}
{{ l['a'] }}| {{ s['a'] }}| {{ missing['a'] }}
{{ l < 1 }}
{{ n < 1 }}
{{ 3 in 'abc' }}
{{ missing() }}
{{ s() }}
{{ raise_exception('no, ' ~ i) }}
{{ s|upper }} {{ s|lower }} {{ u|upper }} {{ u|lower }} {{ 'hello wOrld-foo (bar) it\\'s'|title }} {{ 'hello wOrld'|capitalize }} {{ ''|capitalize }}
{{ s.upper() }} {{ s.lower() }} {{ "it's a wOrld"|string.title() if false else "it's a wOrld 3rd".title() }} {{ 'aBC dE'.capitalize() }}
[{{ t|trim }}] [{{ t.strip() }}] [{{ t.lstrip() }}] [{{ t.rstrip() }}] [{{ 'xxaxx'.strip('x') }}] [{{ 'xyaxy'|trim('xy') }}] [{{ 'abcab'.lstrip('ba') }}] [{{ 'abcab'.rstrip('ba') }}]
{{ t.split() }} {{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a  b c '.split(None, 1) }} {{ ' a b  c '.rsplit() }} {{ ''.split() }} {{ ''.split(',') }} {{ 'abc'.split('abc') }}
{{ 'a'.split('') }}
{{ 'a\\nb\\r\\nc\\n\\nd'.splitlines() }} {{ 'a\\nb\\n'.splitlines(true) }} {{ 'k=v=w'.partition('=') }} {{ 'k=v=w'.rpartition('=') }} {{ 'kv'.partition('=') }} {{ 'kv'.rpartition('=') }}
{{ s.startswith('Hell') }} {{ s.endswith('ld') }} {{ s.startswith(('x', 'H')) }} {{ s.startswith('World', 7) }} {{ s.endswith('o', 0, 5) }} {{ ''.startswith('') }} {{ 'abc'.removeprefix('ab') }} {{ 'abc'.removesuffix('bc') }} {{ 'abc'.removesuffix('x') }}
{{ s.find('o') }} {{ s.rfind('o') }} {{ s.find('zz') }} {{ s.find('o', 5) }} {{ s.count('l') }} {{ s.index('W') }} {{ u.find('x') }} {{ 'aaa'.count('aa') }} {{ 'abc'.count('') }} {{ s.find('', 3) }} {{ s.rfind('') }}
{{ s.index('zz') }}
{{ s.replace('l', 'L') }} {{ s.replace('l', 'L', 2) }} {{ s|replace('o', 0) }} {{ 'abc'.replace('', '-') }} {{ 'aa'|replace('a', 'b', 1) }} {{ ''.replace('', 'x') }}
{{ 'abc'.isdigit() }} {{ '12'.isdigit() }} {{ 'ab1'.isalnum() }} {{ 'ab'.isalpha() }} {{ ' '.isspace() }} {{ 'A1'.isupper() }} {{ 'a1'.islower() }} {{ ''.isdigit() }} {{ '12'.isnumeric() }} {{ 'é'.isascii() }}
{{ ', '.join(w) }} {{ w|join }} {{ w|join(', ') }} {{ l|join('-') }} {{ m|join(',', attribute='role') }} {{ 'abc'|join('.') }} {{ d|join(' ') }}
{{ ', '.join(l) }}
{{ '{} and {}'.format(1, 'x') }} {{ '{0}{1}{0}'.format('a', 'b') }} {{ '{a} {c} {{}}'.format(a=1, c=[3]) }} {{ '{}'.format(none) }} {{ '{}'.format(1.0) }}
{{ '{:05d} {:.2f} {:x} {:+d} {:e} {:+.1f} {:5.1f}|{a:03d}'.format(42, 3.14159, 255, 5, 12345.678, -0.04, 2, a=yes) }}
{{ '%s is %d, %5.2f %x %%' % ('a', 3, 2.5, 255) }} {{ '%s' % 'x' }} {{ '%s, %s!'|format('a', 1) }} {{ '%+d %03d' % (5, -7) }} {{ '%d' % 3.9 }} {{ '%d' % yes }} {{ '%.1f' % i }} {{ '%s' % missing }}|
{{ '%s %s' % 'a' }}
{{ '%s' % ('a', 'b') }}
{{ d|tojson }} {{ l|tojson }} {{ s|tojson }} {{ n|tojson }} {{ yes|tojson }} {{ f|tojson }} {{ u|tojson }} {{ html|tojson }} {{ 1e16|tojson }}
{{ d|tojson(indent=2) }} {{ []|tojson(indent=2) }} {{ {}|tojson(indent=4) }} {{ nested|tojson(indent=1) }} {{ d|tojson(separators=(',', ':')) }} {{ d|tojson(indent=2, separators=(',', ': ')) }}
{{ d|tojson(sort_keys=true) }} {{ u|tojson(ensure_ascii=true) }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }} {{ '\\x00\\x1f\\x7f\\b\\f'|tojson }} {{ d|tojson(indent='--') }}
{{ missing|tojson }}
{{ l|length }} {{ s|length }} {{ u|length }} {{ l|count }} {{ missing|length }} {{ e|length }}
{{ i|length }}
{{ l|first }} {{ l|last }} {{ s|first }} {{ s|last }} {{ []|first }}| {{ []|last }}| {{ d|first }} {{ d|list }} {{ s|list }} {{ l|list }}
{{ l|sort }} {{ w|sort }} {{ w|sort(case_sensitive=true) }} {{ l|sort(reverse=true) }} {{ m|sort(attribute='n')|map(attribute='n')|list }} {{ w|sort(true) }}
{{ [1, 'a']|sort }}
{{ l|reverse|list }} {{ s|reverse }} {{ l|sum }} {{ m|sum(attribute='n') }} {{ l|sum(start=10) }} {{ l|min }} {{ l|max }} {{ w|min }} {{ w|max }} {{ []|min }}| {{ m|max(attribute='n') }}
{{ ['a', 'A', 'b', 'a']|unique|list }} {{ ['a', 'A']|unique(true)|list }} {{ [1, 1.0, 2]|unique|list }}
{{ m|map(attribute='role')|list }} {{ m|map(attribute='a.b')|list if false else m|map(attribute='n', default=9)|list }} {{ w|map('upper')|list }} {{ w|map('replace', 'a', 'x')|join }} {{ nested|map(attribute=0)|list }} {{ m|map(attribute='zz', default='-')|list }}
{{ m|selectattr('role', 'equalto', 'user')|list|length }} {{ m|selectattr('a')|list|length }} {{ m|rejectattr('role', 'eq', 'user')|map(attribute='n')|list }} {{ l|select('odd')|list }} {{ l|reject('>', 1)|list }} {{ [0, 1, n, 'x']|select|list }} {{ m|selectattr('role', 'in', ['tool'])|first }} {{ n|map('upper')|list }} {{ n|select|list }}
{{ m|selectattr('a', 'defined')|list|length }} {{ m|selectattr('n', '>=', 2)|list|length }} {{ (m|selectattr('role'))[0] }}| {{ m|selectattr('role')|length if false }}
{{ m|selectattr('role')|length }}
{{ d|dictsort }} {{ d|dictsort(true) }} {{ {'a': 2, 'b': 1}|dictsort(by='value') }} {{ {'a': 2, 'b': 1}|dictsort(reverse=true) }} {{ d|items|list }} {{ missing|items|list }}
{{ '42'|int }} {{ '42.9'|int }} {{ 'x'|int }} {{ 'x'|int(5) }} {{ 3.9|int }} {{ -3.9|int }} {{ ' 7 '|int }} {{ '0x1f'|int }} {{ '-12'|int }} {{ '+3'|int }} {{ yes|int }} {{ n|int }} {{ '1_000'|int }} {{ ''|int }}
{{ '2.5'|float }} {{ 'x'|float }} {{ 3|float }} {{ 'x'|float(1.5) }} {{ '1e3'|float }} {{ n|float }} {{ 'inf'|float }}
{{ 2.567|round }} {{ 2.5|round }} {{ 3.5|round }} {{ 2.567|round(2) }} {{ 7|round }} {{ 2.675|round(2) }} {{ neg|abs }} {{ -2.5|abs }}
{{ missing|default('x') }} {{ n|default('x') }} {{ n|default('x', true) }} {{ e|d('y', boolean=true) }} {{ missing|default }}| {{ s|default('x') }} {{ d.zz|default(4) }}
{{ html|e }} {{ html|escape|escape }} {{ html|safe }} {{ html|safe + '<b>' }} {{ '<b>' + html|e }} {{ html|safe ~ '<b>' }} {{ (html|safe)|upper }} {{ 1|string + 'x' }} {{ [html|safe] }}
[{{ lines|indent }}] [{{ lines|indent(2, true) }}] [{{ lines|indent(2, blank=true) }}] [{{ lines|indent('>>') }}] [{{ 'a\\n'|indent(2) }}] [{{ ''|indent(2, true) }}]
{{ s is string }} {{ i is string }} {{ i is number }} {{ yes is number }} {{ i is integer }} {{ yes is integer }} {{ f is float }} {{ l is sequence }} {{ d is sequence }} {{ s is sequence }} {{ i is sequence }} {{ d is mapping }} {{ l is mapping }}
{{ l is iterable }} {{ i is iterable }} {{ missing is iterable }} {{ missing is sequence }} {{ n is none }} {{ missing is none }} {{ missing is defined }} {{ missing is undefined }} {{ n is defined }} {{ d.zz is defined }} {{ d.b is defined }} {{ s is not string }}
{{ yes is true }} {{ 1 is true }} {{ n is false }} {{ yes is boolean }} {{ i is odd }} {{ i is even }} {{ i is divisibleby 7 }} {{ i is divisibleby(2) }} {{ i is eq 7 }} {{ i is gt 3 }} {{ i is in [7] }} {{ 'a' is in 'cat' }} {{ s is callable }} {{ range is callable }} {{ 'A' is upper }} {{ 'a' is lower }} {{ n is sameas none }} {{ s is equalto 'x' }}
{{ not s is string }} {{ s is string and i is number }} {{ i is not none and i }} {{ 5 if s is defined else 6 }} {{ s is defined == true }}
{{ s is string 5 }}
{{ '{}{1}'.format(1, 2) }}
{{ m|selectattr('n', 'odd', 3)|list }}
{% if i is zzz %}x{% endif %}
{{ s|zzz }}
{% if false %}{{ s|zzz }}{% endif %}ok
{{ 1 if true else s|zzz }}
{% for x in l %}{{ x }}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.depth }};{% endfor %}
{% for x in l if x > 1 %}{{ x }}/{{ loop.length }}{% else %}none{% endfor %} {% for x in [] %}{% else %}none{% endfor %} {% for x in l if x > 9 %}{{ x }}{% else %}no{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %} {% for k in d %}{{ k }}{% endfor %} {% for k, v in d|dictsort %}{{ k }}{% endfor %} {% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %} {% for c in 'añb' %}{{ c }}.{% endfor %}
{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %} {% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %} {% for x in range(3) %}{{ x }}{% endfor %} {{ range(2, 10, 3)|list }} {{ range(5, 0, -2)|list }} {{ range(3) }}
{% for x in l %}{{ loop.cycle('a', 'b') }}{% for y in l %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}{% endfor %} {% for x in 1, 2 %}{{ x }}{% endfor %}
{% for x in i %}{% endfor %}
{% for x in n %}{% endfor %}
{% for x in missing %}{{ x }}{% else %}empty{% endfor %}
{% for a, b in l %}{% endfor %}
{% set x = 1 %}{% for y in l %}{% set x = x + y %}{{ x }}{% endfor %}{{ x }} {% set ns = namespace(x=1, y='a') %}{% for y in l %}{% set ns.x = ns.x + y %}{% endfor %}{{ ns.x }}{{ ns.y }}{{ ns.z }}| {{ ns }}
{% set a, b = 1, 2 %}{{ a }}{{ b }} {% set x %}block {{ a }}{% endset %}[{{ x }}] {% set x | upper | replace('B', 'q') %}block{% endset %}[{{ x }}] {% set x = (1, 2) %}{{ x }} {% set y = 1, %}{{ y }}
{% set d.x = 1 %}
{% if yes %}{% set z = 5 %}{% endif %}{{ z }} {% if n %}a{% elif i == 7 %}b{% else %}c{% endif %} {% if not n %}d{% endif %} {% if missing %}e{% else %}f{% endif %}
{% macro f(a, b=2, c=a) %}{{ a }}-{{ b }}-{{ c }};{% endmacro %}{{ f(1) }}{{ f(1, 3) }}{{ f(b=5, a=4) }}{{ f() }}{{ f.name }}
{% macro g(kwargs) %}{{ kwargs }}{{ caller if kwargs else 1 }}{% endmacro %}{{ g(0) }} {{ varargs is defined }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(b=2) }}
{% macro box(t) %}[{{ t }}: {{ caller() }}]{% endmacro %}{% call box('a') %}in {{ s }}{% endcall %}{% call box(t='b') -%}  x {%- endcall %}
{% macro each(l) %}{% for x in l %}{{ caller(x, loop.index) }},{% endfor %}{% endmacro %}{% call(x, at, more='m') each([3, 4]) %}{{ at }}={{ x }}{{ more }}{{ i }}{% endcall %}
{% macro outer() %}<{{ caller() }}>{% endmacro %}{% call outer() %}{% call outer() %}deep{% endcall %}{% endcall %} {% set x = 5 %}{% call outer() %}{{ x }}{% endcall %}
{% macro f(a) %}{{ a }}{% endmacro %}{% call f(1) %}unused{% endcall %}
{% call 3 %}x{% endcall %}
{% macro f(a) %}{{ caller(1) }}{% endmacro %}{% call f(1) %}no parameters{% endcall %}
{{ '{[x]}'.format({'x': 1}) }}
{{ '{a[0}'.format(a=[1]) }}
{{ '{a.}'.format(a=[1]) }}
{{ '{a[0]x}'.format(a=[1]) }}
{% macro f(x) %}{% if x > 0 %}{{ x }}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(3) }} {% macro o() %}{{ later }}{% endmacro %}{% set later = 9 %}{{ o() }} {% for q in [1] %}{% macro inner() %}{{ q }}{% endmacro %}{{ inner() }}{% endfor %}
{% macro f(a) -%}  x{{ a }}  {%- endmacro %}[{{ f(1)|trim }}] {{ f(1) ~ f(2) }} {{ f(1)|length }} {% filter upper %}abc{{ s }}{% endfilter %} {% with a = 1, b = i %}{{ a }}{{ b }}{% endwith %}{{ a }}|
{% generation %}gen {{ s }}{% set x = 4 %}{% endgeneration %}{{ x }}|
{# a comment #}a{#- b -#}  c {#+ d #}
{{ '{{' }} {% raw %}{{ x }} {% y %}{% endraw %} {%- raw -%}  r  {%- endraw -%}  z
   {% if true %}   a
   {% endif %}
 b
  {%+ if true %}c{%+ endif %}
x  {%- if true -%}  y  {%- endif -%}  z
line
    {% set q = 1 %}
next
    {# comment #}
last {{- ' q ' -}}   end
{{ {'a': {'b': 1}}.a.b }} {{ {'a': {}} }} {{ [1, [2, {'x': (3,)}]] }} {{ {'a': 1, }['a'] }} {{ [1, ] }}
{{ 'a\\tb\\n\\\\ \\' \\" \\u00e9 \\x41 \\q' }} {{ "q'q" }} {{ ["q'q", 'a"b', 'a\\'"b', 'é\\n\\t\\x00\\u200b'] }}
{{ 1_000 }} {{ 1.5e3 }} {{ 1e3 }} {{ 0 }}
{{ 007 }}
{{ namespace(a=1).a }} {{ dict(a=1, b=2) }} {{ dict([('x', 1)]) }} {{ dict({'z': 1}, y=2) }} {{ namespace({'q': 3}).q }}
{{ l.append(4) }}
{{ d.update({'x': 1}) }}
{{ d.pop('b') }}
{{ l.append }}|
{{ l.index(1) }} {{ l.count(1) }} {{ (1, 1).count(1) }} {{ d.copy() }} {{ l.copy() }}
{% set x = l.append %}{{ 1 }}
{{ strftime_now('%d %b %Y') }} {{ strftime_now('%Y-%m-%d %H:%M') }}
{% do l.append(1) %}
{% include 'x' %}
{% if %}x{% endif %}
{{ 1 2 }}
{% for x in l %}
{{ x
{% endif %}
{{ f(**{'a': 1}) if false else dict(**{'a': 1}) }} {{ range(*[1, 3])|list }} {{ '{}{}'.format(*[1, 2]) }}
{{ (l|map('string')|list)|tojson }} {{ l|map('int')|sum }} {{ w|select('equalto', 'a')|list }} {{ m[0].role ~ m|length }} {{ m|last }} {{ (m|last).n }} {{ m[-1]['role'] }} {{ (m|map(attribute='role')|list)[1] }}
{{ true and 'x' or 'y' }} {{ True }} {{ None }} {{ False }} {{ none is none }} {{ TRUE }}|
{{ l == [3, 1, 2] }} {{ l != [] }} {{ (1, 2) == [1, 2] }} {{ n == false }} {{ missing == other }} {{ '1' == 1 }} {{ 0 == false }} {{ e == n }} {{ {} == [] }}
{{ s.__class__ }}|
{{ [1, 2, 3][true] }} {{ 'abc'[false] }} {{ true + true }} {{ -yes }} {{ yes * 3 }} {{ 'a' * yes }} {{ 'a' * -1 }}|
{{ range(200000) }}
{{ 9223372036854775807 }} {{ -9223372036854775807 - 1 }} {{ 4611686018427387904 + 4611686018427387903 }}
{{ "a" if "x" in s else "b" if "W" in s else "c" }} {{ s | upper | lower | length + 1 }} {{ (s|upper)[0:2] }} {{ s.split(', ')[1].upper() }} {{ s.split(', ')|first|upper }} {{ - 1 }}
{{ m | tojson(indent=4) | replace('    ', '  ') }} {{ 'x'.join(['a', 'b'])|upper }} {{ ('a', 'b')|join('/') }} {{ d.C|tojson|tojson }}
{{ 'ǆ'|title }} {{ 'ß'.upper() }} {{ 'ÀÉ'.lower() }} {{ 'straße'.title() }} {{ 'o\\u0301'|upper }} {{ '１２'.isdigit() }}
{{ l|sort(reverse=missing) }}
{{ l|sort(reverse=n) }}
{{ d|dictsort(reverse=missing) }}
{{ l|sort(reverse=1) }} {{ l|sort(reverse=0) }} {{ d|dictsort(reverse=yes) }}
{{ l|batch(2)|list }} {{ l|batch(2, 'x')|list }} {{ []|batch(3, 'x')|list }} {{ 'abcd'|batch(3)|map('join')|list }} {{ l|batch(9, none)|list }}
{{ range(7)|slice(3)|list }} {{ range(7)|slice(3, 'z')|list }} {{ l|slice(3, 'z')|list }} {{ []|slice(2)|list }} {{ l|slice(5, 'q')|list }}
{{ m|groupby('role')|list }} {% for r, g in m|groupby('role') %}{{ r }}:{{ g|length }};{% endfor %} {{ m|groupby('a.b', default='z')|map('first')|list }}
{{ [{'k': 'b'}, {'k': 'A'}, {'k': 'B'}]|groupby('k')|list }} {{ [{'k': 'b'}, {'k': 'A'}, {'k': 'B'}]|groupby('k', case_sensitive=true)|map('first')|list }}
{{ 2.1|round(0, 'ceil') }} {{ 2.9|round(method='floor') }} {{ 2.567|round(2, 'floor') }} {{ 7|round(method='ceil') }} {{ -2.5|round(0, 'floor') }} {{ 2.5|round(0, 'common') }}
{{ 2.5|round(0, 'up') }}
""".strip("\n").split("\n")
# Those of several lines stand together up to the next that begins a case.
JOINED = {"   {% if true %}   a": 4, "line": 5}


def cases():
    i = 0
    while i < len(CASES):
        n = JOINED.get(CASES[i], 1)
        yield "\n".join(CASES[i:i + n])
        i += n


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT.json", help="tests/core/golden/jinja_cases.json")
    args = parser.parse_args()
    out = []
    for source in [*cases(), "a\r\nb\rc\n", "x\n\n", "", "{% if true %}\r\n  y\r\n{% endif %}\r\n"]:
        try:
            made = chat_jinja.environment().from_string(source).render(**VARIABLES)
            out.append({"template": source, "text": made})
        except Exception as problem:
            out.append({"template": source, "refused": f"{type(problem).__name__}: {problem}"})
    with open(args.out, "w") as file:
        json.dump({"now": int(chat_jinja.NOW.timestamp()), "variables": json.dumps(VARIABLES), "cases": out}, file, indent=1)
        file.write("\n")
    print(len(out), "cases,", sum("refused" in case for case in out), "refused")


main()
