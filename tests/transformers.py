"""Tiny transformers with weights drawn at random, written as Transformers' save_pretrained writes them."""

import json
import struct
from pathlib import Path

import numpy

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
WORDS = ["the", "cat", "dog", "sat", "mat", "##s", "##ting", "on", "run", "##ning", ".", ",", "?", "!", "-", "é"]
VOCABULARY = [*SPECIAL, *LETTERS, *(f"##{letter}" for letter in LETTERS), *WORDS]

CONFIG = {
    "architectures": ["BertModel"],
    "hidden_act": "gelu",
    "hidden_size": 36,
    "intermediate_size": 70,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 40,
    "model_type": "bert",
    "num_attention_heads": 3,
    "num_hidden_layers": 2,
    "pad_token_id": 0,
    "type_vocab_size": 2,
    "vocab_size": len(VOCABULARY),
}

# What a cross-encoder has instead.
SCORES = {"architectures": ["BertForSequenceClassification"], "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}

# What a model of XLM-RoBERTa's kind has instead. Its tokenizer was trained by SentencePiece on the pages of the guide.
XLM = {
    "architectures": ["XLMRobertaModel"],
    "model_type": "xlm-roberta",
    "max_position_embeddings": 42,
    "pad_token_id": 1,
    "type_vocab_size": 1,
    "vocab_size": 321,
}
XLM_TOKENS = {
    "model_max_length": 40,
    "tokenizer_class": "PreTrainedTokenizerFast",
    "bos_token": "<s>",
    "cls_token": "<s>",
    "eos_token": "</s>",
    "sep_token": "</s>",
    "unk_token": "<unk>",
    "pad_token": "<pad>",
    "mask_token": "<mask>",
}
UNIGRAM = Path(__file__).parent / "texts" / "unigram.json"


def tokenizer():
    """The tokenizer, as tokenizer.json has it."""
    cls, sep = SPECIAL.index("[CLS]"), SPECIAL.index("[SEP]")
    special = {"[CLS]": cls, "[SEP]": sep}

    def template(*parts):
        return [
            {"Sequence" if name in "AB" else "SpecialToken": {"id": name, "type_id": number}} for name, number in parts
        ]

    return {
        "version": "1.0",
        "added_tokens": [
            {
                "id": index,
                "content": text,
                "special": True,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
            }
            for index, text in enumerate(SPECIAL)
        ],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": template(("[CLS]", 0), ("A", 0), ("[SEP]", 0)),
            "pair": template(("[CLS]", 0), ("A", 0), ("[SEP]", 0), ("B", 1), ("[SEP]", 1)),
            "special_tokens": {text: {"id": text, "ids": [index], "tokens": [text]} for text, index in special.items()},
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {text: index for index, text in enumerate(VOCABULARY)},
        },
    }


def shapes(config):
    """The shape of each array of a model."""
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    yield "embeddings.word_embeddings.weight", (config["vocab_size"], hidden)
    yield "embeddings.position_embeddings.weight", (config["max_position_embeddings"], hidden)
    yield "embeddings.token_type_embeddings.weight", (config["type_vocab_size"], hidden)
    yield from norm("embeddings", hidden)
    for layer in range(config["num_hidden_layers"]):
        own = f"encoder.layer.{layer}"
        for name in ("query", "key", "value"):
            yield from dense(f"{own}.attention.self.{name}", hidden, hidden)
        yield from dense(f"{own}.attention.output.dense", hidden, hidden)
        yield from norm(f"{own}.attention.output", hidden)
        yield from dense(f"{own}.intermediate.dense", inner, hidden)
        yield from dense(f"{own}.output.dense", hidden, inner)
        yield from norm(f"{own}.output", hidden)
    if config["model_type"] == "bert":
        yield from dense("pooler.dense", hidden, hidden)


def dense(name, outputs, inputs):
    yield f"{name}.weight", (outputs, inputs)
    yield f"{name}.bias", (outputs,)


def norm(name, size):
    yield f"{name}.LayerNorm.weight", (size,)
    yield f"{name}.LayerNorm.bias", (size,)


def arrays(config, scores):
    """Numbers for each array, the same each time."""
    random = numpy.random.default_rng(7)
    for name, shape in shapes(config):
        values = random.random(shape, dtype=numpy.float32) * 0.6 - 0.3
        part = "bert" if config["model_type"] == "bert" else "roberta"
        yield (f"{part}.{name}" if scores else name), values + ("LayerNorm.weight" in name)
    if scores:
        hidden = config["hidden_size"]
        last = "classifier"
        if config["model_type"] != "bert":
            last = "classifier.out_proj"
            for name, shape in dense("classifier.dense", hidden, hidden):
                yield name, random.random(shape, dtype=numpy.float32) * 0.6 - 0.3
        for name, shape in dense(last, 1, hidden):
            yield name, random.random(shape, dtype=numpy.float32) * 2 - 1


def safetensors(named):
    """The file of these arrays."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, values in named:
        kind = {"float32": "F32", "float16": "F16"}[values.dtype.name]
        begin = len(data)
        data += values.tobytes()
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def write(folder, scores=False, kind=numpy.float32, xlm=False, **changes):
    """Writes a model of these settings into the folder, which every account may read; gives the folder."""
    config = CONFIG | (XLM if xlm else {}) | (SCORES if scores else {}) | changes
    if xlm and scores:
        config["architectures"] = ["XLMRobertaForSequenceClassification"]
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(UNIGRAM.read_text() if xlm else json.dumps(tokenizer()))
    (folder / "tokenizer_config.json").write_text(json.dumps(XLM_TOKENS if xlm else {"model_max_length": 40}))
    named = [(name, values.astype(kind)) for name, values in arrays(config, scores)]
    (folder / "model.safetensors").write_bytes(safetensors(named))
    return folder
