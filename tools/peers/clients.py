#!/usr/bin/env python3
"""Client libraries that others wrote, against a running service: plain answers, streams, tools and structured answers.

    clients.py http://127.0.0.1:8080 MODEL

Prints one row a client, as docs/service.md has them: its version, and for each way yes, no (the client has none), or what went wrong. Install what is to be tried, in several environments where packages want different versions: pip install
openai anthropic litellm llm ollama instructor langchain-openai langgraph pydantic-ai-slim[openai] openai-agents smolagents[openai]
"llama-index-llms-openai-like>=0.8" dspy haystack-ai aider-chat lm-eval[api] guidellm."""
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile

sys.path.pop(0)  # this folder has a tokenizers.py of its own
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


def first_of(called, run):
    """What the model called the tool with first. A small model may end such a conversation without an answer."""
    try:
        run()
    except Exception:
        if not called:
            raise
    return called[0]


def pydantic_ai_agent():
    import pydantic
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    class City(pydantic.BaseModel):
        city: str = pydantic.Field(max_length=40)
        people: int = pydantic.Field(ge=0, le=10**9)
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=URL + "/v1", api_key="unused"))
    given = {"model_settings": {"temperature": 0, "max_tokens": 100}}
    called = []

    def get_weather(city: str) -> str:
        """The weather of a city"""
        called.append(city)
        return "sunny"

    tools = lambda: first_of(called, lambda: Agent(model, tools=[get_weather]).run_sync(TOOL_ASK, **given))

    def stream():
        result = Agent(model).run_stream_sync(ASK, **given)
        return "".join(result.stream_text(delta=True))
    return lambda: Agent(model).run_sync(ASK, **given).output, stream, tools, lambda: Agent(model, output_type=City).run_sync(ASK, **given).output.city


def openai_agents_runner():
    import asyncio
    import openai
    import pydantic
    from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
    set_tracing_disabled(True)

    class City(pydantic.BaseModel):
        city: str
        people: int
    called = []

    @function_tool
    def get_weather(city: str) -> str:
        """The weather of a city"""
        called.append(city)
        return "sunny"

    def agent(**more):
        client = openai.AsyncOpenAI(base_url=URL + "/v1", api_key="unused")
        return Agent(name="a", model=OpenAIChatCompletionsModel(model=MODEL, openai_client=client),
                     model_settings=ModelSettings(temperature=0, max_tokens=100), **more)

    async def streamed():
        result = Runner.run_streamed(agent(), ASK)
        return "".join([e.data.delta async for e in result.stream_events() if getattr(getattr(e, "data", None), "type", "") == "response.output_text.delta"])

    tools = lambda: first_of(called, lambda: Runner.run_sync(agent(tools=[get_weather]), TOOL_ASK))
    return (lambda: Runner.run_sync(agent(), ASK).final_output, lambda: asyncio.run(streamed()), tools,
            lambda: Runner.run_sync(agent(output_type=City), ASK).final_output.city)


def smolagents_model():
    from smolagents import OpenAIServerModel, ToolCallingAgent, tool
    model = OpenAIServerModel(MODEL, api_base=URL + "/v1", api_key="unused", temperature=0, max_tokens=100)
    called = []

    @tool
    def get_weather(city: str) -> str:
        """The weather of a city

        Args:
            city: the city
        """
        called.append(city)
        return "sunny"

    agent = lambda: ToolCallingAgent(tools=[get_weather], model=model, max_steps=1, verbosity_level=0)
    tools = lambda: first_of(called, lambda: agent().run(TOOL_ASK))
    return (lambda: model.generate(MESSAGES).content, lambda: "".join(d.content or "" for d in model.generate_stream(MESSAGES)), tools,
            lambda: is_city(model.generate(MESSAGES, response_format=FORMAT).content))


