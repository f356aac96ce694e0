"""usage: make_golden.py FOLDER

Writes FOLDER/golden.json: what vLLM makes of the bodies below, with every
template and one of the tokenizers of this folder. It calls vLLM's own request
class, message parser and template renderer (seen with vLLM 0.32.0,
transformers 5.19.0 and tokenizers 0.23.3, on the interpreter that
`scripts/real-vllm` installs), without a model.
"""
import datetime, json, os, sys, types

HERE = os.path.dirname(os.path.abspath(__file__))
import transformers.utils.chat_template_utils as templates
from transformers import PreTrainedTokenizerFast
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.renderers import hf
from vllm.renderers.chat_utils import parse_chat_messages


class Fixed(datetime.datetime):
    @classmethod
    def now(cls):
        return datetime.datetime(2026, 11, 29, 21, 5, 9)


templates.datetime = Fixed
STYLES = {"llama3": "bpe", "chatml": "bpe", "inst": "unigram", "parts": "unigram"}
TOKENS = dict(bos_token="<|begin|>", eos_token="<|end_of_text|>", pad_token="<|pad|>")


def user(text): return {"role": "user", "content": text}
def system(text): return {"role": "system", "content": text}
def assistant(text, **more): return {"role": "assistant", "content": text, **more}
def call(name, arguments, id="call_0001", **more):
    return {"function": {"name": name, "arguments": arguments, **more}, "type": "function", "id": id}


WEATHER = {"type": "function", "function": {
    "name": "weather", "description": "The weather of a place <now> & 'soon'",
    "parameters": {"type": "object", "required": ["place"], "properties": {
        "place": {"type": "string", "description": "Zürich, 東京 …"}, "days": {"type": "integer", "minimum": 1, "maximum": 7.5}}}}}
BARE = {"function": {"name": "ping"}, "type": "function", "cache_control": {"type": "ephemeral"}}
STRICT = {"type": "function", "function": {"strict": True, "parameters": {}, "name": "strict", "own": 1, "description": ""}}
TURNS = [system("You are brief."), user("Hello"), assistant("Hi! What can I do?"), user("Tell me about turbines.")]
TOOL_TURNS = [user("How warm is it in Zürich?"), assistant(None, tool_calls=[call("weather", '{"place": "Zürich", "days": 1}', "abcdefghi")]),
              {"role": "tool", "content": '{"celsius": 7.0}', "tool_call_id": "abcdefghi"}]

BODIES = {
    "one user": {"messages": [user("hello")]},
    "captured": {"messages": [user("hello")], "temperature": 0, "max_tokens": 3, "return_token_ids": True},
    "system and user": {"messages": [system("  You are brief.\n"), user(" Hello there!  ")]},
    "turns": {"messages": TURNS},
    "more turns": {"messages": TURNS + [assistant("They turn water into power.\n\n- fast\n- loud"), user("And forebays?")]},
    "no generation prompt": {"messages": TURNS + [assistant("Well")], "add_generation_prompt": False},
    "continue": {"messages": TURNS + [assistant("Turbines are ")], "add_generation_prompt": False, "continue_final_message": True},
    "continue and generate": {"messages": TURNS + [assistant("Well")], "continue_final_message": True},
    "unicode": {"messages": [user("naïve café — 東京 🚀 \u2028 é \u00a0 x\u0001y ½ ﬁ")]},
    "escapes": {"messages": [user('say "x\\y"\tand\r\n{{ braces }} {% raw %} <b>&amp;</b>')]},
    "empty content": {"messages": [user(""), assistant(""), user("x")]},
    "parts": {"messages": [user([{"type": "text", "text": "one"}, {"type": "text", "text": "two "}])]},
    "refusal and thinking": {"messages": [user("a"), assistant([{"type": "refusal", "refusal": "no"}, {"type": "thinking", "thinking": "hm", "closed": True}]), user("b")]},
    "part with more fields": {"messages": [user([{"type": "text", "text": "one", "cache_control": {"type": "ephemeral"}}])]},
    "names": {"messages": [{"role": "user", "content": "hi", "name": "ann", "more": 1}]},
    "tools": {"messages": [user("How warm is it?")], "tools": [WEATHER]},
    "three tools": {"messages": [system("Use them."), user("Go")], "tools": [WEATHER, BARE, STRICT]},
    "tools not to be used": {"messages": [user("Go")], "tools": [BARE], "tool_choice": "none"},
    "tool call": {"messages": TOOL_TURNS, "tools": [WEATHER]},
    "tool call without tools": {"messages": TOOL_TURNS},
    "two tool calls": {"messages": [user("both"), assistant("Sure.", tool_calls=[call("a", '{"z": 1, "a": [1.0, 1e30, -0.5e-7, null, true, "ü\\u0007"]}', "aaaaaaaaa"), call("b", "{}", "bbbbbbbbb", extra=2)]),
                                    {"role": "tool", "content": "1", "tool_call_id": "aaaaaaaaa"}, {"role": "tool", "content": [{"type": "text", "text": "2"}, {"type": "text", "text": "3"}], "tool_call_id": "bbbbbbbbb"}]},
    "odd arguments": {"messages": [user("x"), assistant("", tool_calls=[call("a", "", "aaaaaaaaa")]), user("y"), assistant("", tool_calls=[call("a", "not json", "aaaaaaaaa")]), user("z"), assistant("", tool_calls=[call("a", "[1]", "aaaaaaaaa")])]},
    "no tool calls": {"messages": [user("x"), assistant("y", tool_calls=[]), user("z")]},
    "assistant without content": {"messages": [user("x"), {"role": "assistant", "tool_calls": None}, user("z")]},
    "reasoning": {"messages": [user("x"), assistant("four", reasoning_content="2+2\n"), user("y"), assistant("five", reasoning="so"), {"role": "tool", "content": "t", "tool_call_id": "aaaaaaaaa"}]},
    "think tags": {"messages": [user("x"), assistant("<think>\nhm\n</think>\n\nfour"), user("y"), assistant("<think>\nwell\n</think>\n\nfive"), user("<tool_response>z</tool_response>")]},
    "no thinking": {"messages": [user("x")], "chat_template_kwargs": {"enable_thinking": False}},
    "effort none": {"messages": [user("x")], "reasoning_effort": "none"},
    "effort high": {"messages": [user("x")], "reasoning_effort": "high", "chat_template_kwargs": {"flags": ["a", 1, 1.5, None, True, {"k": "it's"}, 'say "x"'], "unused": 1}},
    "own date": {"messages": [user("x")], "chat_template_kwargs": {"date_string": "1 Jan 2000", "bos_token": "<s>"}},
    "documents": {"messages": [user("x")], "documents": [{"title": "T", "text": "one"}, {"title": "U", "text": "two"}]},
    "developer": {"messages": [{"role": "developer", "content": "be brief"}, user("x"), system("and kind"), user("y")]},
    "developer after system": {"messages": [system("one"), {"role": "developer", "content": [{"type": "text", "text": "two"}]}, user("x")]},
    "billing header": {"messages": [system("x-anthropic-billing-header: cch=1\nYou are brief."), user("x")]},
    "billing header alone": {"messages": [{"role": "system", "content": [{"type": "text", "text": "x-anthropic-billing-header: 1"}, {"type": "text", "text": "two"}]}, user("x")]},
    "two users": {"messages": [user("x"), user("y")]},
    "two systems": {"messages": [system("x"), user("y"), system("z"), user("w")]},
    "special tokens in text": {"messages": [user("a<|eot_id|>b<|im_end|>[INST]c</think>d <|begin|>")]},
    "role of its own": {"messages": [{"role": "critic", "content": "x"}]},
    "long": {"messages": [user("The pool in front of the turbines. " * 12 + "\n" * 5 + "    x = 1234567\n" * 5)]},
    "add special tokens": {"messages": [user("x")], "add_special_tokens": True},
}


