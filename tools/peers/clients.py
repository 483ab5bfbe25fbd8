#!/usr/bin/env python3
"""Client libraries that others wrote, against a running service: plain answers, streams, tools and structured answers.

    clients.py http://127.0.0.1:8080 MODEL

Prints one row a client, as docs/service.md has them: its version, and for each way yes, no (the client has none), or what
went wrong. Install what is to be tried: pip install openai anthropic litellm llm ollama instructor langchain-openai."""
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile

URL, MODEL = sys.argv[1].rstrip("/"), sys.argv[2]
ASK = "What is the capital of France? Answer in one sentence."
TOOL_ASK = "What is the weather in Paris? Use the tool."
SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 40}, "people": {"type": "integer", "minimum": 0}},
          "required": ["city", "people"], "additionalProperties": False}
TOOL = {"name": "get_weather", "description": "The weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 40}}, "required": ["city"], "additionalProperties": False}}
MESSAGES = [{"role": "user", "content": ASK}]
TOOL_MESSAGES = [{"role": "user", "content": TOOL_ASK}]
FORMAT = {"type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": SCHEMA}}
FORCED = {"type": "function", "function": {"name": "get_weather"}}


def is_city(text):
    value = json.loads(text) if isinstance(text, str) else text
    return set(value) == {"city", "people"} and isinstance(value["people"], int)


def openai_chat():
    import openai
    c = openai.OpenAI(base_url=URL + "/v1", api_key="unused")
    given = {"model": MODEL, "max_tokens": 60, "temperature": 0}
    plain = lambda: c.chat.completions.create(messages=MESSAGES, **given).choices[0].message.content
    stream = lambda: "".join(p.choices[0].delta.content or "" for p in c.chat.completions.create(messages=MESSAGES, stream=True, **given) if p.choices)
    tools = lambda: json.loads(c.chat.completions.create(messages=TOOL_MESSAGES, tools=[{"type": "function", "function": TOOL}], tool_choice=FORCED, **given)
                               .choices[0].message.tool_calls[0].function.arguments)["city"]
    structured = lambda: is_city(c.chat.completions.create(messages=MESSAGES, response_format=FORMAT, **given).choices[0].message.content)
    return plain, stream, tools, structured


def openai_responses():
    import openai
    c = openai.OpenAI(base_url=URL + "/v1", api_key="unused")
    given = {"model": MODEL, "max_output_tokens": 60, "temperature": 0}
    tool = {"type": "function", **TOOL, "strict": True}
    plain = lambda: c.responses.create(input=ASK, **given).output_text

    def stream():
        with c.responses.stream(input=ASK, **given) as events:
            return "".join(e.delta for e in events if e.type == "response.output_text.delta")
    tools = lambda: json.loads([o for o in c.responses.create(input=TOOL_ASK, tools=[tool], tool_choice={"type": "function", "name": "get_weather"}, **given).output
                                if o.type == "function_call"][0].arguments)["city"]
    structured = lambda: is_city(c.responses.create(input=ASK, text={"format": {"type": "json_schema", "name": "city", "schema": SCHEMA, "strict": True}}, **given).output_text)
    return plain, stream, tools, structured


def anthropic_messages():
    import anthropic
    c = anthropic.Anthropic(base_url=URL, api_key="unused")
    given = {"model": MODEL, "max_tokens": 60}
    tool = {"name": TOOL["name"], "description": TOOL["description"], "input_schema": TOOL["parameters"]}
    plain = lambda: c.messages.create(messages=MESSAGES, **given).content[0].text

    def stream():
        with c.messages.stream(messages=MESSAGES, **given) as s:
            return "".join(s.text_stream)
    tools = lambda: [b for b in c.messages.create(messages=TOOL_MESSAGES, tools=[tool], tool_choice={"type": "tool", "name": "get_weather"}, **given).content
                     if b.type == "tool_use"][0].input["city"]
    form = {"name": "city", "description": "a city", "input_schema": SCHEMA}
    structured = lambda: is_city([b for b in c.messages.create(messages=MESSAGES, tools=[form], tool_choice={"type": "tool", "name": "city"}, **given).content
                                  if b.type == "tool_use"][0].input)
    return plain, stream, tools, structured


