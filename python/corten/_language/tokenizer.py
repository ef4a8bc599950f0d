"""Text as tokens and tokens as text, by the metadata of GGUF files: SentencePiece's byte pair encoding, and GPT-2's."""

import heapq
import unicodedata

_CONTROL, _USER_DEFINED, _BYTE = 3, 4, 6
_ENDS = ("<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|eom_id|>", "</s>", "<eos>")
# How texts are cut into words, by the name of the rules.
_SPLITTERS = {
    **dict.fromkeys(("gpt-2", "phi-2", "gpt2", "mpt", "olmo", "jais", "roberta-bpe"), "gpt2"),
    **dict.fromkeys(("smollm", "refact", "starcoder", "command-r", "codeshell"), "single digits"),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "dbrx", "smaug-bpe"), "llama3"),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "stablelm2", "hunyuan", "megrez"), "qwen2"),
}


def _byte_characters():
    """GPT-2's character for each byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {**{byte: chr(byte) for byte in printable}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}


_CHARACTERS = _byte_characters()
_BYTES = {character: byte for byte, character in _CHARACTERS.items()}


class Tokenizer:
    """Makes tokens of text and text of tokens.

    Args:
        metadata: The metadata of a GGUF file.

    Raises:
        NotImplementedError: The tokenizer is of a kind that is not known.
    """

    def __init__(self, metadata):
        def get(key, default=None):
            return metadata.get("tokenizer.ggml." + key, default)

        self.kind = get("model", "llama")
        if self.kind not in ("llama", "gpt2"):
            raise NotImplementedError(f"tokenizers of the kind {self.kind!r} are not known")
        self.texts = get("tokens")
        if self.texts is None:
            raise RuntimeError("the file has no vocabulary")
        self.ids = {}
        for id, text in enumerate(self.texts):
            self.ids.setdefault(text, id)
        is_blanks = self.kind == "llama"
        self.begin = get("bos_token_id", 1 if is_blanks else None)
        self.end = get("eos_token_id", 2 if is_blanks else None)
        self.unknown = get("unknown_token_id", 0 if is_blanks else None)
        self.ends = {self.ids[text] for text in _ENDS if text in self.ids} | {self.end, get("eot_token_id")} - {None}
        self.adds_blank = is_blanks and get("add_space_prefix", True)
        if is_blanks:
            scores = get("scores", [])
            self._pair = lambda left, right: self._by_score(left, right, scores)
        else:
            rules = get("pre", "default")
            if rules not in _SPLITTERS:
                raise NotImplementedError(f"texts are cut into words by unknown rules: {rules!r}")
            self.splitter = _SPLITTERS[rules]
            merges = get("merges", [])
            ranks = {tuple(merge.split(" ", 1)): rank for rank, merge in enumerate(merges)}
            self._pair = lambda left, right: ranks.get((left, right))
        self.takes_whole_words = not is_blanks and self.splitter == "llama3"
        self.adds_begin = get("add_bos_token", is_blanks or self.takes_whole_words)
        self.adds_end = get("add_eos_token", False)
        self._set_purposes(get("token_type", []))

    def _set_purposes(self, kinds):
        self.controls, self.byte_tokens, added = set(), {}, {}
        for id, kind in enumerate(kinds):
            text = self.texts[id]
            if kind in (_CONTROL, _USER_DEFINED) and text:
                added.setdefault(text[0], []).append(text)
            if kind == _CONTROL:
                self.controls.add(id)
            elif kind == _BYTE:
                self.byte_tokens[int(text[3:-1], 16)] = id
        self.bytes_of_tokens = {id: bytes([byte]) for byte, id in self.byte_tokens.items()}
        self.added = {first: sorted(texts, key=len, reverse=True) for first, texts in added.items()}

    def _by_score(self, left, right, scores):
        id = self.ids.get(left + right)
        return None if id is None else -(scores[id] if id < len(scores) else 0.0)

    def encode(self, text, with_special=True):
        """The tokens of a text, with those around it that the model expects."""
        tokens = [self.begin] if with_special and self.adds_begin and self.begin is not None else []
        start = at = 0
        is_first = True
        while at < len(text):
            found = next((known for known in self.added.get(text[at], ()) if text.startswith(known, at)), None)
            if found is None:
                at += 1
                continue
            self._encode_part(text[start:at], is_first, tokens)
            tokens.append(self.ids[found])
            start = at = at + len(found)
            is_first = True
        self._encode_part(text[start:], is_first, tokens)
        if with_special and self.adds_end and self.end is not None:
            tokens.append(self.end)
        return tokens

    def _encode_part(self, text, follows_special, tokens):
        if not text:
            return
        if self.kind == "llama":
            blank = "\u2581" if self.adds_blank and follows_special else ""
            self._encode_word(blank + text.replace(" ", "\u2581"), tokens)
            return
        for word in words(text, self.splitter):
            self._encode_word("".join(_CHARACTERS[byte] for byte in word.encode("utf-8", "replace")), tokens)

    def _encode_word(self, word, tokens):
        if self.takes_whole_words and word in self.ids:
            tokens.append(self.ids[word])
            return
        for symbol in _merged(word, self._pair):
            id = self.ids.get(symbol)
            if id is not None:
                tokens.append(id)
                continue
            bytes = [self.byte_tokens.get(byte) for byte in symbol.encode("utf-8", "replace")]
            if None not in bytes:
                tokens.extend(bytes)
            elif self.unknown is not None:
                tokens.append(self.unknown)

    def bytes_of(self, token):
        """The bytes of a token's text: none of a token that steers the model."""
        if token in self.controls or not 0 <= token < len(self.texts):
            return b""
        if token in self.bytes_of_tokens:
            return self.bytes_of_tokens[token]
        text = self.texts[token]
        if self.kind == "llama":
            return text.replace("\u2581", " ").encode()
        return b"".join(bytes([_BYTES[c]]) if c in _BYTES else c.encode() for c in text)

    def decode(self, tokens):
        """The text of tokens."""
        text = b"".join(map(self.bytes_of, tokens)).decode(errors="replace")
        return text.removeprefix(" ") if self.adds_blank else text


