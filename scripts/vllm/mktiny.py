"""Make a tiny model that a real vLLM can serve without downloading anything.

usage: mktiny.py OUTDIR

Writes OUTDIR/model (a small Llama configuration, a byte-level BPE
tokenizer trained on Python's own standard library, a chat template; no
weights, because the server is started with --load-format dummy) and
OUTDIR/lora1, OUTDIR/lora2 (random rank-8 LoRA adapters in PEFT's format).
"""

import glob
import json
import os
import sys

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, PreTrainedTokenizerFast

CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
HIDDEN, HEADS, KV_HEADS, HEAD_DIM, RANK = 128, 4, 2, 32, 8
# So many that the server in front of the engine keeps up with the tokens on a
# busy machine: with two layers a whole answer is made before it sees that its
# client left.
LAYERS = 12
# Long, so that an answer can take longer than any test waits.
MAX_TOKENS = 32768


def tokenizer(folder):
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    files = sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "*.py")))[:60]
    corpus = [open(name, errors="ignore").read() for name in files]
    tok.train_from_iterator(
        corpus,
        trainers.BpeTrainer(
            vocab_size=2000,
            special_tokens=["<|pad|>", "<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>"],
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tok,
        bos_token="<|bos|>",
        eos_token="<|eos|>",
        pad_token="<|pad|>",
        model_max_length=MAX_TOKENS,
    )
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)
    return len(fast)


def model(folder, vocabulary):
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=KV_HEADS,
        head_dim=HEAD_DIM,
        max_position_embeddings=MAX_TOKENS,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        tie_word_embeddings=True,
        torch_dtype="bfloat16",
    )
    config.architectures = ["LlamaForCausalLM"]
    config.save_pretrained(folder)


def adapter(folder):
    os.makedirs(folder, exist_ok=True)
    weights = {}
    for layer in range(LAYERS):
        for name, (rows, columns) in {
            "q_proj": (HEADS * HEAD_DIM, HIDDEN),
            "v_proj": (KV_HEADS * HEAD_DIM, HIDDEN),
        }.items():
            key = f"base_model.model.model.layers.{layer}.self_attn.{name}"
            weights[key + ".lora_A.weight"] = torch.randn(RANK, columns) * 0.1
            weights[key + ".lora_B.weight"] = torch.randn(rows, RANK) * 0.1
    save_file(weights, os.path.join(folder, "adapter_model.safetensors"))
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": RANK,
        "lora_alpha": 2 * RANK,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": ["q_proj", "v_proj"],
        "base_model_name_or_path": "tiny",
        "fan_in_fan_out": False,
        "inference_mode": True,
        "modules_to_save": None,
    }
    with open(os.path.join(folder, "adapter_config.json"), "w") as out:
        json.dump(config, out)


def main():
    out = sys.argv[1]
    torch.manual_seed(0)
    folder = os.path.join(out, "model")
    os.makedirs(folder, exist_ok=True)
    model(folder, tokenizer(folder))
    for name in ("lora1", "lora2"):
        adapter(os.path.join(out, name))
    print("made", out)


if __name__ == "__main__":
    main()
