#!/usr/bin/env python3
"""What only a real engine shows, through the gateway: LoRA, cancel, SIGTERM, SIGKILL.

Run by `scripts/real-vllm test`, which starts two vLLM instances and forebay
and sets the environment. RUN_DIR holds NAME.pid and NAME.port of each
instance; the signals go to those processes only, and each instance that was
ended is started again.
"""

import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
import unittest
import urllib.parse

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "sdk-tests", "python"))
import support
from support import MESSAGES, MODEL, URL, wait_until

import openai

RUN_DIR = os.environ["RUN_DIR"]
# Tokens of an answer that is to be cancelled, and of one that is to end whole
# while others break.
LONG, WHOLE = 12000, 2000
CANCELS_OF_EACH_KIND = 10
# How long after a signal a request may still be lost: the engine's port goes
# away within about 0.3 s, and what it had taken by then cannot be sent again.
GRACE = 1.0


def sdk(timeout=60):
    return openai.OpenAI(base_url=URL + "/v1", api_key="k", max_retries=0, timeout=timeout)


def read(name):
    with open(os.path.join(RUN_DIR, name)) as file:
        return int(file.read())


def base(instance):
    return f"http://127.0.0.1:{read(instance + '.port')}"


class Lora(unittest.TestCase):
    def test_adapter(self):
        with sdk() as client:
            answer = client.chat.completions.create(model="lora1", messages=MESSAGES, max_tokens=6)
            self.assertEqual(answer.model, "lora1")
            self.assertTrue(answer.choices[0].message.content)
            self.assertIn("lora1", [model.id for model in client.models.list().data])

    def test_other_adapter_is_unknown(self):
        with sdk() as client, self.assertRaises(openai.NotFoundError):
            client.chat.completions.create(model="lora2", messages=MESSAGES, max_tokens=6)


class Cancel(unittest.TestCase):
    """Clients that vanish: the engine stops, and the gauges return to zero."""

    def ask(self, stream):
        body = {"model": MODEL, "messages": MESSAGES, "max_tokens": LONG, "ignore_eos": True, "stream": stream}
        data = json.dumps(body).encode()
        address = urllib.parse.urlsplit(URL)
        connection = socket.create_connection((address.hostname, address.port), timeout=20)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        return connection

    def measure(self, stream, leave):
        times = []
        for _ in range(CANCELS_OF_EACH_KIND):
            wait_until(lambda: support.running() == 0, "idle before the next one")
            made = support.engines("vllm:generation_tokens_total")
            connection = self.ask(stream)
            wait_until(lambda: support.running() > 0, "the request never reached an engine")
            if stream:
                connection.recv(4096)
            left = time.monotonic()
            leave(connection)
            wait_until(lambda: support.running() == 0, "the engine still works for a client that left", limit=3)
            times.append((time.monotonic() - left) * 1000)
            connection.close()
            self.assertLess(support.engines("vllm:generation_tokens_total") - made, LONG)
            wait_until(lambda: support.inflight() == 0, "the gateway still counts it", limit=3)
        return times

    def test_cancel(self):
        def half_close(connection):
            connection.shutdown(socket.SHUT_WR)

        def reset(connection):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.close()

        def leave_bytes_behind(connection):
            connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: ")
            connection.close()

        every = []
        for name, stream, leave in (
            ("stream, closed", True, socket.socket.close),
            ("stream, half closed", True, half_close),
            ("stream, reset", True, reset),
            ("stream, pipelined bytes left behind", True, leave_bytes_behind),
            ("plain answer, closed before the first byte", False, socket.socket.close),
        ):
            times = self.measure(stream, leave)
            every += times
            print(f"\n  cancel ({name}): running back to 0 after {statistics.median(times):.0f} ms median, {max(times):.0f} ms at most")
        print(f"  cancel, all kinds: {statistics.median(every):.0f} ms median of {len(every)}")