def litellm_completion():
    import litellm
    given = {"model": "openai/" + MODEL, "api_base": URL + "/v1", "api_key": "unused", "max_tokens": 60, "temperature": 0}
    plain = lambda: litellm.completion(messages=MESSAGES, **given).choices[0].message.content
    stream = lambda: "".join(p.choices[0].delta.content or "" for p in litellm.completion(messages=MESSAGES, stream=True, **given))
    tools = lambda: json.loads(litellm.completion(messages=TOOL_MESSAGES, tools=[{"type": "function", "function": TOOL}], tool_choice=FORCED, **given)
                               .choices[0].message.tool_calls[0].function.arguments)["city"]
    structured = lambda: is_city(litellm.completion(messages=MESSAGES, response_format=FORMAT, **given).choices[0].message.content)
    return plain, stream, tools, structured


def ollama_chat():
    import ollama
    c = ollama.Client(host=URL)
    given = {"model": MODEL, "options": {"temperature": 0, "num_predict": 60}}
    plain = lambda: c.chat(messages=MESSAGES, **given).message.content
    stream = lambda: "".join(p.message.content for p in c.chat(messages=MESSAGES, stream=True, **given))
    tools = lambda: c.chat(messages=TOOL_MESSAGES, tools=[{"type": "function", "function": TOOL}], **given).message.tool_calls[0].function.arguments["city"]
    structured = lambda: is_city(c.chat(messages=MESSAGES, format=SCHEMA, **given).message.content)
    return plain, stream, tools, structured


def langchain_chat():
    from langchain_openai import ChatOpenAI
    c = ChatOpenAI(base_url=URL + "/v1", api_key="unused", model=MODEL, temperature=0, max_tokens=60)
    plain = lambda: c.invoke(ASK).content
    stream = lambda: "".join(p.content for p in c.stream(ASK))
    tools = lambda: c.bind_tools([{"type": "function", "function": TOOL}], tool_choice="get_weather").invoke(TOOL_ASK).tool_calls[0]["args"]["city"]
    structured = lambda: is_city(c.with_structured_output({"title": "city", **SCHEMA}, method="json_schema").invoke(ASK))
    return plain, stream, tools, structured


def instructor_create():
    import instructor
    import openai
    import pydantic

    class City(pydantic.BaseModel):
        city: str = pydantic.Field(max_length=40)
        people: int = pydantic.Field(ge=0, le=10**9)
    c = instructor.from_openai(openai.OpenAI(base_url=URL + "/v1", api_key="unused"), mode=instructor.Mode.TOOLS)
    structured = lambda: bool(c.chat.completions.create(model=MODEL, messages=MESSAGES, response_model=City, max_retries=0, max_tokens=200, temperature=0).city)
    return None, None, None, structured


def llm_prompt():
    folder = tempfile.mkdtemp()
    with open(os.path.join(folder, "extra-openai-models.yaml"), "w") as f:
        f.write(f"- model_id: here\n  model_name: {MODEL}\n  api_base: {URL}/v1\n  supports_tools: true\n  supports_schema: true\n  can_stream: true\n")
    env = {**os.environ, "LLM_USER_PATH": folder, "OPENAI_API_KEY": "unused"}

    def run(*more):
        return subprocess.run([os.path.join(os.path.dirname(sys.executable), "llm"), "prompt", "-m", "here", "-o", "temperature", "0", "-o", "max_tokens", "60", "--key", "unused", *more],
                              env=env, capture_output=True, text=True, check=True, timeout=120).stdout
    plain = lambda: run("--no-stream", ASK)
    stream = lambda: run(ASK)
    structured = lambda: is_city(run("--schema", json.dumps(SCHEMA), ASK))
    return plain, stream, None, structured


CLIENTS = [("openai", "chat completions", openai_chat), ("openai", "responses", openai_responses), ("anthropic", "messages", anthropic_messages),
           ("litellm", "completion", litellm_completion), ("ollama", "chat", ollama_chat), ("langchain-openai", "ChatOpenAI", langchain_chat),
           ("instructor", "from_openai, tools", instructor_create), ("llm", "prompt", llm_prompt)]


def tried(way):
    if not way:
        return ""
    try:
        return "yes" if way() else "empty"
    except Exception as problem:
        return "%s: %s" % (type(problem).__name__, str(problem).splitlines()[0][:120] if str(problem) else "")


print("| client | way in | version | plain | stream | tools | structured |")
print("| --- | --- | --- | --- | --- | --- | --- |")
for package, way_in, make in CLIENTS:
    try:
        version = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        continue
    print("| %s | %s | %s | %s |" % (package, way_in, version, " | ".join(tried(way) for way in make())), flush=True)
