"""Writes the small well-formed files that fuzzing starts from: tests/fuzz/corpus and the dictionaries."""
import json
import pathlib
import re
import struct

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parent / "core" / "golden"


def put(name, file, data):
    folder = HERE / "corpus" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_bytes(data)


def safetensors(tensors, metadata={"format": "pt"}):
    header, data = {}, b""
    for name, dtype, shape, size in tensors:  # or its bytes
        held = size if isinstance(size, bytes) else bytes(range(size % 256)) if size < 256 else bytes(size)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(held)]}
        data += held
    text = json.dumps({"__metadata__": metadata, **header}).encode()
    return struct.pack("<Q", len(text)) + text + data


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_model():
    def u32(key, n):
        return string(key) + struct.pack("<II", 4, n)

    def f32(key, x):
        return string(key) + struct.pack("<If", 6, x)

    def text(key, value):
        return string(key) + struct.pack("<I", 8) + string(value)

    def array(key, kind, values):
        body = b"".join(string(v) if kind == 8 else struct.pack("<f" if kind == 6 else "<i", v) for v in values)
        return string(key) + struct.pack("<IIQ", 9, kind, len(values)) + body

    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(4)] + ["\u2581", "a", "b", "ab", "\u2581a"]
    values = [text("general.architecture", "llama"), u32("general.alignment", 32), u32("llama.block_count", 1),
              u32("llama.context_length", 32), u32("llama.embedding_length", 4), u32("llama.feed_forward_length", 6),
              u32("llama.attention.head_count", 2), u32("llama.attention.head_count_kv", 1),
              f32("llama.attention.layer_norm_rms_epsilon", 1e-5), u32("llama.rope.dimension_count", 2),
              text("tokenizer.ggml.model", "llama"), array("tokenizer.ggml.tokens", 8, pieces),
              array("tokenizer.ggml.scores", 6, [-float(i) for i in range(len(pieces))]),
              array("tokenizer.ggml.token_type", 5, [2, 3, 3, 6, 6, 6, 6, 1, 1, 1, 1, 1]),
              u32("tokenizer.ggml.bos_token_id", 1), u32("tokenizer.ggml.eos_token_id", 2),
              string("tokenizer.ggml.add_bos_token") + struct.pack("<IB", 7, 1)]
    shapes = {"token_embd": (4, 12), "output_norm": (4,), "blk.0.attn_norm": (4,), "blk.0.ffn_norm": (4,),
              "blk.0.attn_q": (4, 4), "blk.0.attn_k": (4, 2), "blk.0.attn_v": (4, 2), "blk.0.attn_output": (4, 4),
              "blk.0.ffn_gate": (4, 6), "blk.0.ffn_up": (4, 6), "blk.0.ffn_down": (6, 4)}
    infos, offset = b"", 0
    for name, dims in shapes.items():
        kind, size = (0, 4) if len(dims) == 1 else (1, 2)
        for dim in dims:
            size *= dim
        infos += string(name + ".weight") + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims) + \
            struct.pack("<IQ", kind, offset)
        offset += (size + 31) // 32 * 32
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(values)) + b"".join(values) + infos
    return head + bytes(-len(head) % 32) + bytes(offset)


def header_of(path):
    data = path.read_bytes()
    return json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])


def folders():
    """Each is one document: its files' texts, and the headers of its weights (fuzz_folder.c)."""
    small = json.loads((HERE / "corpus" / "tokenizer_json" / "byte_level").read_text().split("\n%%\n")[0])
    for name in ("llama-llama3-f16", "gemma2-f32", "qwen3-moe-mixed-bf16", "gpt-oss-mxfp4", "qwen2-fp8-blocks", "llama-gptq"):
        files = {file: json.loads((GOLDEN / name / file).read_text()) for file in ("config.json", "generation_config.json")
                 if (GOLDEN / name / file).exists()}
        files |= {"tokenizer.json": small, "tokenizer_config.json": {"bos_token": "<|end|>", "chat_template": "{{ messages }}"}}
        header = header_of(GOLDEN / name / "model.safetensors")
        put("folder", name, json.dumps({**files, "model.safetensors": header}, separators=(",", ":")).encode())
        if name == "llama-llama3-f16":  # the same in two files with an index
            names = [n for n in header if n != "__metadata__"]
            shard, files_of, at = {"a.safetensors": {}, "b.safetensors": {}}, {}, {"a.safetensors": 0, "b.safetensors": 0}
            for i, n in enumerate(names):
                file = "ab"[i % 2] + ".safetensors"
                bytes_ = header[n]["data_offsets"][1] - header[n]["data_offsets"][0]
                shard[file][n] = {**header[n], "data_offsets": [at[file], at[file] + bytes_]}
                at[file] += bytes_
                files_of[n] = file
            files["model.safetensors.index.json"] = {"metadata": {"total_size": sum(at.values())}, "weight_map": files_of}
            put("folder", "two-files", json.dumps({**files, **shard}, separators=(",", ":")).encode())


