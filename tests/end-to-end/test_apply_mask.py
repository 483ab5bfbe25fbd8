"""tools/apply_mask.py leaves out of a transformers model what the mask names: its logits are those of a model from which
the sub-layers were cut by hand. Skipped without transformers and torch (SWIFTLET_PYTHON names a Python with them)."""
import os, subprocess, sys

from service import SOURCE, skip

if os.environ.get("SWIFTLET_APPLY_MASK") is None:
    for python in (os.environ.get("SWIFTLET_PYTHON"), sys.executable):
        if python and subprocess.run([python, "-c", "import torch, transformers"], capture_output=True).returncode == 0:
            sys.exit(subprocess.run([python, os.path.abspath(__file__)], env={**os.environ, "SWIFTLET_APPLY_MASK": "1"}).returncode)
    skip("no Python with torch and transformers; set SWIFTLET_PYTHON to one")

import torch
from transformers import LlamaConfig, LlamaForCausalLM

sys.path.insert(0, os.path.join(SOURCE, "tools"))
from apply_mask import masked, matchness, read_mask

torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=6, num_attention_heads=4,
                                     num_key_value_heads=2)).eval()
ids = torch.randint(0, 64, (1, 20))
mask = {"attention": [1, 3], "mlp": [2, 3]}
with torch.no_grad():
    full = model(ids).logits
    with masked(model, mask):
        got = model(ids).logits
    assert torch.equal(model(ids).logits, full), "the full model is back"
    # by hand: a sub-layer's last projection of zeros adds nothing
    for b in mask["attention"]:
        model.model.layers[b].self_attn.o_proj.weight.zero_()
    for b in mask["mlp"]:
        model.model.layers[b].mlp.down_proj.weight.zero_()
    want = model(ids).logits
assert torch.allclose(got, want, atol=1e-6) and not torch.allclose(got, full, atol=1e-3)
assert matchness(model, torch.cat([ids[0], want[0, -1].argmax()[None]]), 20, {"attention": [], "mlp": []}) == 1
assert read_mask({"llama_math": mask}) == mask and read_mask([{"task": "a", **mask}, {"task": "b", **mask}], "b") == mask
for bad in ({"attention": [0], "mlp": []}, {"attention": [], "mlp": [5]}, {"attention": [99], "mlp": []}):
    try:
        with masked(model, bad):
            raise AssertionError(bad)
    except ValueError:
        pass
print("a masked transformers model is the model without those sub-layers")
