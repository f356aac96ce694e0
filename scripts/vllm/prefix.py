#!/usr/bin/env python3
"""Compares what the gateway takes endpoints to hold with what vLLM counts as cached.

usage: prefix.py text|token GATEWAY_URL        (run by `scripts/real-vllm prefix`)

Sends conversations in groups that share a beginning: chats, chats with an
adapter or a cache_salt, completions as text and as token ids, plain and
streamed; and prompts that nobody shares, so that the caches overflow. On the
way one instance's cache is reset behind the gateway's back, the other
instance is restarted, and at the end several requests run at once.

Every answer is compared: the header x-forebay-held-tokens is what the
gateway predicted for the endpoint that answered, usage.prompt_tokens_details
.cached_tokens is what was. The engine counts whole blocks of 32 tokens.

- token: the index has blocks of 64 tokens. Both are rounded down to them and
  must be equal. That also settles the last token, which neither takes as held:
  of a prompt of 640 tokens that is held whole the gateway predicts 639, the
  engine counts 608, and both are 9 blocks.
- text: the index has blocks of 256 bytes of text. The difference must not be
  more than one of them, in tokens of this very prompt.

Exit status 1 when less than 95 % (token) or 90 % (text) are so. Every request
is written to RUN_DIR/prefix-MODE.jsonl. Standard library only.
"""

import collections
import glob
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

MODE, URL = sys.argv[1], sys.argv[2]
RUN_DIR = os.environ["RUN_DIR"]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NEEDED = {"token": 0.95, "text": 0.90}[MODE]
ENGINE_BLOCK, INDEX_BLOCK, TEXT_BLOCK = 32, 64, 256
# Sequential requests before the reset, up to the restart, while the instance
# is away, after it is back; and those at the end that run at once.
BEFORE, RESET, AWAY, BACK, AT_ONCE = 130, 50, 25, 60, 45
THREADS = 4
VOCABULARY = 1900
RANDOM = random.Random(7)


def texts():
    """Pieces of real text of different kinds, always the same ones."""
    library = os.path.dirname(os.__file__)
    kinds = [
        sorted(glob.glob(os.path.join(library, "*.py")))[60:90],
        [os.path.join(library, "pydoc_data", "topics.py")],
        sorted(glob.glob(os.path.join(library, "json", "*.py"))),
    ]
    return ["\n".join(open(name, errors="ignore").read() for name in names)[:400_000] for names in kinds]


TEXTS = texts()


def piece(length):
    text = RANDOM.choice(TEXTS)
    start = RANDOM.randrange(len(text) - length)
    return text[start : start + length]


def ids(count):
    return [RANDOM.randrange(10, VOCABULARY) for _ in range(count)]


class Group:
    """Conversations with one beginning, all of one kind."""

    def __init__(self, kind, head, model="tiny", salt=None):
        self.kind, self.model, self.salt, self.head = kind, model, salt, head
        self.open = []

    def conversation(self):
        if self.open and RANDOM.random() < 0.5:
            return self.open.pop(RANDOM.randrange(len(self.open)))
        return Conversation(self)


