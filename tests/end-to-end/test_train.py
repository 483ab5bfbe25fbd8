"""tools/train: the losses' gradients are those of finite differences, the schedules are the papers', and each trainer
learns in a short run on a tiny model. Skipped without torch (SWIFTLET_PYTHON names a Python with it)."""
import argparse, json, math, os, subprocess, sys, tempfile

from service import SOURCE, skip

if os.environ.get("SWIFTLET_TRAIN") is None:
    for python in (os.environ.get("SWIFTLET_PYTHON"), sys.executable):
        if python and subprocess.run([python, "-c", "import torch"], capture_output=True).returncode == 0:
            sys.exit(subprocess.run([python, os.path.abspath(__file__)], env={**os.environ, "SWIFTLET_TRAIN": "1"}).returncode)
    skip("no Python with torch; set SWIFTLET_PYTHON to one")

import torch

sys.path.insert(0, os.path.join(SOURCE, "tools", "train"))
import kangaroo, llama, losses, safetensors_file, text

torch.set_num_threads(1)
CONFIG = {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2,
          "num_key_value_heads": 1, "head_dim": 8, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "rope_scaling": None,
          "tie_word_embeddings": True, "vocab_size": 32, "bos_token_id": 1, "eos_token_id": 2}


def tiny_model(dtype=torch.float32):
    generator = torch.Generator().manual_seed(3)
    shapes = {llama.EMBEDDING: (32, 16), llama.NORM: (16,)}
    for b in range(CONFIG["num_hidden_layers"]):
        block = {"input_layernorm": (16,), "post_attention_layernorm": (16,), "self_attn.q_proj": (16, 16),
                 "self_attn.k_proj": (8, 16), "self_attn.v_proj": (8, 16), "self_attn.o_proj": (16, 16),
                 "mlp.gate_proj": (24, 16), "mlp.up_proj": (24, 16), "mlp.down_proj": (16, 24)}
        shapes.update({"model.layers.%d.%s.weight" % (b, name): shape for name, shape in block.items()})
    weights = {}
    for name, shape in shapes.items():
        noise = torch.randn(shape, generator=generator, dtype=torch.float64)
        weights[name] = (1 + 0.1 * noise if len(shape) == 1 else noise / math.sqrt(shape[1]) * 1.5).to(dtype)
    return llama.Llama(CONFIG, weights)


def close(a, b, tolerance):
    assert abs(a - b) <= tolerance * max(1.0, abs(a), abs(b)), (a, b)


def check_gradient(name, parameters, loss):
    """d loss along a random direction, by autograd and by central differences, in float64."""
    for p in parameters:
        p.requires_grad_(True)
    gradients = torch.autograd.grad(loss(), parameters)
    generator = torch.Generator().manual_seed(5)
    directions = [torch.randn(p.shape, generator=generator, dtype=torch.float64) for p in parameters]
    slope = sum((g * d).sum() for g, d in zip(gradients, directions)).item()
    step, values = 1e-6, []
    with torch.no_grad():
        for sign in (1, -1):
            for p, d in zip(parameters, directions):
                p += sign * step * d
            values.append(loss().item())
            for p, d in zip(parameters, directions):
                p -= sign * step * d
    measured = (values[0] - values[1]) / (2 * step)
    assert abs(slope) > 1e-3, (name, slope)
    close(slope, measured, 1e-6)
    print("%s: slope %.6f, by differences %.6f" % (name, slope, measured))


