"""Small tokenizers of each kind that models come with."""

from collections.abc import Callable
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

START, THINK = "<|im_start|>", "<think>"


def byte_level() -> Tokenizer:
    """As Qwen, GPT-2 and Llama-3: bytes, a few merges, and added tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), ("Ġ", "hello"), ("ð", "Ł")]
    words = [*alphabet, *("".join(pair) for pair in merges)]
    made = Tokenizer(models.BPE({word: k for k, word in enumerate(words)}, merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return added(made)


def metaspace() -> Tokenizer:
    """As Llama-2, Mistral and Gemma: pieces with `▁` for a space, and bytes for what is in none."""
    words = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    words += ["▁", "h", "i", "▁h", "▁hi", "é", "\n", "a", "b", "."]
    merges = [("▁", "h"), ("▁h", "i")]
    made = Tokenizer(
        models.BPE(
            {word: k for k, word in enumerate(words)}, merges, unk_token="<unk>", byte_fallback=True
        )
    )
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
         decoders.Strip(" ", 1, 0)]
    )  # fmt: skip
    return added(made)


def unigram() -> Tokenizer:
    """As T5: SentencePiece's own, with the decoder that takes away the first space."""
    words = ["<unk>", "▁", "▁key", "s", "a", "b", "é", "中"]
    made = Tokenizer(models.Unigram([(word, -float(k)) for k, word in enumerate(words)], 0))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    return added(made)


def word_piece() -> Tokenizer:
    """As BERT."""
    words = ["[UNK]", "un", "##aff", "##able", "word", ".", "中"]
    made = Tokenizer(models.WordPiece({w: k for k, w in enumerate(words)}, unk_token="[UNK]"))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Whitespace(), decoders.WordPiece("##")
    return added(made)


def words_alone() -> Tokenizer:
    """Without any decoder: words with spaces between."""
    words = ["?", "one", "two"]
    made = Tokenizer(models.WordLevel({word: k for k, word in enumerate(words)}, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return added(made)


MAKERS: dict[str, Callable[[], Tokenizer]] = {
    maker.__name__: maker for maker in (byte_level, metaspace, unigram, word_piece, words_alone)
}


def added(made: Tokenizer) -> Tokenizer:
    made.add_special_tokens([START])
    made.add_tokens([AddedToken(THINK, special=False), "  "])
    return made


def saved(made: Tokenizer, folder: Path) -> Path:
    path = folder / "tokenizer.json"
    made.save(str(path))
    return path