def _merged(word, pair):
    """The symbols that are left when neighbours are merged in the order of what ``pair`` gives, smallest first."""
    symbols, before, behind = list(word), list(range(-1, len(word) - 1)), list(range(1, len(word) + 1))
    queue = []

    def offer(left, right):
        order = pair(symbols[left], symbols[right])
        if order is not None:
            heapq.heappush(queue, (order, left, right, symbols[left], symbols[right]))

    for right in range(1, len(symbols)):
        offer(right - 1, right)
    while queue:
        _, left, right, first, second = heapq.heappop(queue)
        if not first or symbols[left] != first or symbols[right] != second or behind[left] != right:
            continue
        symbols[left], symbols[right] = first + second, ""
        behind[left] = behind[right]
        if behind[left] < len(symbols):
            before[behind[left]] = left
            offer(left, behind[left])
        if before[left] >= 0:
            offer(before[left], left)
    return [symbol for symbol in symbols if symbol]


def _is_letter(c):
    return unicodedata.category(c)[0] == "L"


def _is_number(c):
    return unicodedata.category(c)[0] == "N"


def _is_other(c):
    return not (c.isspace() or _is_letter(c) or _is_number(c))


def words(text, splitter):
    """The words of a text, which together are the text."""
    at = 0
    while at < len(text):
        length = _length(text, at, splitter)
        yield text[at:at + length]
        at += length


def _run(text, at, of):
    end = at
    while end < len(text) and of(text[end]):
        end += 1
    return end - at


def _length(text, at, splitter):
    """The characters of the word at a place."""
    is_modern, first = splitter in ("llama3", "qwen2"), text[at]
    if first == "'":
        behind = text[at + 1:at + 3]
        behind = behind.lower() if is_modern else behind
        for known in ("s", "t", "re", "ve", "m", "ll", "d"):
            if behind.startswith(known):
                return 1 + len(known)
    leads = not (first in "\r\n" or _is_letter(first) or _is_number(first)) if is_modern else first == " "
    for lead in ((1, 0) if leads else (0,)):
        letters = _run(text, at + lead, _is_letter)
        if letters:
            return lead + letters
    blank = int(first == " ")
    digits = _run(text, at + (blank if splitter == "gpt2" else 0), _is_number)
    if digits:
        return {"gpt2": blank + digits, "llama3": min(digits, 3)}.get(splitter, 1)
    others = _run(text, at + blank, _is_other)
    if others:
        end = blank + others
        return end + (_run(text, at + end, "\r\n".__contains__) if is_modern else 0)
    count = _run(text, at, str.isspace)
    if is_modern:
        last = max(text.rfind("\r", at, at + count), text.rfind("\n", at, at + count))
        if last >= 0:
            return last - at + 1
    behind = text[at + count:at + count + 1]
    # The last blank belongs to the next word, unless that is a digit which is cut before.
    belongs = behind and not (splitter == "single digits" and _is_number(behind))
    return count - 1 if belongs and count > 1 else max(count, 1)
