"""usage: make_tokenizers.py FOLDER

Trains the two small tokenizers of these tests on the repository's own
documents: a byte-level BPE that splits words as Llama 3 does, and a Unigram
that marks spaces as SentencePiece does.
"""
import glob, json, os, sys
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

out = sys.argv[1]
root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../..")
names = ["README.md", "CONTRIBUTING.md", "docs/ARCHITECTURE.md", "docs/http.md", "docs/metrics.md"]
corpus = [open(os.path.join(root, n)).read() for n in names]
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
special = ["<|begin|>", "<|end_of_text|>", "<|pad|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
           "<|im_start|>", "<|im_end|>", "<|start|>", "<|sep|>", "<|end|>", "[INST]", "[/INST]",
           "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]"]

bpe = Tokenizer(models.BPE(ignore_merges=True))
bpe.pre_tokenizer = pre_tokenizers.Sequence([
    pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
])
bpe.decoder = decoders.ByteLevel()
bpe.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=1100, special_tokens=special,
    initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
# Not special, but always split off all the same.
bpe.add_tokens([AddedToken(t, normalized=False) for t in ("<think>", "</think>", "<tool_call>", "</tool_call>")])
bpe.post_processor = processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", bpe.token_to_id("<|begin|>"))])
bpe.save(os.path.join(out, "bpe.json"), pretty=False)

uni = Tokenizer(models.Unigram())
uni.normalizer = normalizers.NFKC()
uni.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=True)
uni.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="first", split=True)
uni.train_from_iterator(corpus, trainers.UnigramTrainer(vocab_size=700, unk_token="<unk>",
    special_tokens=["<unk>"] + special, show_progress=False))
uni.save(os.path.join(out, "unigram.json"), pretty=False)
