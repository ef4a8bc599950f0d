"""Small language models of random weights, their logits by transformers, and tokens by tokenizers and sentencepiece.

Needs PyTorch, ``transformers``, ``tokenizers``, ``sentencepiece`` and ``gguf``. Writes the folder ``language_models``:
a folder of Hugging Face for each architecture, two GGUF files, ``expected.npz`` with tokens and logits, and
``tokens.json`` with the tokens of texts.
"""

import io
import json
import pathlib
import shutil

import gguf
import numpy
import sentencepiece
import tokenizers
import torch
import transformers
from gguf import GGMLQuantizationType as Kind
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

HERE = pathlib.Path(__file__).resolve().parent.parent
OUT = HERE / "language_models"
VOCABULARY = 384
TOKENS = 40
SIZES = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 128, "num_hidden_layers": 2,
    "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0,
}
CONFIGS = {
    "llama": transformers.LlamaConfig(**SIZES, tie_word_embeddings=False, rope_parameters={
        "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16}),
    "qwen2": transformers.Qwen2Config(**SIZES, tie_word_embeddings=True, rope_parameters={
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32}),
    "qwen3": transformers.Qwen3Config(**SIZES, tie_word_embeddings=True),
    "gemma2": transformers.Gemma2Config(**SIZES, sliding_window=8, query_pre_attn_scalar=16, attn_logit_softcapping=2.0,
                                        final_logit_softcapping=3.0),
    "gemma3": transformers.Gemma3TextConfig(**{**SIZES, "num_hidden_layers": 3}, sliding_window=8,
        query_pre_attn_scalar=8, layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        rope_parameters={
            "full_attention": {"rope_type": "linear", "rope_theta": 1000000.0, "factor": 8.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}),
}
TEXTS = [
    "", " ", "Hello, world's best  apple\n\n 12345 caf\u00e9!", "they'll DON'T we'Ve", "x = a[10] + b;\r\n\tif (x) {\n  y\n}\n",
    "\u65e5\u672c\u8a9e na\u00efve \U0001f600\u00a0end ", "   three blanks", "1 22 333 4444 \u0663\u0664", "...!!! ?\n\n\nX", "tab\tand  two",
    "Of Man's first disobedience, and the fruit", "\u1e9e \u01c5 e\u0301",
]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")


def corpus():
    """Text to train tokenizers on."""
    root = HERE.parent.parent
    return (root / "examples/data/paradise_lost.txt").read_text()[:40000] + "def f(x):\n    return x[0] + 1234\n" * 50


def model_of(config):
    """A model of random weights."""
    torch.manual_seed(len(config.model_type) + config.num_hidden_layers)
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config).eval().float()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            is_norm = name.endswith("norm.weight")
            weight.copy_(torch.randn_like(weight) * (0.3 if is_norm else 0.25) + (1 if is_norm and "gemma" not in
                         config.model_type else 0))
    return model


def logits_of(model, tokens):
    """Logits at every fifth position."""
    with torch.no_grad():
        return model(torch.tensor([tokens]), use_cache=False).logits[0, 4::5].numpy()


def byte_level(pattern, digits=False, **settings):
    """A tokenizer over bytes whose words are cut by a pattern, or as in GPT-2."""
    made = tokenizers.Tokenizer(models.BPE(**settings))
    cut = [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)]
    if pattern:
        cut.insert(0, pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated"))
    if digits:
        cut.insert(0, pre_tokenizers.Digits(individual_digits=True))
    made.pre_tokenizer = pre_tokenizers.Sequence(cut)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=["<pad>", "<eos>", "<bos>", "<|eot_id|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    made.train_from_iterator([corpus()], trainer)
    return made


def with_blanks():
    """A tokenizer over characters with bytes for those that are not known, as Gemma's."""
    specials = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    made = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Replace(" ", "\u2581")
    made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    made.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=specials, show_progress=False)
    made.train_from_iterator(corpus().splitlines(), trainer)
    written = json.loads(made.to_str())
    written["added_tokens"] = [token for token in written["added_tokens"] if not token["content"].startswith("<0x")]
    return tokenizers.Tokenizer.from_str(json.dumps(written))


def sentence_piece(kind):
    """A model of sentencepiece."""
    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus().splitlines()), model_writer=made, vocab_size=VOCABULARY, model_type=kind,
        byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False, minloglevel=2,
        user_defined_symbols=["<turn>"], character_coverage=0.999)
    return sentencepiece.SentencePieceProcessor(model_proto=made.getvalue())


