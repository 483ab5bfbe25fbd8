#!/usr/bin/env python3
"""Writes tests/core/golden/chat_templates.json: conversations rendered as transformers renders them.

Templates in the families' styles × chat_conversations.py, by jinja2 in transformers' environment (chat_jinja.py).
Where a template refuses a conversation, the golden records that. Run it with TZ=UTC: some ask for the date.
"""
import argparse
import json

import chat_conversations
import chat_jinja

LLAMA2_HEAD = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
    "{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "{% if loop.index0 == 0 and system_message != false %}"
    "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}"
)
LLAMA31 = """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
DATE
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- This block extracts the system message, so we can slot it into the right place. #}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}

{#- System message #}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Cutting Knowledge Date: December 2023\\n" }}
{{- "Today Date: " + date_string + "\\n\\n" }}
{%- if tools is not none and not tools_in_user_message %}
    {{- "You have access to the following functions." }}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}

{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
MISTRAL_ALTERNATE = (
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
)
MISTRAL_V3 = """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}

{#- This block checks for alternating user/assistant messages, skipping tool calling messages #}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, conversation roles must alternate user/assistant/user/assistant/...") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}

{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST]SPACE" + system_message + "\\n\\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST]SPACE" + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- ASSISTANT }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, with the exception of an initial optional system message!") }}
    {%- endif %}
{%- endfor %}
"""
MISTRAL_V1_SYSTEM = """{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}

