"""LangChain's OpenAI classes, unchanged, against the running server: whole, streamed, in batches, awaited.
Skipped where no Python with them is found (SWIFTLET_PYTHON names one)."""
import asyncio

from service import MODEL, client_url, run_text

URL = client_url("langchain_openai", __file__)

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI, OpenAI

PROMPT = "Question: Tom has 3 apples and buys 4 more. How many apples has he now?\nAnswer:"
given = {"model": MODEL, "base_url": URL, "api_key": "none", "max_retries": 0, "timeout": 600, "max_tokens": 16}
chat = ChatOpenAI(temperature=0, **given)


def whole_and_streamed():
    answer = chat.invoke(PROMPT)
    assert answer.content and answer.response_metadata["finish_reason"] == "length", answer
    assert answer.usage_metadata["output_tokens"] == 16
    chunks = list(chat.stream(PROMPT, stream_usage=True))
    assert "".join(c.content for c in chunks) == answer.content
    assert sum(c.usage_metadata["output_tokens"] for c in chunks if c.usage_metadata) == 16

    async def awaited():
        return "".join([c.content async for c in chat.astream(PROMPT)])

    assert asyncio.run(awaited()) == answer.content


def batches():
    prompts = [PROMPT, "Once upon a time", "def add(a, b):", "Translate: the house is old."]
    assert [a.content for a in chat.batch(prompts)] == [chat.invoke(p).content for p in prompts]


def conversations_and_chains():
    messages = [SystemMessage("You count."), HumanMessage("1, 2, 3"), AIMessage("4, 5"), HumanMessage("and on?")]
    assert chat.invoke(messages).content
    chain = ChatPromptTemplate.from_messages([("system", "You count."), ("human", "{what}")]) | chat | StrOutputParser()
    assert chain.invoke({"what": "1, 2, 3"}) == chat.invoke([("system", "You count."), ("human", "1, 2, 3")]).content


def options():
    text = chat.invoke(PROMPT).content
    cut = text[4:7]
    assert chat.invoke(PROMPT, stop=[cut]).content == text[:text.index(cut)]
    scored = chat.bind(logprobs=True, top_logprobs=2).invoke(PROMPT).response_metadata["logprobs"]["content"]
    assert len(scored) == 16 and len(scored[0]["top_logprobs"]) == 2
    longer = {**given, "max_tokens": 80}
    fresh = ChatOpenAI(temperature=0, presence_penalty=2, frequency_penalty=2, **longer)
    assert fresh.invoke(PROMPT).content != ChatOpenAI(temperature=0, **longer).invoke(PROMPT).content
    warm = [ChatOpenAI(temperature=1, seed=seed, **given).invoke(PROMPT).content for seed in (1, 1, 2, 3)]
    assert warm[0] == warm[1] and len(set(warm)) > 1


def tools():
    bound = chat.bind_tools([{"type": "function", "function": {"name": "f", "description": "", "parameters": {
        "type": "object", "properties": {}}}}])
    answer = bound.invoke(PROMPT)
    assert answer.content and answer.tool_calls == [] and not answer.invalid_tool_calls, answer


def structured_output():
    """By a schema, LangChain's default, and into an object of a class."""
    from typing import Literal

    import pydantic

    class Person(pydantic.BaseModel):
        name: str = pydantic.Field(max_length=10)
        age: int = pydantic.Field(ge=0, le=120)
        likes: list[Literal["tea", "coffee"]] = pydantic.Field(max_length=2)

    longer = ChatOpenAI(temperature=0, **{**given, "max_tokens": 200})
    person = longer.with_structured_output(Person).invoke("Invent a person.")
    assert isinstance(person, Person) and 0 <= person.age <= 120 and len(person.name) <= 10, person


def completions():
    plain = OpenAI(temperature=0, **given)
    want = run_text(PROMPT, "-n", "16", "--temp", "0")["text"]
    assert plain.invoke(PROMPT) == want
    assert "".join(plain.stream(PROMPT)) == want
    assert [g[0].text for g in plain.generate([PROMPT, PROMPT]).generations] == [want, want]


for check in (whole_and_streamed, batches, conversations_and_chains, options, tools, structured_output, completions):
    check()
    print(check.__name__, "ok")
