"""Models of timm, transformers and torchvision compiled and eager on Corten, at batch 1 and 8, inference and training.

    PYTHONPATH=PACKAGE python -m corten.run benches/compiled_models.py [NAMES] [--rounds 7] [--threads 2]

The Python has the packages and no PyTorch. Eager and compiled calls alternate; prints medians in milliseconds, their
ratios, the seconds of the first call, and geometric means.
"""

import argparse
import math
import statistics
import time
import warnings

import torch

warnings.simplefilter("ignore")

TIMM = ("resnet18", "resnet50", "mobilenetv3_small_100", "efficientnet_b0", "vit_tiny_patch16_224", "convnext_atto",
        "mixer_s32_224", "densenet121", "regnety_002")
TORCHVISION = ("resnet18", "mobilenet_v2", "shufflenet_v2_x1_0", "squeezenet1_1", "mnasnet1_0", "vgg11_bn")


def _timm(name):
    import timm

    model = timm.create_model(name, num_classes=10)
    size = 224 if any(part in name for part in ("vit", "mixer")) else 128
    return model, lambda batch: (torch.randn(batch, 3, size, size),), lambda out: out.square().mean()


def _torchvision(name):
    import torchvision

    model = getattr(torchvision.models, name)(num_classes=10)
    return model, lambda batch: (torch.randn(batch, 3, 128, 128),), lambda out: out.square().mean()


def _transformers(name):
    import transformers as tf

    small = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024,
             "vocab_size": 1000}
    configs = {
        "gpt2": (tf.GPT2LMHeadModel, tf.GPT2Config(vocab_size=1000, n_embd=256, n_layer=4, n_head=4, n_positions=128)),
        "llama": (tf.LlamaForCausalLM, tf.LlamaConfig(**small)),
        "bert": (tf.BertModel, tf.BertConfig(**small)),
        "roberta": (tf.RobertaModel, tf.RobertaConfig(**small)),
        "qwen2": (tf.Qwen2ForCausalLM, tf.Qwen2Config(**small, num_key_value_heads=2)),
        "t5": (tf.T5EncoderModel, tf.T5Config(vocab_size=1000, d_model=256, d_kv=64, d_ff=1024, num_layers=4,
                                              num_heads=4)),
        "distilbert": (tf.DistilBertModel, tf.DistilBertConfig(vocab_size=1000, dim=256, hidden_dim=1024, n_layers=4,
                                                               n_heads=4)),
    }
    make, config = configs[name]
    if hasattr(config, "use_cache"):
        config.use_cache = False
    model = make(config)
    loss = lambda out: out[0].square().mean()  # noqa: E731
    return model, lambda batch: (torch.randint(0, 1000, (batch, 64)),), loss


def _models():
    for name in TIMM:
        yield f"timm.{name}", _timm, name
    for name in TORCHVISION:
        yield f"torchvision.{name}", _torchvision, name
    for name in ("gpt2", "llama", "bert", "roberta", "qwen2", "t5", "distilbert"):
        yield f"transformers.{name}", _transformers, name


def _seconds(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _measure(calls, rounds, budget=4.0):
    begin = time.perf_counter()
    first = _seconds(calls["compiled"])
    for _ in range(17):
        # Compiled functions measure both ways in their first calls.
        calls["compiled"]()
        if time.perf_counter() - begin > 4 * budget:
            break
    calls["eager"]()
    samples = {kind: [] for kind in calls}
    begin = time.perf_counter()
    while len(samples["eager"]) < rounds or time.perf_counter() - begin < budget / 4:
        for kind, call in calls.items():
            samples[kind].append(_seconds(call))
        if time.perf_counter() - begin > budget and len(samples["eager"]) >= 5:
            break
    return first, {kind: statistics.median(values) for kind, values in samples.items()}


def _cases(make, name, batch):
    torch.manual_seed(0)
    model, inputs, loss = make(name)
    args = inputs(batch)
    compiled = torch.compile(model)

    def inference(function):
        def call():
            with torch.no_grad():
                function(*args)
        return call

    def training(function):
        def call():
            loss(function(*args)).backward()
            model.zero_grad()
        return call

    yield "inference", model.eval, {"eager": inference(model), "compiled": inference(compiled)}
    if not (batch == 1 and make is not _transformers):
        # Batch norm has nothing to normalise by where one value of a channel is left.
        yield "training", model.train, {"eager": training(model), "compiled": training(compiled)}


def main():
    """Measures the models."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    gains = {}
    for title, make, name in _models():
        if options.names and not any(part in title for part in options.names):
            continue
        for batch in (1, 8):
            for kind, mode, calls in _cases(make, name, batch):
                mode()
                first, medians = _measure(calls, options.rounds)
                gain = medians["eager"] / medians["compiled"]
                gains.setdefault(kind, []).append(gain)
                print(f"{title} batch {batch} {kind}: eager {medians['eager'] * 1e3:.2f} ms, compiled "
                      f"{medians['compiled'] * 1e3:.2f} ms, {gain:.2f}x, first call {first * 1e3:.0f} ms", flush=True)
    for kind, values in gains.items():
        mean = math.exp(sum(map(math.log, values)) / len(values))
        print(f"{kind}: geometric mean {mean:.3f}x of {len(values)} rows, least {min(values):.2f}x")


if __name__ == "__main__":
    main()