def langgraph_agent():
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.prebuilt import create_react_agent
    model = ChatOpenAI(base_url=URL + "/v1", api_key="unused", model=MODEL, temperature=0, max_tokens=100)
    called = []

    @tool
    def get_weather(city: str) -> str:
        """The weather of a city"""
        called.append(city)
        return "sunny"

    tools = lambda: first_of(called, lambda: create_react_agent(model, [get_weather]).invoke({"messages": TOOL_MESSAGES}, {"recursion_limit": 6}))
    graph = lambda **more: create_react_agent(model, [], **more)
    return (lambda: graph().invoke({"messages": MESSAGES})["messages"][-1].content,
            lambda: "".join(m.content for m, _ in graph().stream({"messages": MESSAGES}, stream_mode="messages")), tools,
            lambda: is_city(graph(response_format={"title": "city", **SCHEMA}).invoke({"messages": MESSAGES})["structured_response"]))


def llama_index_chat():
    import pydantic
    from llama_index.core.llms import ChatMessage
    from llama_index.core.tools import FunctionTool
    from llama_index.llms.openai_like import OpenAILike

    class City(pydantic.BaseModel):
        city: str
        people: int
    c = OpenAILike(model=MODEL, api_base=URL + "/v1", api_key="unused", is_chat_model=True, is_function_calling_model=True, temperature=0, max_tokens=100)
    weather = FunctionTool.from_defaults(lambda city: "sunny", name="get_weather", description="The weather of a city",
                                         fn_schema=pydantic.create_model("Weather", city=(str, ...)))
    messages = [ChatMessage(role="user", content=ASK)]
    return (lambda: c.chat(messages).message.content, lambda: "".join(p.delta or "" for p in c.stream_chat(messages)),
            lambda: c.get_tool_calls_from_response(c.chat_with_tools([weather], user_msg=TOOL_ASK, tool_required=True))[0].tool_kwargs["city"],
            lambda: c.as_structured_llm(City).complete(ASK).raw.city)


def dspy_predict():
    import dspy
    lm = dspy.LM("openai/" + MODEL, api_base=URL + "/v1", api_key="unused", temperature=0, max_tokens=200, cache=False)
    called = []

    def get_weather(city: str) -> str:
        """The weather of a city"""
        called.append(city)
        return "sunny"

    def structured():
        with dspy.context(lm=lm, adapter=dspy.JSONAdapter()):
            return isinstance(dspy.Predict("question -> city: str, people: int")(question=ASK).people, int)

    def tools():
        with dspy.context(lm=lm, adapter=dspy.JSONAdapter()):
            dspy.ReAct("question -> answer", tools=[get_weather], max_iters=1)(question=TOOL_ASK)
        return called[0]
    return lambda: lm(ASK)[0], None, tools, structured


def haystack_generator():
    from haystack.components.generators.chat import OpenAIChatGenerator
    from haystack.dataclasses import ChatMessage
    from haystack.tools import Tool
    from haystack.utils import Secret

    def generator(**more):
        return OpenAIChatGenerator(api_key=Secret.from_token("unused"), model=MODEL, api_base_url=URL + "/v1",
                                   generation_kwargs={"temperature": 0, "max_tokens": 100, **more})
    messages = [ChatMessage.from_user(ASK)]
    weather = Tool(name="get_weather", description=TOOL["description"], parameters=TOOL["parameters"], function=lambda city: "sunny")

    def stream():
        parts = []
        generator().run(messages, streaming_callback=lambda p: parts.append(p.content or ""))
        return "".join(parts)
    return (lambda: generator().run(messages)["replies"][0].text, stream,
            lambda: generator(tool_choice=FORCED).run([ChatMessage.from_user(TOOL_ASK)], tools=[weather])["replies"][0].tool_calls[0].arguments["city"],
            lambda: is_city(generator(response_format=FORMAT).run(messages)["replies"][0].text))


