"""Transformers of GGUF files: Llama, Qwen 2 and 3, Gemma 2 and 3."""

import math

import corten

from corten.nn.functional import embedding, linear

__all__ = ["Cache", "Model"]
_ARCHITECTURES = ("llama", "qwen2", "qwen3", "gemma2", "gemma3")


class Config:
    """The sizes and settings of a model.

    Raises:
        NotImplementedError: The architecture is not known.
    """

    def __init__(self, metadata, tensors):
        self.architecture = name = metadata.get("general.architecture")
        if name not in _ARCHITECTURES:
            raise NotImplementedError(f"models of the architecture {name!r} are not known")

        def get(key, default):
            return metadata.get(f"{name}.{key}", default)

        self.is_gemma = name.startswith("gemma")
        self.width, self.layers = metadata[f"{name}.embedding_length"], metadata[f"{name}.block_count"]
        self.heads = metadata[f"{name}.attention.head_count"]
        self.kv_heads = get("attention.head_count_kv", self.heads)
        self.head_width = get("attention.key_length", self.width // self.heads)
        self.context, self.eps = get("context_length", 2048), get("attention.layer_norm_rms_epsilon", 1e-6)
        period = get("attention.sliding_window_pattern", {"gemma2": 2, "gemma3": 6}.get(name, 1))
        window = get("attention.sliding_window", 0) if period > 1 else 0
        self.windows = [window if (layer + 1) % period else 0 for layer in range(self.layers)]
        by_width = (name, self.layers) in (("gemma2", 46), ("gemma3", 62))
        self.attention_scale = (self.width // self.heads if by_width else self.head_width) ** -0.5
        has_caps = name == "gemma2"
        self.attention_soft_cap = get("attn_logit_softcapping", 50.0) if has_caps else 0.0
        self.logit_soft_cap = get("final_logit_softcapping", 30.0) if has_caps else 0.0
        self.interleaved = name == "llama"
        self._set_frequencies(get, tensors.get("rope_freqs.weight"))

    def _set_frequencies(self, get, divisors):
        dims, theta = get("rope.dimension_count", self.head_width), get("rope.freq_base", 10000.0)
        kind, factor = get("rope.scaling.type", None), get("rope.scaling.factor", get("rope.scale_linear", 1.0))
        places = corten.arange(0, dims, 2, dtype=corten.float64) / dims
        frequencies, self.magnitude = theta ** -places, 1.0
        self.local_frequencies = get("rope.freq_base_swa", 10000.0) ** -places
        if divisors is not None:
            frequencies = frequencies / divisors.to(corten.float64)
        elif kind == "yarn":
            original = get("rope.scaling.original_context_length", 4096.0)

            def border(turns):
                return dims * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

            low = max(math.floor(border(get("rope.scaling.yarn_beta_fast", 32.0))), 0)
            high = min(math.ceil(border(get("rope.scaling.yarn_beta_slow", 1.0))), dims - 1)
            high = high if high > low else low + 0.001
            ramp = ((corten.arange(dims // 2, dtype=corten.float64) - low) / (high - low)).clamp(0, 1)
            frequencies = frequencies / factor * ramp + frequencies * (1 - ramp)
            self.magnitude = get("rope.scaling.attn_factor", 0.1 * math.log(factor) + 1 if factor > 1 else 1.0)
        elif kind in (None, "linear"):
            frequencies = frequencies / factor
        elif kind != "none":
            raise NotImplementedError(f"rotary positions scaled by {kind!r}")
        self.frequencies = frequencies
        if self.architecture != "gemma3":
            self.local_frequencies = frequencies


class Cache:
    """Keys and values of the tokens that a model has seen.

    Args:
        config: The sizes of the model.
        capacity: How many tokens there is room for.
        dtype: The dtype of keys and values.
    """

    def __init__(self, config, capacity, dtype=corten.float16):
        sizes = (1, config.kv_heads, capacity, config.head_width)
        self.rows = [[corten.zeros(sizes, dtype=dtype) for _ in range(2)] for _ in range(config.layers)]
        self.capacity, self.tokens = capacity, 0


class Model:
    """A transformer over the weights of a GGUF file.

    Args:
        file: What :func:`corten.gguf.load` gives.
    """

    def __init__(self, file):
        self.config = config = Config(file.metadata, file.tensors)
        tensors = file.tensors
        self.embedding, self.norm = tensors["token_embd.weight"], tensors["output_norm.weight"]
        self.head = tensors.get("output.weight", self.embedding)
        self.layers = []
        for layer in range(config.layers):
            start = f"blk.{layer}."
            self.layers.append({name[len(start):]: tensor for name, tensor in tensors.items() if name.startswith(start)})

    @corten.inference_mode()
    def __call__(self, tokens, cache):
        """The logits behind the last of some tokens, which follow those of the cache."""
        if not tokens or cache.tokens + len(tokens) > cache.capacity:
            raise IndexError(f"{len(tokens)} tokens do not fit behind {cache.tokens} of {cache.capacity}")
        for start in range(0, len(tokens), 512):
            x = self._hidden(tokens[start:start + 512], cache)
        logits = _product(_norm(x[-1:], self.norm, self.config.eps), self.head)[0]
        cap = self.config.logit_soft_cap
        return cap * corten.tanh(logits / cap) if cap else logits

    def _hidden(self, tokens, cache):
        config, count = self.config, len(tokens)
        x = embedding(corten.tensor(tokens), self.embedding).float()
        if config.is_gemma:
            x = x * config.width ** 0.5
        past, positions = corten.tensor([cache.tokens]), corten.arange(cache.tokens, cache.tokens + count)
        turns = []
        for frequencies in (config.frequencies, config.local_frequencies):
            angles = positions.to(corten.float64)[:, None, None] * frequencies
            turns.append([(part * config.magnitude).float() for part in (angles.cos(), angles.sin())])
        for weights, rows, window in zip(self.layers, cache.rows, config.windows):
            seen = self._attention(weights, _norm(x, weights["attn_norm.weight"], config.eps), rows, past, window,
                                   turns[window > 0])
            x = _joined(x, seen, weights.get("post_attention_norm.weight"), config.eps)
            made = self._feed_forward(weights, _norm(x, weights["ffn_norm.weight"], config.eps))
            x = _joined(x, made, weights.get("post_ffw_norm.weight"), config.eps)
        cache.tokens += count
        return x

    def _attention(self, weights, x, rows, past, window, turns):
        config, count = self.config, len(x)

        def heads(name):
            made = _product(x, weights[f"attn_{name}.weight"], weights.get(f"attn_{name}.bias"))
            made = made.view(count, -1, config.head_width)
            norm = weights.get(f"attn_{name}_norm.weight")
            return made if norm is None else _norm(made, norm, config.eps)

        def turned(x):
            return corten.ops.corten.rotary_embedding(x, *turns, interleaved=config.interleaved)

        def by_head(x):
            return x.transpose(0, 1).unsqueeze(0)

        write, (keys, values) = corten.ops.corten.kv_cache_write_, rows
        write(keys, by_head(turned(heads("k"))), past)
        write(values, by_head(heads("v")), past)
        seen = corten.ops.corten.kv_cache_attention(
            by_head(turned(heads("q"))), keys, values, past, scale=config.attention_scale, window=window,
            soft_cap=config.attention_soft_cap)
        return _product(seen.squeeze(0).transpose(0, 1).reshape(count, -1), weights["attn_output.weight"])

    def _feed_forward(self, weights, x):
        gated = corten.ops.corten.geglu if self.config.is_gemma else corten.ops.corten.swiglu
        wide = gated(_product(x, weights["ffn_gate.weight"]), _product(x, weights["ffn_up.weight"]))
        return _product(wide, weights["ffn_down.weight"])


def _product(x, weight, bias=None):
    if weight.dtype == corten.float32:
        return linear(x, weight, bias)
    made = linear(x.to(weight.dtype), weight).float()
    return made if bias is None else made + bias


def _norm(x, weight, eps, residual=None):
    return corten.ops.corten.fused_rms_norm(x, weight, eps, residual=residual)


def _joined(residual, x, norm, eps):
    return residual + x if norm is None else _norm(x, norm, eps, residual)
