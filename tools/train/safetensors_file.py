"""safetensors, read and written with torch alone: an 8-byte length, a JSON header (name -> type, shape, offsets, and
`__metadata__`: strings), then the tensors' bytes. Debian's torch comes without the safetensors package."""
import json
import struct

import torch

TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
NAMES = {dtype: name for name, dtype in TYPES.items()}


def read(path):
    """(tensors by name, as stored; the metadata's strings)."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        if entry["dtype"] not in TYPES:
            raise ValueError("%s: %s is of type %s; this reads %s" % (path, name, entry["dtype"], ", ".join(TYPES)))
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(data[8 + length + begin:8 + length + end], dtype=TYPES[entry["dtype"]])
        tensors[name] = flat.reshape(entry["shape"])
    return tensors, metadata


def write(path, tensors, metadata, dtype=torch.float16):
    """Every tensor as `dtype`; metadata holds strings."""
    header, blobs, at = {"__metadata__": metadata}, [], 0
    for name in sorted(tensors):
        tensor = tensors[name].detach().to(dtype).contiguous()
        blob = tensor.view(torch.int16 if tensor.element_size() == 2 else torch.int32).numpy().tobytes()
        header[name] = {"dtype": NAMES[dtype], "shape": list(tensor.shape), "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))