def requests():
    """Requests of every kind that is read (fuzz_request.c)."""
    schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}, "b": {"enum": ["x", None]}},
              "required": ["a"], "additionalProperties": False}
    function = {"name": "f", "description": "d", "parameters": schema, "strict": True}
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}
    some = {
        "chat-tools": {"messages": [{"role": "system", "content": [{"type": "text", "text": "s"}]}, {"role": "user", "content": "u"},
                                    {"role": "assistant", "content": None, "reasoning_content": "r", "tool_calls": [call]},
                                    {"role": "tool", "tool_call_id": "c1", "content": "1"}],
                       "tools": [{"type": "function", "function": function}], "parallel_tool_calls": False,
                       "tool_choice": {"type": "function", "function": {"name": "f"}}, "logprobs": True, "top_logprobs": 2},
        "chat-schema": {"messages": [{"role": "user", "content": [{"type": "text", "text": "u"}, picture]}], "n": 2, "stop": ["\n"],
                        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": schema}},
                        "stream": True, "stream_options": {"include_usage": True}, "metadata": {"task": "t"}},
        "responses": {"instructions": "i", "input": [{"role": "user", "content": [{"type": "input_text", "text": "u"}]},
                                                     {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "s"}]},
                                                     {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
                                                     {"type": "function_call_output", "call_id": "c1", "output": "o"}],
                      "tools": [{"type": "function", **function}], "text": {"format": {"type": "json_schema", "name": "n", "schema": schema}},
                      "max_output_tokens": 8, "reasoning": {"effort": "low"}, "include": ["message.output_text.logprobs"], "store": False},
        "messages": {"max_tokens": 8, "system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}],
                     "messages": [{"role": "user", "content": "u"},
                                  {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": ""},
                                                                    {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}]},
                                  {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "1"}]}]}],
                     "tools": [{"name": "f", "input_schema": schema}], "tool_choice": {"type": "any"}, "stop_sequences": ["x"],
                     "thinking": {"type": "enabled", "budget_tokens": 1024}},
        "guided": {"prompt": [1, 2, 3], "guided_json": schema, "guided_regex": "a+", "guided_choice": ["a", "b"], "logit_bias": {"5": -1},
                   "grammar": 'root ::= "a"', "logprobs": 3, "suffix": "s", "best_of": 1, "min_tokens": 1, "repetition_penalty": 1.1},
        "ollama": {"model": "m", "messages": [{"role": "user", "content": "u", "images": ["iVBO"]}], "prompt": "p", "input": ["a"],
                   "format": schema, "options": {"num_predict": 4, "stop": ["x"], "temperature": 0}, "tools": [{"type": "function", "function": function}],
                   "think": "low", "keep_alive": "5m", "raw": False},
    }
    for name, body in some.items():
        put("request", name, json.dumps(body, separators=(",", ":")).encode())


