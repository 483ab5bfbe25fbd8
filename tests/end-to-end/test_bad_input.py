#!/usr/bin/env python3
"""Promise 5 from outside: every broken file and prompt gets one clear message and its exit status."""
import json
import os
import shutil
import struct

from support import PROMPT, SOURCE, EndToEnd, main, run, write_lines

BUILTIN = os.path.join(SOURCE, "core", "builtin")
DEEP = b"[" * 1000000


class BadModel(EndToEnd):
    def model(self, **files):
        """A copy of the built-in model with these files replaced (None: left out)."""
        folder = self.path("model")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(BUILTIN, folder)
        for name, data in files.items():
            path = os.path.join(folder, name.replace("__", "."))
            if data is None:
                os.unlink(path)
            else:
                with open(path, "wb") as file:
                    file.write(data)
        return folder

    def refused(self, folder, *words):
        message = self.status(1, run("run", folder, "-p", PROMPT, "-n", "4"))
        self.assertEqual(message.count("\n"), 1, message)
        for word in words:
            self.assertIn(word, message)

    def config(self, **changes):
        with open(os.path.join(BUILTIN, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        for key, value in changes.items():
            if value is None:
                config.pop(key, None)
            else:
                config[key] = value
        return json.dumps(config).encode()

    def test_config(self):
        self.refused(self.model(config__json=None), "config.json")
        for data in [b"", b"{", b"not json", DEEP, b"[]", b"\xff\xfe"]:
            self.refused(self.model(config__json=data), "config.json")
        for changes in [{"num_hidden_layers": 21}, {"num_hidden_layers": 19}, {"num_hidden_layers": -1},
                        {"num_hidden_layers": 10 ** 12}, {"hidden_size": 127}, {"hidden_size": "128"},
                        {"vocab_size": 4097}, {"num_attention_heads": 0}, {"num_key_value_heads": 3},
                        {"intermediate_size": None}, {"model_type": "unheard-of"}, {"rope_scaling": {"type": "magic"}}]:
            with self.subTest(changes=changes):
                self.refused(self.model(config__json=self.config(**changes)))

    def test_safetensors(self):
        path = os.path.join(BUILTIN, "model.safetensors")
        with open(path, "rb") as file:
            data = file.read()
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + size])
        tensor = next(name for name in header if name != "__metadata__")

        def with_header(**changes):
            entry = dict(header[tensor], **changes)
            text = json.dumps({**header, tensor: entry}).encode()
            return struct.pack("<Q", len(text)) + text + data[8 + size:]

        begin, end = header[tensor]["data_offsets"]
        missing = json.dumps({name: value for name, value in header.items() if name != tensor}).encode()
        broken = {
            "missing": None, "empty": b"", "short": data[:7], "truncated": data[:len(data) // 2],
            "header past the end": struct.pack("<Q", 2 ** 63) + data[8:], "deep header": struct.pack("<Q", len(DEEP)) + DEEP,
            "not json": struct.pack("<Q", 4) + b"nope" + data[8:], "offsets reversed": with_header(data_offsets=[end, begin]),
            "offsets beyond": with_header(data_offsets=[begin, 2 ** 62]), "negative": with_header(data_offsets=[-1, end]),
            "shape": with_header(shape=[1, 2, 3]), "huge shape": with_header(shape=[2 ** 40, 2 ** 40]),
            "dtype": with_header(dtype="I64"),
            "tensor missing": struct.pack("<Q", len(missing)) + missing + data[8 + size:],
        }
        for name, content in broken.items():
            with self.subTest(file=name):
                self.refused(self.model(model__safetensors=content), "model.safetensors")

    def test_weights_that_are_not_finite(self):
        with open(os.path.join(BUILTIN, "model.safetensors"), "rb") as file:
            data = bytearray(file.read())
        size = struct.unpack("<Q", data[:8])[0]
        for at in range(8 + size, len(data) - 1, 2):  # F16 NaN everywhere
            data[at:at + 2] = b"\x00\x7e"
        self.refused(self.model(model__safetensors=bytes(data)), "finite")

    def test_tokenizer(self):
        for data in [b"", b"{", DEEP, b"{}", b"{\"model\": {\"type\": \"BPE\", \"vocab\": [], \"merges\": 3}}"]:
            self.refused(self.model(tokenizer__json=data), "tokenizer.json")
        self.refused(self.model(tokenizer__json=None, tokenizer__model=b"\x0a\xff\xff\xff\xff\x0f"), "tokenizer.model")
        self.refused(self.model(tokenizer__json=None, tokenizer__model=None), "tokenizer")

    def test_files_that_are_no_models(self):
        write_lines(self.path("text"), [b"hello"])
        for path in [self.path("text"), "/dev/null", self.folder, "synth:", "synth:nothing", "synth:layers=1e9",
                     "synth:layers=4,dim=64,heads=3,ffn=64,vocab=300", "no/such-model"]:
            with self.subTest(path=path):
                self.status(1, run("run", path, "-p", "a", "-n", "1"))


class BadPrompt(EndToEnd):
    def test_not_utf8(self):
        self.assertIn("UTF-8", self.status(1, run("run", "-f", "-", data=b"caf\xe9")))

    def test_longer_than_the_context(self):
        message = self.status(1, run("run", "-p", "word " * 5000, "-n", "4"))
        self.assertIn("context", message)
        self.assertIn("context", self.status(1, run("run", "-p", PROMPT, "--context", "8", "-n", "4")))

    def test_messages(self):
        self.assertIn("UTF-8", self.status(1, run("run", "--chat", "-f", "-", data=b"\xff")))


class BadMask(EndToEnd):
    def test_broken_mask_files(self):
        for content in [b"", b"{", DEEP, b"[]", b"{}", b"\xff", b"{\"k\": {\"attention\": [1e9], \"mlp\": []}}",
                        b"{\"format\": \"swiftlet-mask-2\", \"attention\": [], \"mlp\": []}"]:
            with open(self.path("mask"), "wb") as file:
                file.write(content)
            self.status(1, run("run", "-p", "a", "-n", "1", "--mask", self.path("mask")))
            self.status(1, run("masks", "show", self.path("mask")))


class BadStream(EndToEnd):
    def test_a_deep_line_and_a_binary_file(self):
        write_lines(self.path("in"), [DEEP, b"{\"id\":" * 100000, {"id": 1, "prompt": "a", "max_tokens": 1}])
        lines = self.stream("-i", self.path("in"))
        self.assertEqual([("error" in line) for line in lines], [True, True, False])
        self.stream("-i", os.path.join(BUILTIN, "tokenizer.model"), expected=1)
        self.status(1, run("stream", "-i", self.folder))
        self.status(1, run("stream", "-i", self.path("in"), "-o", "/nowhere/out"))


main()