class Conversation:
    def __init__(self, group):
        self.group, self.turn = group, 0
        self.messages = [{"role": "system", "content": group.head}]
        self.prompt = group.head if isinstance(group.head, str) else list(group.head)

    def body(self):
        """The next turn."""
        self.turn += 1
        body = {
            "model": self.group.model,
            "max_tokens": RANDOM.choice((8, 16, 24, 32, 48)),
            "temperature": 0,
            "stream": RANDOM.random() < 0.5,
        }
        if self.group.salt:
            body["cache_salt"] = self.group.salt
        if body["stream"]:
            body["stream_options"] = {"include_usage": True}
        length = RANDOM.randrange(150, 700)
        if "chat" in self.group.kind:
            self.messages.append({"role": "user", "content": piece(length)})
            body["messages"] = self.messages
            self.bytes = sum(len((m["role"] + m["content"]).encode()) + 2 for m in self.messages)
        else:
            body["return_token_ids"] = isinstance(self.prompt, list)
            self.prompt += piece(length) if isinstance(self.prompt, str) else ids(length // 3)
            body["prompt"] = self.prompt
            # Of token ids four bytes are one.
            self.bytes = len(self.prompt.encode()) if isinstance(self.prompt, str) else 4 * len(self.prompt)
        return body

    def answered(self, text, token_ids):
        if "chat" in self.group.kind:
            self.messages = self.messages + [{"role": "assistant", "content": text}]
        elif isinstance(self.prompt, str):
            self.prompt += text
        else:
            self.prompt += token_ids
        if self.turn < 4:
            self.group.open.append(self)


def groups():
    shared, text = piece(2600), piece(2200)
    return [
        Group("chat", shared),
        Group("chat", piece(1400)),
        Group("chat", piece(3600)),
        # The same beginning under an adapter and under salts is not the same.
        Group("chat, adapter", shared, model="lora1"),
        Group("chat, adapter", piece(1800), model="lora1"),
        Group("chat, salt", shared, salt="one"),
        Group("chat, salt", shared, salt="two"),
        Group("completion", text),
        Group("completion", piece(1500)),
        Group("completion, adapter", text, model="lora1"),
        Group("completion, ids", ids(700)),
        Group("completion, ids", ids(450)),
        Group("completion, ids, adapter", ids(600), model="lora1"),
    ]


class Cold:
    """Prompts that nobody shares."""

    kind, model, salt = "not shared", "tiny", None

    def conversation(self):
        group = Group(RANDOM.choice(("chat", "completion")), piece(RANDOM.randrange(1500, 4500)))
        conversation = Conversation(group)
        conversation.turn = 3
        return conversation


def ask(body):
    """One request. The head, the usage, the text and the ids of its answer."""
    address = urllib.parse.urlsplit(URL)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=120)
    path = "/v1/chat/completions" if "messages" in body else "/v1/completions"
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        raise RuntimeError(f"{response.status}: {response.read()[:300]!r}")
    data = response.read().decode()
    connection.close()
    usage, text, made = None, "", []
    if body["stream"]:
        events = [json.loads(line[6:]) for line in data.split("\n") if line.startswith("data: {")]
    else:
        events = [json.loads(data)]
    for event in events:
        usage = event.get("usage") or usage
        for choice in event.get("choices", []):
            message = choice.get("delta") or choice.get("message") or choice
            text += message.get("content") or message.get("text") or ""
            made += choice.get("token_ids") or []
    return response.headers, usage, text, made


class Run:
    def __init__(self):
        self.groups, self.cold = groups(), Cold()
        self.rows, self.lock = [], threading.Lock()
        self.started = time.monotonic()
        self.fresh = set()  # endpoints whose cache was emptied and that have not answered since
        self.failures = []

    def next(self):
        group = self.cold if RANDOM.random() < 0.12 else RANDOM.choice(self.groups)
        conversation = group.conversation()
        return group.kind, conversation, conversation.body()

    def send(self, phase):
        with self.lock:
            kind, conversation, body = self.next()
        begun = time.monotonic()
        try:
            head, usage, text, made = ask(body)
        except (OSError, RuntimeError, http.client.HTTPException) as error:
            self.failures.append(f"{phase}: {error!r}")
            return None
        endpoint = head["x-forebay-endpoint"]
        row = {
            "n": len(self.rows),
            "at": round(begun - self.started, 3),
            "ms": round((time.monotonic() - begun) * 1000),
            "phase": phase,
            "kind": kind,
            "turn": conversation.turn,
            "stream": body["stream"],
            "endpoint": endpoint,
            "prompt_tokens": usage["prompt_tokens"],
            "cached": usage["prompt_tokens_details"]["cached_tokens"],
            "predicted": int(head["x-forebay-held-tokens"]),
            "block": TEXT_BLOCK / (conversation.bytes / usage["prompt_tokens"]),
        }
        with self.lock:
            row["first_after_reset"] = endpoint in self.fresh
            self.fresh.discard(endpoint)
            self.rows.append(row)
            conversation.answered(text, made)
        return endpoint

    def many(self, phase, count):
        for _ in range(count):
            self.send(phase)