def check_losses():
    model = tiny_model(torch.float64)
    generator = torch.Generator().manual_seed(7)
    tokens = torch.randint(3, 32, (3, 12), generator=generator)
    options = argparse.Namespace(p_max=0.5, dropout_curriculum="none", e_scale=0.7, schedule="rotational", dilation=2)
    loss = lambda: losses.layerskip(model, tokens, 1, 10, options, torch.Generator().manual_seed(11))
    check_gradient("layerskip", list(model.weights.values()), loss)
    for p in model.weights.values():
        p.requires_grad_(False)
    states = model.rows(model.embed(tokens), last=2)
    target = model.logits(model.rows(states, first=2))
    adapter = kangaroo.new_adapter(model, 2)
    check_gradient("kangaroo", list(adapter.values()), lambda: losses.kangaroo(model, adapter, states, target))
    weight = torch.randn(16, 16, generator=generator, dtype=torch.float64)
    check_gradient("ppd", [weight], lambda: losses.ppd(model, weight, states, target))
    v, b = torch.randn(16, generator=generator, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    rows, accepted = states.flatten(0, 1), (torch.arange(36) % 3 == 0).double()
    check_gradient("probe", [v, b], lambda: losses.probe(v, b, rows, accepted))
    # the loss is the mean over enabled exits of cross-entropy, without dropout
    options.p_max = 0.0
    x, want = model.embed(tokens[:, :-1]), 0
    for l, weight in losses.exit_weights(1, 4, 10, "rotational", 2, 0.7).items():
        out = model.logits(model.rows(x, last=l + 1)).log_softmax(-1)
        want = want - weight * out.gather(2, tokens[:, 1:, None]).mean()
    close(losses.layerskip(model, tokens, 1, 10, options).item(), want.item(), 1e-9)


def check_schedules():
    close(losses.layer_scale(0, 20), 0, 0)
    close(losses.layer_scale(19, 20), 1, 1e-12)
    close(losses.layer_scale(9, 19), math.sqrt(2) - 1, 1e-12)
    close(losses.dropout_rate(19, 0, 20, 100, 0.1), 0.1, 1e-12)
    close(losses.dropout_rate(19, 0, 20, 100, 0.1, "exponential"), 0, 1e-12)
    close(losses.dropout_rate(19, 99, 20, 100, 0.1, "exponential"), 0.1, 1e-12)
    assert losses.exit_scale(3, 20, 0.5) == 0.5 * 6 and losses.exit_scale(19, 20, 0.5) == 19 + 0.5 * 171
    seen = [losses.exits_enabled(t, 20, 100, "rotational", 8) for t in range(8)]
    assert set().union(*seen) == set(range(20)) and all(19 in s and len(s) <= 4 for s in seen)
    assert losses.exits_enabled(0, 20, 400, "gradual", 8) == {19}
    assert losses.exits_enabled(10, 20, 400, "gradual", 8) == {18, 19}  # T / 2L = 10 steps later
    assert losses.exits_enabled(200, 20, 400, "gradual", 8) == set(range(20))
    for schedule in ("rotational", "gradual", "all"):
        for t in range(10):
            close(sum(losses.exit_weights(t, 20, 10, schedule, 8, 0.2).values()), 1, 1e-12)


def run_trainer(folder, name, *arguments):
    tool = os.path.join(SOURCE, "tools", "train", name + ".py")
    result = subprocess.run([sys.executable, tool, *arguments], capture_output=True, text=True, cwd=folder)
    assert result.returncode == 0, result.stderr
    return result.stderr


def losses_said(said):
    return [float(line.split("loss ")[1].split(",")[0]) for line in said.splitlines() if "loss " in line]


def check_short_runs():
    with tempfile.TemporaryDirectory(prefix="swiftlet-train-") as folder:
        os.mkdir(os.path.join(folder, "model"))
        with open(os.path.join(folder, "model", "config.json"), "w", encoding="utf-8") as file:
            json.dump(CONFIG, file)
        model = tiny_model()
        safetensors_file.write(os.path.join(folder, "model", "model.safetensors"), model.weights, {"format": "pt"})
        run_trainer(folder, "text", "-m", "model", "-o", "text.json", "--sequences", "70", "--length", "24")
        ids = text.read(os.path.join(folder, "text.json"))
        assert ids.shape == (70, 24) and (ids[:, 0] == 1).all() and len(set(ids.flatten().tolist())) > 8
        common = ["-m", "model", "-t", "text.json", "--batch", "8"]
        runs = {"layerskip": ["-o", "trained", "--steps", "120", "--dilation", "2"],
                "kangaroo": ["-o", "kangaroo.safetensors", "--steps", "60", "--exit-block", "1"],
                "ppd": ["-o", "heads.safetensors", "--steps", "60", "--blocks", "1,2"],
                "probe": ["-o", "probe.safetensors", "--steps", "60", "--exit-block", "2"]}
        for name, more in runs.items():
            said = losses_said(run_trainer(folder, name, *common, *more))
            assert said[-1] < said[0], (name, said)
            print("%s: loss %.3f to %.3f" % (name, said[0], said[-1]))
        trained = llama.Llama.load(os.path.join(folder, "trained"))
        with torch.no_grad():
            agree = [(m.logits(m.rows(m.embed(ids), last=2)).argmax(-1) == m.logits(m.rows(m.embed(ids))).argmax(-1))
                     .float().mean().item() for m in (llama.Llama.load(os.path.join(folder, "model")), trained)]
        assert agree[1] > agree[0], agree
        adapter, metadata = safetensors_file.read(os.path.join(folder, "kangaroo.safetensors"))
        assert metadata["exit_block"] == "1" and adapter["kangaroo.attention.q.weight"].shape == (16, 16)
        result = subprocess.run([sys.executable, os.path.join(SOURCE, "tools", "train", "kangaroo.py"), *common, "-o", "x",
                                 "--exit-block", "4"], capture_output=True, text=True, cwd=folder)
        assert result.returncode == 1 and "--exit-block 4: the model has 4 blocks" in result.stderr, result.stderr


def check_files():
    tensors = {"b": torch.arange(6.0).view(2, 3), "a": torch.tensor([0.5, -1.5])}
    with tempfile.TemporaryDirectory(prefix="swiftlet-train-") as folder:
        for dtype in (torch.float16, torch.bfloat16, torch.float32):
            path = os.path.join(folder, "x.safetensors")
            safetensors_file.write(path, tensors, {"exit_block": "3"}, dtype)
            back, metadata = safetensors_file.read(path)
            assert metadata == {"exit_block": "3"} and set(back) == {"a", "b"}
            assert all(torch.equal(back[name].float(), tensors[name]) and back[name].dtype == dtype for name in tensors)


check_files()
check_schedules()
check_losses()
check_short_runs()
print("the trainers' losses are right and each learns")