def main():
    grammars()
    folders()
    requests()
    put("safetensors", "two", safetensors([("a", "F32", [2, 3], 24), ("b", "BF16", [4], 8)]))
    put("safetensors", "idle", safetensors([("x.rotary_emb.inv_freq", "F32", [1], 4), ("n", "I64", [], 8)]))
    put("safetensors", "fp8", safetensors([("a.weight", "F8_E4M3", [4, 4], 16), ("a.weight_scale_inv", "F32", [2, 2], 16),
                                           ("b.weight", "F8_E4M3", [2, 3], 6), ("b.weight_scale", "BF16", [2, 1], 4),
                                           ("n", "F64", [2], 16)]))
    put("gguf", "model", gguf_model())
    packed()
    for name in ("llama-llama3-f16", "llama-yarn-mscale-f16", "phi3-longrope-long-bf16", "gemma2-f32",
                 "qwen2-window-bf16", "mistral-window-f16", "gemma3-old-bf16", "olmo3-yarn-f16", "qwen3-moe-mixed-bf16",
                 "mixtral-f16", "granite-f32", "smollm3-window-bf16", "exaone4-full-f16", "glm4-bf16", "ministral3-bf16",
                 "stablelm-biases-f16", "seed-oss-f32", "mistral3-nested-f16", "qwen2-fp8-blocks", "gpt-oss-mxfp4",
                 "llama-gptq", "llama-awq"):
        put("config", name, (GOLDEN / name / "config.json").read_bytes())
    words = sorted({key for f in (HERE / "corpus" / "config").iterdir() for key in json.loads(f.read_text())} |
                   {"rope_scaling", "rope_type", "type", "yarn", "longrope", "linear", "dynamic", "truncate", "mscale"})
    (HERE / "config.dict").write_text("".join(f'"\\"{w}\\""\n' for w in words))
    (HERE / "safetensors.dict").write_text("".join(f'"\\"{w}\\""\n' for w in (
        "dtype", "shape", "data_offsets", "F32", "F16", "BF16", "I64", "F64", "F8_E4M3", "__metadata__")))
    (HERE / "gguf.dict").write_text("".join(f'"{w}"\n' for w in (
        "general.alignment", "split.count", "split.no", "llama.", "qwen2", "gemma2", "phi3", "tokenizer.ggml.",
        "rope.scaling.type", "granite", "gemma3", "qwen3moe", "olmo2", "expert_count", "expert_used_count",
        "attention.sliding_window", "ffn_gate_exps.weight", "rope_freqs.weight", "output.weight", "GGUF")))
    streams()
    calls()


def grammars():
    put("grammar", "object", b'1{"type":"object","properties":{"a":{"type":"integer","minimum":-3},"b":{"$ref":"#"}},"required":["a"]}')
    put("grammar", "choices", b'1{"anyOf":[{"enum":["x",1]},{"type":"array","items":{"type":"string","maxLength":3},"maxItems":2}]}')
    put("grammar", "expression", b"0(a|[^b-d]{2,3})+\\d?\\u00e9$")


def words(name, keys, plain=()):
    """A dictionary: JSON's keys and values in their quotes, what is plain as it is."""
    texts = [f'"{key}"'.encode() for key in keys] + [w.encode() if isinstance(w, str) else w for w in plain]
    (HERE / f"{name}.dict").write_text("".join(
        '"' + "".join(f"\\x{b:02x}" if b in b'"\\' or not 32 <= b < 127 else chr(b) for b in text) + '"\n' for text in texts))


