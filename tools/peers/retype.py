#!/usr/bin/env python3
"""A GGUF file's matrices in another type: retype.py SOURCE DESTINATION bf16|f16|q8_0

For measuring what a model does in the type that its Hugging Face folder has, where only a quantized file is at hand.
The values are the quantized ones, so that answers are that file's (but for rounding), and a copy in few bits may be
nearer to them than it would be to the original. Needs the packages gguf and numpy.
"""
import sys

import gguf
import numpy as np

TYPES = {"bf16": gguf.GGMLQuantizationType.BF16, "f16": gguf.GGMLQuantizationType.F16, "q8_0": gguf.GGMLQuantizationType.Q8_0}


def copy_fields(reader, writer):
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        kind = field.types[0]
        more = {"sub_type": field.types[-1]} if kind == gguf.GGUFValueType.ARRAY else {}
        writer.add_key_value(name, field.contents(), kind, **more)


def copy_tensors(reader, writer, kind):
    for tensor in reader.tensors:
        shape = [int(n) for n in reversed(tensor.shape)]
        values = gguf.dequantize(tensor.data, tensor.tensor_type).reshape(shape).astype(np.float32)
        if values.ndim == 1:
            writer.add_tensor(tensor.name, values)
        else:
            writer.add_tensor(tensor.name, gguf.quantize(values, kind), raw_dtype=kind)


def main():
    if len(sys.argv) != 4 or sys.argv[3] not in TYPES:
        sys.exit(__doc__)
    reader = gguf.GGUFReader(sys.argv[1])
    writer = gguf.GGUFWriter(sys.argv[2], reader.fields["general.architecture"].contents())
    copy_fields(reader, writer)
    copy_tensors(reader, writer, TYPES[sys.argv[3]])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