class Traffic:
    """Short chats from four threads, and two long streams, while something breaks."""

    def __init__(self):
        self.results = []  # (start, error or None)
        self.streams = []  # (how it ended, what the client saw)
        self.stop = threading.Event()
        self.threads = [threading.Thread(target=self.chats) for _ in range(4)]
        # Two at each instance, whichever way the policy splits them.
        self.long = [threading.Thread(target=self.stream) for _ in range(4)]
        for thread in self.threads + self.long:
            thread.start()

    def chats(self):
        with sdk(timeout=40) as client:
            while not self.stop.is_set():
                start, error = time.monotonic(), None
                try:
                    client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=8)
                except openai.APIError as problem:
                    error = repr(problem)
                self.results.append((start, error))

    def stream(self):
        tokens, reason = 0, None
        try:
            with sdk(timeout=60) as client:
                for chunk in client.chat.completions.create(
                    model=MODEL,
                    messages=MESSAGES,
                    max_tokens=WHOLE,
                    stream=True,
                    stream_options={"include_usage": True},
                    extra_body={"ignore_eos": True},
                ):
                    if chunk.usage:
                        tokens = chunk.usage.completion_tokens
                    if chunk.choices and chunk.choices[0].finish_reason:
                        reason = chunk.choices[0].finish_reason
        except Exception as problem:  # whatever the SDK raises is what its user sees
            self.streams.append(("error", repr(problem)[:200]))
            return
        if reason == "abort":
            self.streams.append(("error", "finish_reason abort"))
        elif reason == "length" and tokens == WHOLE:
            self.streams.append(("whole", ""))
        else:
            self.streams.append(("silently short", f"finish_reason {reason}, {tokens} tokens"))

    def join(self):
        self.stop.set()
        for thread in self.threads + self.long:
            thread.join(150)


class Loss(unittest.TestCase):
    """One of two instances ends while both are busy."""

    def lose(self, instance, number):
        wait_until(lambda: support.running() == 0, "idle before the test")
        traffic = Traffic()
        wait_until(
            lambda: support.scrape(base("vllm-a"), "vllm:num_requests_running") > 0
            and support.scrape(base("vllm-b"), "vllm:num_requests_running") > 0,
            "both instances busy",
        )
        time.sleep(0.5)
        group = read(instance + ".pid")
        signalled = time.monotonic()
        os.killpg(group, number)
        for thread in traffic.long:
            thread.join(150)
        time.sleep(2)
        traffic.join()
        try:
            os.killpg(group, signal.SIGKILL)  # a server that hangs in its shutdown
        except ProcessLookupError:
            pass
        before = [error for start, error in traffic.results if start <= signalled]
        window = [error for start, error in traffic.results if signalled < start <= signalled + GRACE]
        later = [error for start, error in traffic.results if start > signalled + GRACE]
        lost = [error for error in before + window if error]
        print(
            f"\n  {instance} {signal.Signals(number).name}: {len(traffic.results)} short chats, {len(lost)} lost with the instance, "
            f"{len(later)} begun more than {GRACE:.0f} s later; long streams: {traffic.streams}"
        )
        for error in lost:
            print("    lost:", error[:160])
        self.assertGreater(len(later), 0)
        self.assertEqual([error for error in later if error], [], "requests failed long after the instance was gone")
        ends = [end for end, _ in traffic.streams]
        self.assertEqual(len(ends), 4)
        self.assertNotIn("silently short", ends, "a cut stream must look like one")
        self.assertIn("error", ends, "a stream of the lost instance ended in an error")
        self.assertIn("whole", ends, "a stream of the other instance went on")
        wait_until(lambda: support.inflight() == 0, "the gateway still counts requests")

    def bring_back(self, instance):
        port = read(instance + ".port")
        script = os.path.join(ROOT, "scripts", "real-vllm")
        subprocess.run([script, "restart-instance", instance, str(port)], check=True, timeout=320)
        served = support.scrape(base(instance), "vllm:request_success_total")

        def served_again():
            with sdk() as client:
                client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=2)
            return support.scrape(base(instance), "vllm:request_success_total") > served

        wait_until(served_again, f"{instance} gets requests again", limit=60)

    def test_sigterm(self):
        try:
            self.lose("vllm-a", signal.SIGTERM)
        finally:
            self.bring_back("vllm-a")

    def test_sigkill(self):
        try:
            self.lose("vllm-b", signal.SIGKILL)
        finally:
            self.bring_back("vllm-b")


if __name__ == "__main__":
    unittest.main()