def aider_edit():
    """An edit of a file, whole and streamed: the file has to change as asked."""
    def edit(*more):
        folder = tempfile.mkdtemp()
        path = os.path.join(folder, "greet.py")
        with open(path, "w") as f:
            f.write('def greet():\n    print("hello")\n')
        env = {**os.environ, "OPENAI_API_BASE": URL + "/v1", "OPENAI_API_KEY": "unused", "HOME": folder}
        run = subprocess.run([os.path.join(os.path.dirname(sys.executable), "aider"), "--model", "openai/" + MODEL, "--no-git", "--yes-always", "--edit-format", "whole",
                              "--no-check-update", "--no-show-model-warnings", "--no-analytics", "--map-tokens", "0", *more,
                              "--message", "Change the text that greet prints to goodbye.", path], env=env, cwd=folder, capture_output=True, text=True, timeout=240)
        with open(path) as f:
            return "goodbye" in f.read() or "unchanged: " + run.stdout[-100:]
    return lambda: edit("--no-stream"), lambda: edit("--stream"), None, None


def lm_eval_loglikelihood():
    """Log-likelihoods by /v1/completions (echo, logprobs), and an answer to a limit."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.openai_completions import LocalCompletionsAPI
    lm = lambda: LocalCompletionsAPI(model=MODEL, base_url=URL + "/v1/completions", tokenizer_backend="remote", tokenized_requests=True)

    def score():
        ask = [Instance("loglikelihood", {}, ("The capital of France is", text), 0) for text in (" Paris", " Berlin")]
        paris, berlin = lm().loglikelihood(ask)
        return paris[0] > berlin[0]
    return score, None, None, None


def guidellm_run():
    """Six chats, four at a time: every request has to be answered."""
    def run(stream):
        folder = tempfile.mkdtemp()
        prompts, report = os.path.join(folder, "prompts.jsonl"), os.path.join(folder, "report.json")
        with open(prompts, "w") as f:
            f.writelines(json.dumps({"prompt": "Count to %d." % n}) + "\n" for n in range(3, 9))
        done = subprocess.run([os.path.join(os.path.dirname(sys.executable), "guidellm"), "run", "--disable-console",
                               "--backend", "kind=openai_http,target=%s,model=%s,stream=%s,max_tokens=30" % (URL, MODEL, stream),
                               "--profile", "kind=concurrent,streams=4", "--constraint", "kind=max_requests,count=6",
                               "--data", "kind=json_file,path=" + prompts, "--output", "kind=json,path=" + report],
                              env={**os.environ, "HF_HUB_OFFLINE": "1"}, capture_output=True, text=True, timeout=240)
        if done.returncode:
            return "unchanged: " + done.stderr[-100:]
        with open(report) as f:
            requests = json.load(f)["benchmarks"][0]["requests"]
        return len(requests["successful"]) == 6 and not requests["errored"]
    return lambda: run("false"), lambda: run("true"), None, None


CLIENTS = [("openai", "chat completions", openai_chat), ("openai", "responses", openai_responses), ("anthropic", "messages", anthropic_messages),
           ("litellm", "completion", litellm_completion), ("ollama", "chat", ollama_chat), ("langchain-openai", "ChatOpenAI", langchain_chat),
           ("instructor", "from_openai, tools", instructor_create), ("llm", "prompt", llm_prompt), ("pydantic-ai-slim", "Agent", pydantic_ai_agent),
           ("openai-agents", "Runner", openai_agents_runner), ("smolagents", "OpenAIServerModel", smolagents_model),
           ("langgraph", "create_react_agent", langgraph_agent), ("llama-index-llms-openai-like", "OpenAILike", llama_index_chat),
           ("dspy", "LM, Predict, ReAct", dspy_predict), ("haystack-ai", "OpenAIChatGenerator", haystack_generator),
           ("aider-chat", "an edit", aider_edit), ("lm-eval", "log-likelihoods", lm_eval_loglikelihood),
           ("guidellm", "run", guidellm_run)]


def tried(way):
    if not way:
        return ""
    try:
        answer = way()
        return "empty" if not answer else answer if str(answer).startswith("unchanged") else "yes"
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