def streams():
    mask = {"format": "swiftlet-mask-1", "model": "builtin", "fingerprint": "0123", "blocks": 20, "task": "math",
            "attention": [1, 3, 17], "mlp": [2, 18], "matchness": 0.91, "alpha": 0.95, "M": 2.2, "skip_ratio": 0.14,
            "tokens_served": 4096}
    put("mask_file", "one", json.dumps(mask).encode())
    put("mask_file", "several", json.dumps([mask, {**mask, "task": None, "matchness": None, "mlp": []}]).encode())
    thirds = [0.5, 0.25, 1]
    put("mask_file", "levels", json.dumps({**mask, "format": "swiftlet-mask-2", "levels": {
        "attention": thirds, "attention_output": thirds, "mlp": thirds, "down": thirds}}).encode())
    put("mask_file", "skip_layers", json.dumps({"builtin_math": {"attention": [1, 3], "mlp": [2]},
                                                "builtin_code": {"attention": [], "mlp": [4, 5]}}).encode())
    words("mask_file", [*mask, "swiftlet-mask-1", "swiftlet-mask-2", "levels", "attention_output", "down", "builtin_math"], ["null", "1e3", "-1", "4294967296", "[]", "{}", "\\u0000"])
    put("stream_line", "prompt", b'{"id": 7, "task": "math", "prompt": "1 + 1 =", "max_tokens": 4}\n')
    put("stream_line", "messages", json.dumps({"id": "a", "messages": [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "\u00e9"},
        {"role": "assistant", "content": "yes"}, {"role": "user", "content": ""}]}).encode())
    put("stream_line", "tools", json.dumps({"messages": [
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": json.dumps({"a": 1.0})}}]},
        {"role": "tool", "tool_call_id": "1", "content": "x"}], "tools": [{"type": "function", "function": {"name": "f"}}],
        "documents": [{"title": "t"}], "chat_template_kwargs": {"enable_thinking": False}}).encode())
    put("stream_line", "nested-id", b'{"id": [1, {"a": [null, true, 1.5e-3]}], "prompt": "\\ud83d\\ude00"}')
    words("stream_line", ["id", "task", "prompt", "messages", "max_tokens", "role", "content", "user", "assistant", "system",
                          "tool", "tools", "documents", "chat_template_kwargs", "tool_calls", "function", "arguments", "text", "type"],
          ["null", "1e3", "-1", "4294967296", "\\u0000", "\\ud800", "\\udc00"])
    put("head", "get", b"GET /v1/models HTTP/1.1\r\nHost: localhost:8080\r\nAccept: */*\r\n\r\n")
    put("head", "post", b"\r\nPOST / HTTP/1.0\nHost: a\nContent-Length: 12\nTransfer-Encoding: chunked\n\n{}")
    words("head", [], ["HTTP/1.", "\r\n", "\r\n\r\n", "Host: ", "Content-Length: ", "Transfer-Encoding: chunked", ": "])
    words("request", ["model", "prompt", "messages", "role", "content", "user", "assistant", "system", "developer", "max_tokens",
                      "max_completion_tokens", "temperature", "top_p", "top_k", "min_p", "n", "best_of", "stop", "stream",
                      "stream_options", "include_usage", "seed", "logprobs", "top_logprobs", "logit_bias", "echo", "suffix",
                      "presence_penalty", "frequency_penalty", "tools", "tool_choice", "none", "auto", "response_format",
                      "type", "text", "user", "metadata", "tool", "documents", "chat_template_kwargs", "tool_calls", "function", "arguments", "store", "service_tier", "parallel_tool_calls", "modalities", "input", "instructions", "input_text", "function_call", "function_call_output", "call_id", "output", "text", "format", "system", "tool_use", "tool_result", "tool_use_id", "input_schema", "stop_sequences", "strict", "grammar", "stop_token_ids"],
          ["null", "true", "1e3", "-1", "4294967296", "[[1,2],[3]]", "\\u0000", "\\ud800"])
    for i, one in enumerate(json.loads((GOLDEN / "chat_templates.json").read_text())["templates"]):
        put("jinja", f"{i:02}-{one['family']}", one["template"].encode() + b"\n%%\n{}")
    given = json.loads((GOLDEN / "jinja_cases.json").read_text())
    for i in range(0, len(given["cases"]), 4):
        source = "\n".join(case["template"] for case in given["cases"][i:i + 4] if "text" in case)
        put("jinja", f"case-{i:03}", f"{source}\n%%\n{given['variables']}".encode())
    words("jinja", [], ["\n%%\n",
        "{%", "%}", "{{", "}}", "{#", "#}", "{%-", "-%}", "{%+", "-}}", "{%- for ", " in ", " if ", "else", "elif", "endif", "endfor",
        "set ", "endset", "macro ", "endmacro", "call", "endcall", "filter ", "endfilter", "raw", "endraw", "with ", "endwith",
        "generation", "endgeneration", "break", "continue", "recursive", " is ", " not ", " and ", " or ", "none", "true", "false",
        "namespace(", "range(", "dict(", "raise_exception(", "strftime_now(", "loop.", "previtem", "nextitem", "cycle(", "changed(",
        "messages", "content", "role", "bos_token", "tool_calls", "function", "arguments", "kwargs", "varargs", "caller()",
        "|tojson", "(indent=2)", "|trim", "|length", "|join(", "|upper", "|title", "|replace(", "|default(", "|first", "|last",
        "|list", "|map(", "attribute=", "|selectattr(", "|rejectattr(", "|items", "|dictsort", "|string", "|int", "|float", "|abs",
        "|round(", "|safe", "|e", "|indent(", "|unique", "|sort", "|reverse", "|sum", "|min", "|max", "|batch(", "|truncate(",
        "|format(", ".split(", ".rsplit(", ".strip(", ".replace(", ".startswith(", ".find(", ".join(", ".format(", ".splitlines()",
        ".partition(", ".center(", ".zfill(", ".get(", ".items()", ".keys()", "[::-1]", "[1:]", "**", "//", "~", "%s", "{:>9}"])
    # A piece; its text, score and type; fields of trainer_spec and normalizer_spec.
    words("tokenizer_sentencepiece", [], [
        b"\x0a\x0a", b"\x0a\x03\xe2\x96\x81", b"\x0a\x06<0x0A>", b"\x15\x00\x00\x80\xbf", b"\x18\x02", b"\x18\x04", b"\x18\x06",
        b"\x12\x02\x18\x01", b"\x12\x02\x18\x02", b"\x98\x02\x01", b"\x1a\x02\x18\x00", b"\x20\x00", b"\xff" * 9 + b"\x01",
        "<unk>", "</s>"])