{{- bos_token }}
{%- for message in loop_messages %}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
        {{- raise_exception('After the optional system message, conversation roles must alternate user/assistant/user/assistant/...') }}
    {%- endif %}
    {%- if message['role'] == 'user' %}
        {%- if loop.first and system_message is defined %}
            {{- ' [INST] ' + system_message + '\\n\\n' + message['content'] + ' [/INST]' }}
        {%- else %}
            {{- ' [INST] ' + message['content'] + ' [/INST]' }}
        {%- endif %}
    {%- elif message['role'] == 'assistant' %}
        {{- ' ' + message['content'] + eos_token}}
    {%- else %}
        {{- raise_exception('Only user and assistant roles are supported, with the exception of an initial optional system message!') }}
    {%- endif %}
{%- endfor %}
"""
CHATML_LOOP = (
    "{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
QWEN25 = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.' }}
    {%- endif %}
    {{- "\\n\\n# Tools\\n\\nYou may call one or more functions to assist with the user query.<|im_end|>\\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "tool" %}
        {{- '<|im_start|>user' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
QWEN3 = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0].role == 'system' %}
        {{- messages[0].content + '\\n\\n' }}
    {%- endif %}
    {{- "# Tools<|im_end|>\\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""
DEEPSEEK_CODER = """{% if not add_generation_prompt is defined %}
{% set add_generation_prompt = false %}
{% endif %}
{%- set ns = namespace(found=false) -%}
{%- for message in messages -%}
    {%- if message['role'] == 'system' -%}
        {%- set ns.found = true -%}
    {%- endif -%}
{%- endfor -%}
{{bos_token}}{%- if not ns.found -%}
{{'You are an AI programming assistant, utilizing the Deepseek Coder model, developed by Deepseek Company, and you only answer questions related to computer science. For politically sensitive questions, security and privacy issues, and other non-computer science questions, you will refuse to answer\\n'}}
{%- endif %}
{%- for message in messages %}
    {%- if message['role'] == 'system' %}
{{ message['content'] }}
    {%- else %}
        {%- if message['role'] == 'user' %}
{{'### Instruction:\\n' + message['content'] + '\\n'}}
        {%- else %}
{{'### Response:\\n' + message['content'] + '\\n<|EOT|>\\n'}}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{% if add_generation_prompt %}
{{'### Response:'}}
{% endif %}"""

FAMILIES = [
    ("llama-2", "<s>", "</s>", LLAMA2_HEAD +
     "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
     "{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"),
    ("llama-2", "<s>", "</s>", LLAMA2_HEAD +  # CodeLlama's spelling
     "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content | trim + ' [/INST]' }}"
     "{% elif message['role'] == 'assistant' %}{{ ' '  + content | trim + ' ' + eos_token }}{% endif %}{% endfor %}"),
    ("llama-3", "<|begin_of_text|>", "<|eot_id|>",
     "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + "
     "message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}"
     "{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}"
     "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"),
    ("llama-3.1", "<|begin_of_text|>", "<|eot_id|>",
     LLAMA31.replace("DATE", '    {%- set date_string = "26 Jul 2024" %}')),
    ("llama-3.1", "<|begin_of_text|>", "<|eot_id|>", LLAMA31.replace(
        "DATE", '    {%- if strftime_now is defined %}\n        {%- set date_string = strftime_now("%d %b %Y") %}\n'
                '    {%- else %}\n        {%- set date_string = "26 Jul 2024" %}\n    {%- endif %}')),
    ("mistral-v1", "<s>", "</s>", "{{ bos_token }}{% for message in messages %}" + MISTRAL_ALTERNATE +
     "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
     "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token + ' ' }}"
     "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"),
    ("mistral-v2", "<s>", "</s>", "{{ bos_token }}{% for message in messages %}" + MISTRAL_ALTERNATE +
     "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
     "{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}"
     "{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}"),
    ("mistral-v1-system", "<s>", "</s>", MISTRAL_V1_SYSTEM),
    ("mistral-v3", "<s>", "</s>", MISTRAL_V3.replace("SPACE", " ")
     .replace("ASSISTANT", '" " + message["content"]|trim + eos_token')),
    ("mistral-v3", "<s>", "</s>", MISTRAL_V3.replace("SPACE", " ")  # as first published
     .replace("ASSISTANT", '" " + message["content"] + eos_token')),
    ("mistral-nemo", "<s>", "</s>", MISTRAL_V3.replace("SPACE", "").replace("ASSISTANT", 'message["content"] + eos_token')),
    ("chatml", "<|im_start|>", "<|im_end|>", "{% for message in messages %}" + CHATML_LOOP),
    ("chatml", "<|im_start|>", "<|im_end|>", "{% for message in messages %}" + CHATML_LOOP.replace("\\n", "\n")),
    ("chatml", "<|startoftext|>", "<|im_end|>",  # Yi
     "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}"
     "{% for message in messages %}" + CHATML_LOOP),
    ("chatml", "<|im_start|>", "<|im_end|>",  # SmolLM2
     "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
     "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}" +
     CHATML_LOOP.replace("\\n", "\n")),
    ("chatml", "", "<|im_end|>",  # Qwen2
     "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
     "You are a helpful assistant.<|im_end|>\n' }}{% endif %}" + CHATML_LOOP.replace("\\n", "\n")),
    ("chatml", "", "<|im_end|>", QWEN25),
    ("qwen-3", "", "<|im_end|>", QWEN3),
    ("yi-1.5", "<|startoftext|>", "<|im_end|>",
     "{% if messages[0]['role'] == 'system' %}{% set system_message = messages[0]['content'] %}{% endif %}"
     "{% if system_message is defined %}{{ system_message }}{% endif %}{% for message in messages %}"
     "{% set content = message['content'] %}{% if message['role'] == 'user' %}"
     "{{ '<|im_start|>user\\n' + content + '<|im_end|>\\n<|im_start|>assistant\\n' }}"
     "{% elif message['role'] == 'assistant' %}{{ content + '<|im_end|>' + '\\n' }}{% endif %}{% endfor %}"),
    ("phi-3", "<s>", "<|endoftext|>",
     "{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\n' + message['content'] + "
     "'<|end|>\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}"
     "{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}"
     "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"),
    ("phi-3", "<s>", "<|endoftext|>",  # Phi-3.5
     "{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}{{'<|system|>\n' + "
     "message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + "
     "'<|end|>\n'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}"
     "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"),
    ("phi-3-first", "<s>", "<|endoftext|>",
     "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') %}{{'<|user|>' + '\n' + "
     "message['content'] + '<|end|>' + '\n' + '<|assistant|>' + '\n'}}{% elif (message['role'] == 'assistant') %}"
     "{{message['content'] + '<|end|>' + '\n'}}{% endif %}{% endfor %}"),
    ("phi-3-first", "<s>", "<|endoftext|>",  # Phi-3-medium
     "{% for message in messages %}{% if (message['role'] == 'user') %}{{'<|user|>' + '\n' + message['content'] + "
     "'<|end|>' + '\n' + '<|assistant|>' + '\n'}}{% elif (message['role'] == 'assistant') %}"
     "{{message['content'] + '<|end|>' + '\n'}}{% endif %}{% endfor %}"),
    ("gemma", "<bos>", "<eos>",
     "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}"
     "{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
     "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
     "{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}"
     "{% endif %}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
     "{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"),
    ("deepseek-coder", "<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<|EOT|>", DEEPSEEK_CODER),
    ("deepseek-llm", "<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>",
     "{% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{{ bos_token }}"
     "{% for message in messages %}{% if message['role'] == 'user' %}{{ 'User: ' + message['content'] + '\n\n' }}"
     "{% elif message['role'] == 'assistant' %}{{ 'Assistant: ' + message['content'] + eos_token }}"
     "{% elif message['role'] == 'system' %}{{ message['content'] + '\n\n' }}{% endif %}{% endfor %}"
     "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"),
    ("zephyr", "<s>", "</s>",
     "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + message['content'] + "
     "eos_token }}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + message['content'] + eos_token }}\n"
     "{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + message['content'] + eos_token }}\n"
     "{% endif %}\n{% if loop.last and add_generation_prompt %}\n{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}"),
    ("question-answer", "<s>", "</s>",
     "{{- bos_token }}{%- for message in messages %}"
     "{%- if message['role'] == 'system' %}{{- message['content'] + '\\n' }}"
     "{%- elif message['role'] == 'user' %}{{- 'Question: ' + message['content'] + '\\n' }}"
     "{%- elif message['role'] == 'assistant' %}{{- 'Answer: ' + message['content'] + '\\n' }}"
     "{%- endif %}{%- endfor %}{%- if add_generation_prompt %}{{- 'Answer:' }}{%- endif %}"),
]

# Styles of today's families: what they ask of Jinja, not their words.
HERMES_TOOLS = """{%- macro json_type(spec) -%}
    {%- if spec.type is string -%}{{ {'string': 'str', 'integer': 'int', 'number': 'float', 'boolean': 'bool'}.get(spec.type, spec.type) }}
    {%- elif spec.type is iterable -%}{{ spec.type | map('string') | join(' | ') }}
    {%- else -%}Any{%- endif -%}
{%- endmacro -%}
{{- bos_token -}}
{%- set system = messages[0]['content'] if messages[0]['role'] == 'system' else 'You call functions.' %}
{{- '<|im_start|>system\\n' + system }}
{%- if tools %}
{{- '\\n<tools>' }}
{%- for tool in tools %}
    {%- set f = tool.function if tool.function is defined else tool %}
{{ '\\n' }}{"name": {{ f.name | tojson }}, "signature": "{{ f.name }}({% for name, spec in f.parameters.properties.items() %}{{ name }}: {{ json_type(spec) }}{% if spec.default is defined %} = {{ spec.default }}{% endif %}{{ ', ' if not loop.last }}{% endfor %})", "parameters": {{ f.parameters | tojson }}}
    {%- if not loop.last %}{{ ',' }}{% endif %}
{%- endfor %}
{{- '\\n</tools>' }}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- for message in messages %}
    {%- if message.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{ '<|im_start|>tool' }}{% endif %}
        {{- '\\n<tool_response>\\n' ~ message.content ~ '\\n</tool_response>' }}
        {%- if loop.last or loop.nextitem.role != 'tool' %}{{ '<|im_end|>\\n' }}{% endif %}
    {%- elif message.role == 'assistant' and message.tool_calls %}
        {{- '<|im_start|>assistant' }}
        {%- for tool_call in message.tool_calls %}
            {%- set tool_call = tool_call.function if tool_call.function is defined else tool_call %}
            {{- '\\n<tool_call>\\n' + {'name': tool_call.name, 'arguments': tool_call.arguments} | tojson + '\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif not (loop.first and message.role == 'system') %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}
"""
THINKING = """{%- set ns = namespace(first=true, last_query=-1) -%}
{%- for message in messages if message.role == 'user' -%}
    {%- set ns.last_query = messages.index(message) -%}
{%- endfor -%}
[gMASK]<sop>
{%- for m in messages %}
{%- if m.role == 'assistant' %}
<|assistant|>
{%- set content = m.content or '' %}
{%- set thought = m.reasoning_content if m.reasoning_content is string else '' %}
{%- if '</think>' in content %}
    {%- set thought = (content.split('</think>')|first).split('<think>')|last|trim %}
    {%- set content = content.rsplit('</think>', 1)[1].lstrip('\\n') %}
{%- endif %}
{%- if loop.index0 > ns.last_query and thought -%}
{{ '\\n<think>' + thought.strip() + '</think>' }}
{%- else -%}
{{ '\\n<think></think>' }}
{%- endif %}
{%- if content.strip() -%}{{ '\\n' + content.strip() }}{%- endif -%}
{%- for call in m.tool_calls or [] %}
<tool_call>{{ call.function.name }}
{% set arguments = call.function.arguments -%}
{% for k, v in arguments.items() -%}
<arg_key>{{ k }}</arg_key>
<arg_value>{{ v | tojson(ensure_ascii=False) if v is not string else v }}</arg_value>
{% endfor -%}
</tool_call>
{%- endfor %}
{%- elif m.role == 'tool' -%}
{%- if not loop.first and loop.previtem.role != 'tool' %}{{ '<|observation|>' }}{% endif -%}
{{ '\\n<tool_response>\\n' }}{{ m.content }}{{ '\\n</tool_response>' }}
{%- elif m.role in ['system', 'user'] -%}
<|{{ m.role }}|>{{ '\\n' }}{{ m.content if m.content is string else m.content | map(attribute='text') | join('') }}
{{- '/nothink' if (m.role == 'user' and enable_thinking is defined and not enable_thinking and not m.content.endswith('/nothink')) else '' -}}
{%- else %}{{ raise_exception('The role ' ~ m.role ~ ' is not known, message ' ~ loop.index) }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
    <|assistant|>{{- '\\n<think></think>' if (enable_thinking is defined and not enable_thinking) else '' -}}
{%- endif -%}"""
DOCUMENTS = """{%- set tools_text = 'You may use these tools:' + (tools | tojson(indent=4)) if tools else '' %}
{%- macro turn(role, text, end='<|end_of_text|>') %}
<|start_of_role|>{{ role }}<|end_of_role|>{{ text }}{{ end }}
{% endmacro %}
{%- if messages[0].role == 'system' %}
    {%- set system, rest = messages[0].content, messages[1:] %}
{%- else %}
    {%- set system %}
Knowledge until 2024.
Today is {{ strftime_now('%B %d, %Y') }}.
{% if not (tools or documents) %}You help.{% endif %}
    {%- endset %}
    {%- set rest = messages %}
{%- endif %}
{{- turn('system', system) }}
{%- if tools_text %}{{ turn('available_tools', tools_text) }}{% endif %}
{%- for document in documents or [] %}
{{- turn('document {"id": "' + loop.index|string + '"}', document['title'] ~ ': ' ~ document.text | indent(2)) }}
{%- endfor %}
{%- for message in rest %}
    {%- if message.tool_calls is defined and message.tool_calls is not none %}
        {%- set calls = [] %}
        {%- for call in message.tool_calls %}{% set calls = calls + [call.function] %}{% endfor %}
{{- turn(message.role, '<|tool_call|>' ~ message.tool_calls | map(attribute='function') | list | tojson) }}
    {%- else %}
{{- turn(message.role, message.content) }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
<|start_of_role|>assistant{{ ' {"effort": "%s"}' | format(reasoning_effort) if reasoning_effort is defined }}<|end_of_role|>
{%- endif %}"""
CHANNELS = """{%- macro type_of(spec, level=0) -%}
    {%- if spec.enum -%}
        {%- for value in spec.enum %}{{ value | tojson }}{{ ' | ' if not loop.last }}{% endfor -%}
    {%- elif spec.type == 'array' -%}{{ type_of(spec['items'], level + 1) }}[]
    {%- elif spec.type == 'object' -%}
        {{- '{\\n' }}
        {%- for name, inner in spec.properties | dictsort %}
            {{- '  ' * level + '// ' ~ inner.description ~ '\\n' if inner.description else '' }}
            {{- '  ' * level + name + ('' if name in (spec.required or []) else '?') + ': ' + type_of(inner, level + 1) }}
            {{- ', // default: ' ~ inner.default if inner.default is defined else ',' }}
            {{- '\\n' }}
        {%- endfor %}
        {{- '  ' * level + '}' }}
    {%- elif spec.type is string -%}{{ {'integer': 'number'}.get(spec.type, spec.type) }}
    {%- elif spec.type is sequence -%}{{ spec.type | join(' | ') }}
    {%- else -%}any{%- endif -%}
{%- endmacro -%}
<|start|>system<|message|>Date: {{ strftime_now("%Y-%m-%d") }}
Reasoning: {{ reasoning_effort | default('medium') }}
{%- if tools %}

namespace functions {
{% for tool in tools %}
// {{ tool.function.description | replace('\\n', '\\n// ') }}
type {{ tool.function.name }} = (_: {{ type_of(tool.function.parameters) }}) => any;
{% endfor %}
}
{%- endif -%}
<|end|>
{%- set last = namespace(tool=none) %}
{%- for message in messages -%}
    {%- if message.role == 'tool' %}
        {%- if last.tool is none %}{{ raise_exception('A tool answers that nobody called') }}{% endif %}
        {{- '<|start|>functions.' ~ last.tool ~ ' to=assistant<|channel|>commentary<|message|>' ~ message.content | tojson ~ '<|end|>' }}
    {%- elif message.tool_calls %}
        {%- set call = message.tool_calls[0] %}
        {%- set last.tool = call.function.name %}
        {{- '<|start|>assistant<|channel|>commentary to=functions.' ~ call.function.name ~ ' json<|message|>' }}
        {{- call.function.arguments if call.function.arguments is string else call.function.arguments | tojson }}
        {{- '<|call|>' }}
    {%- elif message.role == 'assistant' %}
        {%- if (message.thinking or message.reasoning_content) and loop.last %}{{ '<|start|>assistant<|channel|>analysis<|message|>' + message.thinking + '<|end|>' }}{% endif %}
        {%- generation %}{{ '<|start|>assistant<|channel|>final<|message|>' + message.content + ('<|return|>' if loop.last and not add_generation_prompt else '<|end|>') }}{% endgeneration %}
    {%- else %}
        {{- '<|start|>' ~ {'system': 'developer'}.get(message.role, message.role) ~ '<|message|>' ~ message.content ~ '<|end|>' }}
    {%- endif -%}
{%- endfor -%}
{% if add_generation_prompt %}<|start|>assistant{% endif -%}
"""
MISTRAL_TOOLS = """{%- set system = namespace(text='', n=0) -%}
{{- bos_token }}
{%- for message in messages -%}
    {%- if message['role'] == 'system' and loop.first -%}
        [SYSTEM_PROMPT]{{ message['content'] }}[/SYSTEM_PROMPT]
        {%- continue -%}
    {%- endif -%}
    {%- if message['role'] == 'user' -%}
        {%- if tools and messages[loop.index0:] | selectattr('role', 'eq', 'user') | list | length == 1 -%}
            [AVAILABLE_TOOLS]{{ tools | tojson }}[/AVAILABLE_TOOLS]
        {%- endif -%}
        [INST]
        {%- if message['content'] is string -%}{{ message['content'] }}
        {%- else -%}
            {%- for block in message['content'] if block['type'] in ('text', 'input_text') -%}{{ block['text'] }}{%- endfor -%}
        {%- endif -%}
        [/INST]
    {%- elif message['role'] == 'assistant' -%}
        {%- if message['tool_calls'] is defined and message['tool_calls'] is not none and message['tool_calls']|length > 0 -%}
            {%- for call in message['tool_calls'] -%}
                {%- if call['id'] is not defined or call['id']|length != 9 -%}
                    {{ raise_exception('Tool call ids should have 9 characters, not ' ~ call['id']|length) }}
                {%- endif -%}
                {%- set arguments = call['function']['arguments'] if call['function']['arguments'] is string else call['function']['arguments'] | tojson -%}
                [TOOL_CALLS]{{ call['function']['name'] }}[ARGS]{{ arguments }}
            {%- endfor -%}
        {%- else -%}{{ message['content'] | trim }}{%- endif -%}
        {{ eos_token }}
    {%- elif message['role'] == 'tool' -%}
        [TOOL_RESULTS]{"content": {{ message['content'] | string | tojson }}, "call_id": "{{ message['tool_call_id'] }}"}[/TOOL_RESULTS]
    {%- else -%}{{ raise_exception('Only user, assistant, tool and a first system message: ' + message['role']) }}{%- endif -%}
{%- endfor -%}"""
SMALL_STYLE = """{#- default variables -#}
{%- if not enable_thinking is defined %}{% set enable_thinking = true %}{% endif -%}
{%- set mode = '/think' if enable_thinking else '/no_think' -%}
{%- if messages[0].role == 'system' -%}
  {%- set given = messages[0].content -%}
  {%- if '/no_think' in given %}{% set mode = '/no_think' %}{% elif '/think' in given %}{% set mode = '/think' %}{% endif -%}
  {%- set given = given.replace('/no_think', '').replace('/think', '').rstrip() -%}
{%- endif -%}
<|im_start|>system
## Metadata

Mode: {{ mode }}

{% if given is defined and given | length %}
## Instructions

{{ given | trim }}

{% endif %}
{%- if xml_tools or tools -%}
### Tools
{%- for tool in (xml_tools or tools) %}

{{ loop.index }}. {{ tool.function.name | upper }} {{ tool | string }}
{%- endfor %}

{% endif -%}
<|im_end|>
{% for message in messages %}
    {%- set content = message.content if message.content is string else '' -%}
    {%- if message.role == 'user' -%}
        {{ '<|im_start|>' ~ message.role ~ '\\n' ~ content ~ '<|im_end|>\\n' }}
    {%- elif message.role == 'assistant' -%}
        {% generation %}
        {%- if mode == '/think' -%}
            {{ '<|im_start|>assistant\\n' ~ content.lstrip('\\n') ~ '<|im_end|>\\n' }}
        {%- else -%}
            {{ '<|im_start|>assistant\\n<think>\\n\\n</think>\\n' ~ content.lstrip('\\n') ~ '<|im_end|>\\n' }}
        {%- endif -%}
        {% endgeneration %}
    {%- elif message.role == 'tool' -%}
        {{ '<|im_start|>user\\n' ~ content ~ '<|im_end|>\\n' }}
    {%- endif -%}
{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' + ('' if mode == '/think' else '<think>\\n\\n</think>\\n') }}{% endif %}"""
FAMILIES += [
    ("hermes-tools", "<s>", "<|im_end|>", HERMES_TOOLS), ("thinking", "", "<|user|>", THINKING),
    ("documents", "<s>", "<|end_of_text|>", DOCUMENTS), ("channels", "", "<|return|>", CHANNELS),
    ("dates", "<s>", "</s>", "{{ bos_token }}Today is {{ datetime }}, {{ date_string }}.{{ messages[0].content }}"),
    ("mistral-tools", "<s>", "</s>", MISTRAL_TOOLS), ("modes", "", "<|im_end|>", SMALL_STYLE),
]


def render(template, bos, eos, messages, given):
    special = {name: text for name, text in (("bos_token", bos), ("eos_token", eos)) if text}
    try:
        return chat_jinja.render(template, messages, **{**special, **chat_jinja.DATES, **given})
    except Exception:  # the template refuses
        return None


def conversation(name, messages, given):
    """JSON texts as a request brings them; numbers stay as they are written."""
    given = dict(given)
    out = {"name": name, "messages": json.dumps(messages, ensure_ascii=False),
           "prompt": given.pop("add_generation_prompt", True)}
    for key in ("tools", "documents"):
        if key in given:
            out[key] = json.dumps(given.pop(key), ensure_ascii=False)
    if given:
        out["variables"] = json.dumps(given)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT.json", help="tests/core/golden/chat_templates.json")
    args = parser.parse_args()
    cases = chat_conversations.CASES
    templates = [{"family": family, "bos": bos, "eos": eos, "template": template,
                  "texts": [render(template, bos, eos, messages, given) for _, messages, given in cases]}
                 for family, bos, eos, template in FAMILIES]
    with open(args.out, "w") as file:
        json.dump({"now": int(chat_jinja.NOW.timestamp()), "conversations": [conversation(*case) for case in cases],
                   "templates": templates}, file, indent=1)
        file.write("\n")
    texts = [text for template in templates for text in template["texts"]]
    print(len(texts), "cases,", texts.count(None), "refused")


main()