def write_sentence_piece(writer, name, made):
    """The metadata of a tokenizer of sentencepiece."""
    count = made.get_piece_size()
    kinds = [6 if made.is_byte(i) else 3 if made.is_control(i) else 2 if made.is_unknown(i) else
             4 if made.id_to_piece(i) == "<turn>" else 1 for i in range(count)]
    writer.add_tokenizer_model(name)
    writer.add_token_list([made.id_to_piece(i) for i in range(count)])
    writer.add_token_scores([made.get_score(i) for i in range(count)])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(made.bos_id())
    writer.add_eos_token_id(made.eos_id())
    writer.add_unk_token_id(made.unk_id())


def round_activations(module, kind):
    """Rounds the inputs of a linear layer, and its results, as products with weights of a format do."""
    short = {Kind.F16: torch.float16, Kind.BF16: torch.bfloat16}.get(kind)

    def rounded(x):
        if short:
            return x.to(short).float()
        groups = x.unflatten(-1, (-1, 32))
        scales = groups.abs().amax(-1, keepdim=True) / 127
        return (torch.round(groups * torch.where(scales > 0, 1 / scales, 0)) * scales).flatten(-2)

    module.register_forward_pre_hook(lambda _, inputs: (rounded(inputs[0]),))
    if short:
        module.register_forward_hook(lambda _, inputs, output: rounded(output))


NAMES = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "post_feedforward_layernorm": "post_ffw_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}


def name_of(name, is_gemma):
    """The name in GGUF files."""
    outer = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
             "lm_head.weight": "output.weight"}
    if name in outer:
        return outer[name]
    layer, part = name.removeprefix("model.layers.").split(".", 1)
    part = part.removesuffix(".weight")
    own = {"post_attention_layernorm": "post_attention_norm" if is_gemma else "ffn_norm",
           "pre_feedforward_layernorm": "ffn_norm"}
    return f"blk.{layer}.{(NAMES | own)[part]}.weight"


def write_config(writer, config):
    """The sizes of a model."""
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_key_length(config.head_dim)
    writer.add_value_length(config.head_dim)
    writer.add_rope_dimension_count(config.head_dim)


def write_gemma(path, made, tokens):
    """A GGUF file of Gemma 3 with weights of several formats; gives the logits for the weights that are stored, exactly
    and with activations that are rounded."""
    config = transformers.Gemma3TextConfig(**{
        **SIZES, "num_hidden_layers": 7, "intermediate_size": 32, "num_key_value_heads": 1}, sliding_window=8,
        query_pre_attn_scalar=8)
    model = model_of(config)
    writer = gguf.GGUFWriter(path, "gemma3")
    write_config(writer, config)
    writer.add_sliding_window(8)
    writer.add_rope_freq_base(1000000.0)
    write_sentence_piece(writer, "llama", made)
    writer.add_add_bos_token(True)
    writer.add_add_space_prefix(False)
    kinds = {"attn_q": Kind.Q5_0, "attn_k": Kind.Q8_0, "ffn_gate": Kind.Q4_0, "ffn_up": Kind.Q5_1, "attn_v": Kind.F16,
             "token_embd": Kind.Q8_0, "ffn_down": Kind.Q4_1, "attn_output": Kind.BF16}
    with torch.no_grad():
        for name, weight in model.named_parameters():
            theirs = name_of(name, True)
            kind = kinds.get(theirs.split(".")[-2])
            if kind is None:
                writer.add_tensor(theirs, (weight + 1).numpy())
                continue
            stored = gguf.quants.quantize(weight.numpy(), kind)
            writer.add_tensor(theirs, stored, raw_dtype=kind)
            weight.copy_(torch.tensor(gguf.quants.dequantize(stored, kind)))
    finish(writer)
    exact = logits_of(model, tokens)
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            own = "token_embd" if name == "lm_head" else name_of(name + ".weight", True).split(".")[-2]
            round_activations(module, kinds[own])
    return exact, logits_of(model, tokens)