def calls():
    """Answers that call tools, in every format. The bytes before them: nothing is bound, and no special token stands in it."""
    tags = "<parameter=s>\nx\n</parameter>\n<parameter=n>\n1\n</parameter>\n"
    named = '<parameter name="s">x</parameter>\n<parameter name="n">1</parameter>\n'
    mark, bar, line = "]<]minimax[>[", "\uff5c", "\u2581"
    call = '{"name": "put", "arguments": {"s": "x", "l": ["1", 2]}}'
    answers = {
        "hermes": f"Yes.\n<tool_call>\n{call}\n</tool_call>\n<tool_call>{{\"name\": \"now\"}}</tool_call>",
        "strict": '<tool_call>{"name": "strict", "arguments": {"n": 1, "s": "x"}}</tool_call>',
        "bare": '{"name": "put", "parameters": {"s": "x"}}; {"name": "now", "parameters": {}}',
        "python-tag": f"<|python_tag|>{call}",
        "fence": f"So:\n```json\n{call}\n```\n",
        "tools": f"<tools>\n{call}\n</tools>",
        "mistral": f"[TOOL_CALLS] [{call}, {call}]",
        "mistral-named": '[TOOL_CALLS]put[CALL_ID]123456789[ARGS]{"s": "x"}[TOOL_CALLS]now[ARGS]{}',
        "functions": '<function=put>{"s": "x"}</function><function=now>{}</function>',
        "functools": f"functools[{call}]",
        "granite": f"<|tool_call|>[{call}]<|/tool_call|>",
        "command": '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "put", "parameters": {"s": "x"}}\n]<|END_ACTION|>',
        "kimi": '<|tool_calls_section_begin|><|tool_call_begin|>functions.put:0<|tool_call_argument_begin|>{"s": "x"}'
                "<|tool_call_end|><|tool_calls_section_end|>",
        "lfm": "<|tool_call_start|>[put(s='x', l=[True, None, (1, 2)], o={'l': []}), now()]<|tool_call_end|>",
        "lfm-object": "<|tool_call_start|>[put(**{'s': 'x', 'l': [1]}), now(**{})]<|tool_call_end|>",
        "qwen-coder": f"<tool_call>\n<function=put>\n{tags}</function>\n</tool_call>",
        "glm": "<tool_call>put\n<arg_key>s</arg_key>\n<arg_value>x</arg_value>\n</tool_call>",
        "minimax": f'<minimax:tool_call>\n<invoke name="put">\n{named}</invoke>\n</minimax:tool_call>',
        "seed": f"<seed:think>a</seed:think><seed:tool_call>\n<function=put>\n{tags}</function>\n</seed:tool_call>",
        "minimax-m3": f'{mark}<tool_call>\n{mark}<invoke name="put">{mark}<o>{mark}<l>{mark}<item>1{mark}</item>{mark}</l>'
                      f"{mark}</o>{mark}</invoke>\n{mark}</tool_call>",
        "deepseek": f"<{bar}tool{line}calls{line}begin{bar}><{bar}tool{line}call{line}begin{bar}>function<{bar}tool{line}sep{bar}>"
                    f'put\n```json\n{{"s": "x"}}\n```<{bar}tool{line}call{line}end{bar}><{bar}tool{line}calls{line}end{bar}>',
        "dsml": f'<{bar}DSML{bar}function_calls>\n<{bar}DSML{bar}invoke name="put">\n<{bar}DSML{bar}parameter name="s" '
                f'string="true">x</{bar}DSML{bar}parameter>\n</{bar}DSML{bar}invoke>\n</{bar}DSML{bar}function_calls>',
        "channels": "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary to=functions.put "
                    '<|constrain|>json<|message|>{"s": "x"}<|call|>',
        "thinking": f"<think>a</think>\n\n<tool_call>\n{call}\n</tool_call>"}
    styles = {"channels": 1, "thinking": 2, "seed": 3}
    for name, answer in answers.items():
        put("tool_calls", name, bytes([styles.get(name, 0) + 24, 0, 255, 0]) + answer.encode())
    marks = {m for answer in answers.values() for m in re.findall(r"</?[^<>{}\s]+>|\[[A-Z_]+\]|]<]minimax\[>\[", answer)}
    words("tool_calls", [], sorted(marks) + [
        "<function=", "<parameter=", '<parameter name=\"', '<invoke name=\"', '\">', "functools[", "```json", "```\n", "[CALL_ID]",
        "put", "now", "strict", "functions.put:0", f'<{bar}DSML{bar}invoke name=\"', f'<{bar}DSML{bar}parameter name=\"',
        '\" string=\"true\">', "to=functions.put", "\"name\": \"put\"", "\"arguments\": {", "\"function\": {", "s=", "'", "(", "**{",
        "True", "None", "\\u0000", "\\x41"])


