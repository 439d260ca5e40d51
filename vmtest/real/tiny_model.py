#!/usr/bin/python3
"""Writes a language model of half a megabyte that a real model server loads: a llama with random weights, as GGUF.

    tiny_model.py FILE

It knows nothing, but what it says is always made of whole words, exactly as many as were asked for (`max_tokens`), and
the same each time at temperature 0. GGUF 3 is: a header, keys with values, a directory of tensors, their data.
"""
import random
import struct
import sys

WORDS = ("answer batch bridge cache cloud context data door early evening field find garden gateway green harbour index "
         "keep lamp late letter light market measure memory model morning narrow open paper pass prompt queue quick query "
         "reply retry river road search second server signal silver small stone stream table token vector wait water "
         "window winter wire word").split()
WIDTH, LAYERS, HEADS, HIDDEN, CONTEXT = 64, 2, 4, 128, 8192
ALIGNMENT = 32
SPACE = "\u2581"  # how the tokenizer writes a space

# What the tokenizer calls the kinds of tokens.
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6
TEMPLATE = ("{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n{% endfor %}"
            "{% if add_generation_prompt %}assistant:{% endif %}")


def tokens():
    """(text, kind) of each: those that control, every byte so that any prompt can be read, words, characters."""
    yield from (("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL))
    for byte in range(256):
        yield f"<0x{byte:02X}>", BYTE
    yield SPACE, NORMAL
    for word in WORDS:
        yield SPACE + word, NORMAL
    for code in range(0x21, 0x7f):
        yield chr(code), NORMAL


VOCABULARY = list(tokens())


# ---- keys and values

def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


UINT32 = 4, lambda value: struct.pack("<I", value)
INT32 = 5, lambda value: struct.pack("<i", value)
FLOAT32 = 6, lambda value: struct.pack("<f", value)
BOOL = 7, lambda value: struct.pack("<?", value)
STRING = 8, text


def entry(key, kind, value):
    number, pack = kind
    if isinstance(value, list):
        array = 9
        return text(key) + struct.pack("<IIQ", array, number, len(value)) + b"".join(map(pack, value))
    return text(key) + struct.pack("<I", number) + pack(value)


def entries():
    sizes = {"context_length": CONTEXT, "embedding_length": WIDTH, "block_count": LAYERS, "feed_forward_length": HIDDEN,
             "vocab_size": len(VOCABULARY), "attention.head_count": HEADS, "attention.head_count_kv": HEADS,
             "rope.dimension_count": WIDTH // HEADS}
    # The earlier a word stands, the sooner the tokenizer takes it.
    scores = [0.0 if kind != NORMAL else -float(i) for i, (_, kind) in enumerate(VOCABULARY)]
    return [
        entry("general.architecture", STRING, "llama"),
        entry("general.name", STRING, "tiny"),
        entry("general.alignment", UINT32, ALIGNMENT),
        *[entry("llama." + name, UINT32, size) for name, size in sizes.items()],
        entry("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
        entry("tokenizer.ggml.model", STRING, "llama"),
        entry("tokenizer.ggml.tokens", STRING, [token for token, _ in VOCABULARY]),
        entry("tokenizer.ggml.scores", FLOAT32, scores),
        entry("tokenizer.ggml.token_type", INT32, [kind for _, kind in VOCABULARY]),
        entry("tokenizer.ggml.unknown_token_id", UINT32, 0),
        entry("tokenizer.ggml.bos_token_id", UINT32, 1),
        entry("tokenizer.ggml.eos_token_id", UINT32, 2),
        entry("tokenizer.ggml.add_bos_token", BOOL, True),
        entry("tokenizer.chat_template", STRING, TEMPLATE)]


# ---- weights

def noise(count, spread):
    return [random.gauss(0, spread) for _ in range(count)]


def rows(first_of):
    """A row for each token: noise, but for its first number. That one is large and the same in every embedding, so it
    survives all layers; the output's row multiplies it, and so decides which tokens can be said at all."""
    for token, kind in VOCABULARY:
        yield [first_of(token, kind), *noise(WIDTH - 1, 0.5)]


def is_word(token, kind):
    return kind == NORMAL and len(token) > 1


def tensors():
    """(name, shape, numbers) of each."""
    def table(name, first_of):
        return name, (WIDTH, len(VOCABULARY)), [number for row in rows(first_of) for number in row]

    def norm(name):
        return name, (WIDTH,), [1.0] * WIDTH

    yield table("token_embd.weight", lambda token, kind: 6.0)
    yield table("output.weight", lambda token, kind: 2.0 if is_word(token, kind) else -6.0)
    yield norm("output_norm.weight")
    square, up, down = (WIDTH, WIDTH), (WIDTH, HIDDEN), (HIDDEN, WIDTH)
    shapes = {"attn_q": square, "attn_k": square, "attn_v": square, "attn_output": square,
              "ffn_gate": up, "ffn_up": up, "ffn_down": down}
    for layer in range(LAYERS):
        for name, shape in shapes.items():
            yield f"blk.{layer}.{name}.weight", shape, noise(shape[0] * shape[1], 0.05)
        for name in ("attn_norm", "ffn_norm"):
            yield norm(f"blk.{layer}.{name}.weight")


# ---- the file

def padded(data):
    return data + bytes(-len(data) % ALIGNMENT)


def model():
    random.seed(1)
    directory, data, count = b"", b"", 0
    for name, shape, numbers in tensors():
        float32 = 0
        directory += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, float32, len(data))
        data += padded(struct.pack(f"<{len(numbers)}f", *numbers))
        count += 1
    pairs = entries()
    head = b"GGUF" + struct.pack("<IQQ", 3, count, len(pairs))
    return padded(head + b"".join(pairs) + directory) + data


if __name__ == "__main__":
    with open(sys.argv[1], "wb") as file:
        file.write(model())