def write_llama(path, model, made):
    """A GGUF file of Llama in float32, with rows of queries and keys in the order of neighbours."""
    config, written = model.config, json.loads(made.to_str())
    writer = gguf.GGUFWriter(path, "llama")
    write_config(writer, config)
    writer.add_rope_freq_base(10000.0)
    vocabulary = sorted(written["model"]["vocab"], key=written["model"]["vocab"].get)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(vocabulary)
    writer.add_token_types([3 if text.startswith("<") and len(text) > 2 else 1 for text in vocabulary])
    writer.add_token_merges([" ".join(pair) for pair in written["model"]["merges"]])
    writer.add_bos_token_id(2)
    writer.add_eos_token_id(1)
    frequencies = 10000.0 ** -(numpy.arange(0, config.head_dim, 2) / config.head_dim)
    factors = frequencies / model.model.rotary_emb.inv_freq.numpy()
    writer.add_tensor("rope_freqs.weight", factors.astype(numpy.float32))
    for name, weight in model.named_parameters():
        weight, theirs = weight.detach().numpy(), name_of(name, False)
        if "attn_q." in theirs or "attn_k." in theirs:
            heads = weight.shape[0] // config.head_dim
            parts = weight.reshape(heads, 2, config.head_dim // 2, weight.shape[1])
            weight = parts.swapaxes(1, 2).reshape(weight.shape).copy()
        writer.add_tensor(theirs, weight)
    finish(writer)


def write_vocabulary(path, name, made):
    """A GGUF file of a tokenizer alone."""
    writer = gguf.GGUFWriter(path, "llama")
    write_sentence_piece(writer, name, made)
    finish(writer)


def finish(writer):
    """Writes what was added."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    generator = numpy.random.default_rng(1)
    byte_tokenizers = {
        "llama": byte_level(LLAMA3, ignore_merges=True),
        "qwen2": byte_level(LLAMA3.replace("{1,3}", "")),
        "qwen3": byte_level(None),
        "gemma2": byte_level(None, digits=True),
        "gemma3": with_blanks(),
    }
    expected, tokens_of_texts = {}, {}
    for name, config in CONFIGS.items():
        model, tokens = model_of(config), generator.integers(3, VOCABULARY, TOKENS).tolist()
        folder = OUT / name
        model.save_pretrained(folder)
        (folder / "generation_config.json").unlink()
        byte_tokenizers[name].save(str(folder / "tokenizer.json"), pretty=False)
        expected[f"{name}_tokens"], expected[f"{name}_logits"] = numpy.array(tokens), logits_of(model, tokens)
        tokens_of_texts[name] = [[text, byte_tokenizers[name].encode(text).ids] for text in TEXTS]
        if name == "llama":
            write_llama(OUT / "llama.gguf", model, byte_tokenizers[name])
    pieces = {kind: sentence_piece(kind) for kind in ("bpe", "unigram")}
    tokens = generator.integers(3, VOCABULARY, TOKENS).tolist()
    expected["gguf_tokens"] = numpy.array(tokens)
    exact, rounded = write_gemma(OUT / "gemma3.gguf", pieces["bpe"], tokens)
    expected["gguf_logits"], expected["gguf_rounded_logits"] = exact, rounded
    write_vocabulary(OUT / "unigram.gguf", "t5", pieces["unigram"])
    write_vocabulary(OUT / "bpe.gguf", "llama", pieces["bpe"])
    for kind, made in pieces.items():
        tokens_of_texts[kind] = [[text, made.encode(text)] for text in TEXTS]
    numpy.savez_compressed(OUT / "expected.npz", **expected)
    (OUT / "tokens.json").write_text(json.dumps(tokens_of_texts, indent=0))


if __name__ == "__main__":
    main()