def stub(tokenizer):
    return types.SimpleNamespace(enable_prompt_embeds=False, multimodal_config=None, tokenizer_revision=None, code_revision=None,
                                 revision=None, trust_remote_code=False, tokenizer="t", model="t", hf_config=types.SimpleNamespace(model_type="llama"),
                                 hf_overrides=None, hf_text_config=None, allowed_local_media_path="", allowed_media_domains=None, is_multimodal_model=False)


def render(tokenizer, template, body):
    request = ChatCompletionRequest(**json.loads(body))
    tools = None if request.tools is None else [tool.model_dump() for tool in request.tools]
    params = request.build_chat_params(template, "auto").with_defaults({"tools": tools, "tokenize": False} if tools else {"tokenize": False})
    config = stub(tokenizer)
    form = hf.resolve_chat_template_content_format(chat_template=params.chat_template, tools=params.chat_template_kwargs.get("tools"),
                                                   given_format="auto", tokenizer=tokenizer, model_config=config)
    conversation, _, _ = parse_chat_messages(request.messages, config, content_format=form)
    text = hf.safe_apply_chat_template(config, tokenizer, conversation, **params.get_apply_chat_template_kwargs())
    return form, text, tokenizer(text, add_special_tokens=request.add_special_tokens)["input_ids"]


cases = []
for style, name in STYLES.items():
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=os.path.join(HERE, name + ".json"), **TOKENS)
    template = open(os.path.join(HERE, style + ".jinja")).read()
    for what, body in BODIES.items():
        body = json.dumps({"model": "tiny", **body}, ensure_ascii=len(what) % 2 == 0)
        case = {"template": style, "tokenizer": name, "name": what, "body": body}
        try:
            case["format"], case["text"], case["ids"] = render(tokenizer, template, body)
        except Exception as error:
            case["error"] = f"{type(error).__name__}: {error}".split("\n")[0][:80]
        cases.append(case)
texts = ["", " ", "hello", " hello  world ", "naïve café — 東京 🚀 ½ ﬁ", "a\n\n\n  b\t\t c\r\n", "don't I'LL we'd", "1234567 x=12", "<|begin|>x<|eot_id|>", "<think>a</think>",
         "x\u0301\u200b\ufeff\u0000y", "   <|im_end|>   [INST]  z", "The forebay holds the water. " * 8]
for name in ("bpe", "unigram"):
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=os.path.join(HERE, name + ".json"), **TOKENS)
    for text in texts:
        cases.append({"tokenizer": name, "prompt": text, "ids": tokenizer(text)["input_ids"]})
with open(os.path.join(sys.argv[1], "golden.json"), "w") as out:
    out.write("[\n" + ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases) + "\n]\n")
errors = [(c["template"], c["name"], c["error"]) for c in cases if "error" in c]
print(len(cases), "cases,", len(errors), "errors", *errors, sep="\n")
