"""The renderer of chat templates in transformers, reproduced: jinja2's immutable sandbox, trim_blocks and
lstrip_blocks, break and continue, {% generation %}, tojson, raise_exception and strftime_now.

transformers itself is not needed, so that the comparison runs with jinja2 alone.
"""
import datetime
import json

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

NOW = datetime.datetime.fromtimestamp(1753500000)
DATES = {"date_string": NOW.strftime("%d %b %Y"), "datetime": NOW.strftime("%b %d %Y")}  # chat templates get them too


class Generation(jinja2.ext.Extension):
    """{% generation %}…{% endgeneration %}: its body, in a scope of its own."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("written"), [], [], body).set_lineno(line)

    @staticmethod
    def written(caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = NOW.strftime
    return made


def render(template, messages, tools=None, documents=None, add_generation_prompt=True, **variables):
    """The text; whatever the template or jinja2 raises goes through."""
    return environment().from_string(template).render(
        messages=messages, tools=tools, documents=documents, add_generation_prompt=add_generation_prompt, **variables)