def packed():
    # The first byte states how: 1 GPTQ, 2 AWQ; 8 groups of 8, 16 of 32; 32 zeros less one; 64 experts.
    put("repack", "gptq", b"\x31" + safetensors([("a.qweight", "I32", [8, 8], 256), ("a.qzeros", "I32", [2, 1], 8),
                                                  ("a.scales", "F16", [2, 8], 32), ("a.g_idx", "I32", [64], 256),
                                                  ("a.bias", "F16", [8], 16)]))
    put("repack", "gptq-eights", b"\x09" + safetensors([("a.qweight", "I32", [2, 8], 64), ("a.qzeros", "I32", [2, 1], 8),
                                                         ("a.scales", "F16", [2, 8], 32)]))
    put("repack", "awq", b"\x12" + safetensors([("a.qweight", "I32", [32, 1], 128), ("a.qzeros", "I32", [1, 1], 4),
                                                 ("a.scales", "F16", [1, 8], 16)]))
    put("repack", "mxfp4", b"\x40" + safetensors([
        ("x.experts.gate_up_proj_blocks", "U8", [2, 4, 1, 16], 128), ("x.experts.gate_up_proj_scales", "U8", [2, 4, 1], 8),
        ("x.experts.gate_up_proj_bias", "F32", [2, 4], 32), ("x.experts.down_proj_blocks", "U8", [2, 3, 1, 16], 96),
        ("x.experts.down_proj_scales", "U8", [2, 3, 1], 6)]))
    put("repack", "experts", b"\x40" + safetensors([("x.experts.gate_up_proj", "F16", [2, 3, 4], 48),
                                                     ("x.experts.down_proj", "BF16", [2, 2, 3], 24)]))
    put("repack", "fp8", b"\x80" + safetensors([("a.weight", "F8_E4M3", [4, 32], 128), ("a.weight_scale_inv", "F32", [2, 1], 8)]))
    state = json.dumps({"quant_type": "nf4", "blocksize": 64, "dtype": "float32", "shape": [4, 32]}).encode()
    nested = json.dumps({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [4, 32],
                         "nested_blocksize": 2, "nested_offset": 0.5, "nested_dtype": "float32"}).encode()
    put("repack", "nf4", b"\x00" + safetensors([
        ("a.weight", "U8", [64, 1], 64), ("a.weight.absmax", "F32", [2], bytes(8)), ("a.weight.quant_map", "F32", [16], bytes(64)),
        ("a.weight.quant_state.bitsandbytes__nf4", "U8", [len(state)], state)]))
    put("repack", "nf4-double", b"\x00" + safetensors([
        ("a.weight", "U8", [64, 1], 64), ("a.weight.absmax", "U8", [2], 2), ("a.weight.quant_map", "F32", [16], bytes(64)),
        ("a.weight.nested_absmax", "F32", [1], bytes(4)), ("a.weight.nested_quant_map", "F32", [256], bytes(1024)),
        ("a.weight.quant_state.bitsandbytes__fp4", "U8", [len(nested)], nested)]))
    words("repack", ["dtype", "shape", "data_offsets", "I32", "U8", "F16", "F32", "BF16", "F8_E4M3"],
          [".qweight", ".qzeros", ".scales", ".g_idx", ".bias", ".experts.gate_up_proj", ".experts.down_proj", "_blocks",
           "_scales", "_bias", ".weight_scale_inv", ".absmax", ".quant_map", ".nested_absmax", "blocksize"])
    put("tokenizer_tekken", "small", json.dumps({
        "config": {"pattern": "\\p{L}+|\\s+(?!\\S)|.", "default_vocab_size": 12, "default_num_special_tokens": 4},
        "vocab": [{"rank": i, "token_bytes": t} for i, t in enumerate(["YQ==", "Yg==", "YWI=", "IA==", "Y2E=", "/w=="])],
        "special_tokens": [{"rank": 1, "token_str": "<s>", "is_control": True}]}).encode())
    put("blocks", "zeros", bytes(256))
    put("blocks", "ones", b"\xff" * 256)


if __name__ == "__main__":
    main()