def port(instance):
    return open(os.path.join(RUN_DIR, instance + ".port")).read().strip()


def endpoint(instance, run):
    """The gateway's name for an instance."""
    return next(row["endpoint"] for row in run.rows if row["endpoint"].endswith(":" + port(instance)))


def reset(instance, run):
    request = urllib.request.Request(f"http://127.0.0.1:{port(instance)}/reset_prefix_cache", method="POST")
    for _ in range(50):  # an engine that still frees a request's blocks refuses
        with urllib.request.urlopen(request, timeout=20) as response:
            if response.read().strip() != b"false":
                break
        time.sleep(0.1)
    run.fresh.add(endpoint(instance, run))


def restart(instance):
    group = int(open(os.path.join(RUN_DIR, instance + ".pid")).read())
    os.killpg(group, signal.SIGTERM)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            break
        time.sleep(0.1)
    else:
        os.killpg(group, signal.SIGKILL)
    script = os.path.join(ROOT, "scripts", "real-vllm")
    return subprocess.Popen([script, "restart-instance", instance, port(instance)])


def traffic():
    run = Run()
    run.many("before", BEFORE)
    reset("vllm-a", run)
    run.many("after a reset", RESET)
    run.fresh.add(endpoint("vllm-b", run))
    starting = restart("vllm-b")
    run.many("one is away", AWAY)
    if starting.wait(320) != 0:
        sys.exit("prefix.py: vllm-b did not come back")
    run.many("it is back, empty", BACK)
    threads = [threading.Thread(target=run.many, args=("at once", AT_ONCE // THREADS)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return run


def judge(row):
    if MODE == "token":
        return row["predicted"] // INDEX_BLOCK == row["cached"] // INDEX_BLOCK
    return abs(row["predicted"] - row["cached"]) <= row["block"]


def table(title, rows, key):
    print(f"\n  {title:<28} requests  as predicted        %   cached  mean difference")
    by = collections.defaultdict(list)
    for row in rows:
        by[key(row)].append(row)
    for name, part in by.items():
        good = sum(map(judge, part))
        cached = sum(row["cached"] for row in part) / len(part)
        off = sum(abs(row["predicted"] - row["cached"]) for row in part) / len(part)
        print(f"  {name:<28} {len(part):>8} {good:>13} {100 * good / len(part):>8.1f} {cached:>8.0f} {off:>8.0f}")


def main():
    run = traffic()
    rows = run.rows
    with open(os.path.join(RUN_DIR, f"prefix-{MODE}.jsonl"), "w") as out:
        for row in rows:
            print(json.dumps(row | {"good": judge(row)}), file=out)
    table("kind", rows, lambda row: row["kind"])
    table("phase", rows, lambda row: row["phase"])
    table("turn", rows, lambda row: f"turn {row['turn']}")
    table("answer", rows, lambda row: "streamed" if row["stream"] else "plain")
    table("endpoint", rows, lambda row: row["endpoint"])
    bad = [row for row in rows if not judge(row)]
    print(f"\n  otherwise than predicted ({sum(row['first_after_reset'] for row in bad)} of them the first after a reset or restart):")
    for row in bad[:40]:
        print(
            f"    {row['n']:>4} {row['kind']:<26} {row['phase']:<18} turn {row['turn']} of {row['prompt_tokens']:>5} tokens: "
            f"predicted {row['predicted']:>5} cached {row['cached']:>5} (256 bytes are {row['block']:.0f}) at {row['endpoint']}"
        )
    for failure in run.failures:
        print("    failed:", failure)
    good = sum(map(judge, rows)) / len(rows)
    hit = sum(row["cached"] for row in rows) / sum(row["prompt_tokens"] for row in rows)
    print(
        f"\n  {MODE}: {100 * good:.1f} % of {len(rows)} requests as predicted ({100 * NEEDED:.0f} % needed), "
        f"{100 * hit:.0f} % of the tokens cached, {len(run.failures)} failed, {time.monotonic() - run.started:.0f} s"
    )
    sys.exit(good < NEEDED or len(run.failures) > 2)


if __name__ == "__main__":
    main()
