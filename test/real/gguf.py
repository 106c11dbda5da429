"""A model for llama.cpp that says nothing: its shape, and weights that are a hole in the file."""
import struct

ALIGNMENT, F32, F16 = 32, 0, 1
UINT32, FLOAT32, STRING = 4, 6, 8


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def entry(key, value):
    """One row of the file's table."""
    if isinstance(value, str):
        return text(key) + struct.pack("<I", STRING) + text(value)
    kind, form = (FLOAT32, "<If") if isinstance(value, float) else (UINT32, "<II")
    return text(key) + struct.pack(form, kind, value)


def tensors(layers, width, inner, words):
    """Name, dimensions and type of each tensor of a llama."""
    yield "token_embd.weight", (width, words), F16
    yield "output_norm.weight", (width,), F32
    yield "output.weight", (width, words), F16
    for layer in range(layers):
        for name in ("attn_norm", "ffn_norm"):
            yield f"blk.{layer}.{name}.weight", (width,), F32
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield f"blk.{layer}.{name}.weight", (width, width), F16
        for name, shape in (("ffn_gate", (width, inner)), ("ffn_up", (width, inner)), ("ffn_down", (inner, width))):
            yield f"blk.{layer}.{name}.weight", shape, F16


def write_model(path, layers=4, width=2048, inner=8192, words=256):
    """Writes the file; returns the bytes of the weights of its layers."""
    table = [entry(*row) for row in {
        "general.architecture": "llama", "general.alignment": ALIGNMENT, "tokenizer.ggml.model": "no_vocab",
        "llama.vocab_size": words, "llama.context_length": 256, "llama.embedding_length": width,
        "llama.block_count": layers, "llama.feed_forward_length": inner, "llama.attention.head_count": width // 128,
        "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.dimension_count": 128}.items()]
    index, offset, in_layers = [], 0, 0
    for name, shape, kind in tensors(layers, width, inner, words):
        index.append(text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape) +
                     struct.pack("<IQ", kind, offset))
        size = (4 if kind == F32 else 2) * shape[0] * (shape[1] if len(shape) > 1 else 1)
        in_layers += size if name.startswith("blk.") else 0
        offset += -(-size // ALIGNMENT) * ALIGNMENT
    head = b"GGUF" + struct.pack("<IQQ", 3, len(index), len(table)) + b"".join(table) + b"".join(index)
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(-(-len(head) // ALIGNMENT) * ALIGNMENT + offset)
    return in_layers
