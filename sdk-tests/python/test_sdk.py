#!/usr/bin/env python3
"""The OpenAI and Anthropic Python SDKs, as their users call them, through the gateway.

usage: sdk-tests/with-stack target/sdk-python/bin/python sdk-tests/python/test_sdk.py [-v] [TEST...]

The environment says where the gateway is: see ../with-stack. FOREBAY_TEST_SKIP
names, separated by commas, what the engines behind it cannot do (embeddings).
"""

import asyncio
import json
import os
import socket
import sys
import unittest
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import support
from support import ADAPTER, ADMIN, ENGINES, MESSAGES, MODEL, SKIP, URL, wait_until

import openai

try:
    import anthropic
except ImportError:
    anthropic = None

# Tokens of an answer that takes longer than any test waits, on a fast engine too.
LONG = 12000


def client(**options):
    return openai.OpenAI(base_url=URL + "/v1", api_key="sk-test", max_retries=0, timeout=60, **options)


class OpenAi(unittest.TestCase):
    def setUp(self):
        self.client = client()
        self.addCleanup(self.client.close)

    def test_models_list(self):
        models = self.client.models.list().data
        self.assertIn(MODEL, [model.id for model in models])
        self.assertEqual({model.object for model in models}, {"model"})

    def test_models_retrieve(self):
        self.assertEqual(self.client.models.retrieve(MODEL).id, MODEL)

    def test_models_retrieve_unknown(self):
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("no-such-model")

    def test_chat(self):
        answer = self.client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=6)
        self.assertEqual(answer.model, MODEL)
        self.assertEqual(answer.choices[0].message.role, "assistant")
        self.assertTrue(answer.choices[0].message.content)
        self.assertIn(answer.choices[0].finish_reason, ("length", "stop"))
        self.assertGreater(answer.usage.prompt_tokens, 0)
        self.assertLessEqual(answer.usage.completion_tokens, 6)
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens)

    def test_chat_names_the_request(self):
        answer = self.client.chat.completions.with_raw_response.create(model=MODEL, messages=MESSAGES, max_tokens=1)
        self.assertTrue(answer.headers.get("x-request-id"))
        self.assertTrue(answer.parse().choices)

    def stream(self, **options):
        return list(
            self.client.chat.completions.create(
                model=MODEL, messages=MESSAGES, max_tokens=8, temperature=0, stream=True, **options
            )
        )

    def text(self, chunks):
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)

    def test_chat_stream_without_usage(self):
        chunks = self.stream()
        self.assertTrue(self.text(chunks))
        self.assertEqual([chunk for chunk in chunks if chunk.usage], [])
        self.assertEqual([chunk for chunk in chunks if not chunk.choices], [])
        reasons = [chunk.choices[0].finish_reason for chunk in chunks]
        self.assertIn(reasons.pop(), ("length", "stop"))
        self.assertEqual({*reasons}, {None})
        self.assertEqual(len({chunk.id for chunk in chunks}), 1)

    def test_chat_stream_with_usage(self):
        chunks = self.stream(stream_options={"include_usage": True})
        self.assertTrue(self.text(chunks))
        last = chunks.pop()
        self.assertEqual(last.choices, [])
        self.assertGreater(last.usage.prompt_tokens, 0)
        self.assertGreater(last.usage.completion_tokens, 0)
        self.assertEqual([chunk for chunk in chunks if chunk.usage], [])

    def test_chat_stream_says_the_same_as_the_plain_answer(self):
        plain = self.client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=8, temperature=0)
        self.assertEqual(self.text(self.stream()), plain.choices[0].message.content)

    def test_chat_stream_helper(self):
        with self.client.chat.completions.stream(model=MODEL, messages=MESSAGES, max_tokens=6) as events:
            kinds = [event.type for event in events if event.type != "chunk"]
        self.assertIn("content.delta", kinds)

    def test_completions(self):
        answer = self.client.completions.create(model=MODEL, prompt="Once upon a time", max_tokens=5)
        self.assertTrue(answer.choices[0].text)
        self.assertLessEqual(answer.usage.completion_tokens, 5)

    def test_completions_stream(self):
        chunks = list(self.client.completions.create(model=MODEL, prompt="Once upon", max_tokens=5, stream=True))
        self.assertTrue("".join(chunk.choices[0].text for chunk in chunks if chunk.choices))
        self.assertIn(chunks[-1].choices[0].finish_reason, ("length", "stop"))

    @unittest.skipIf("embeddings" in SKIP, "the engines behind the gateway make no embeddings")
    def test_embeddings(self):
        answer = self.client.embeddings.create(model=MODEL, input=["one sentence", "another one"])
        self.assertEqual([item.index for item in answer.data], [0, 1])
        self.assertGreater(len(answer.data[0].embedding), 1)
        self.assertNotEqual(answer.data[0].embedding, answer.data[1].embedding)
        self.assertGreater(answer.usage.prompt_tokens, 0)

    def test_responses(self):
        answer = self.client.responses.create(model=MODEL, input="Name a river.", max_output_tokens=6)
        self.assertTrue(answer.output_text)
        self.assertGreater(answer.usage.output_tokens, 0)

    def test_responses_stream(self):
        events = list(self.client.responses.create(model=MODEL, input="Name a river.", max_output_tokens=6, stream=True))
        kinds = [event.type for event in events]
        self.assertEqual(kinds[0], "response.created")
        self.assertIn("response.output_text.delta", kinds)
        self.assertIn(kinds[-1], ("response.completed", "response.incomplete"))

    @unittest.skipUnless(ADAPTER, "no adapter is named")
    def test_adapter(self):
        answer = self.client.chat.completions.create(model=ADAPTER, messages=MESSAGES, max_tokens=4)
        self.assertEqual(answer.model, ADAPTER)
        self.assertTrue(answer.choices[0].message.content)

    def test_unknown_model(self):
        with self.assertRaises(openai.NotFoundError) as caught:
            self.client.chat.completions.create(model=MODEL + "x", messages=MESSAGES)
        self.assertIn(MODEL, str(caught.exception), "the error lists names that are close")
        self.assertEqual(caught.exception.body["code"], "model_not_found")

    def test_missing_messages(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.post("/chat/completions", body={"model": MODEL}, cast_to=object)
        self.assertIn("messages", str(caught.exception))

    def test_wrong_type(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens="many")
        self.assertIn("max_tokens", str(caught.exception))

    def test_twelve_at_once(self):
        async def ask():
            async with openai.AsyncOpenAI(base_url=URL + "/v1", api_key="sk-test", max_retries=0, timeout=60) as many:
                return await asyncio.gather(
                    *[many.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=5) for _ in range(12)]
                )

        answers = asyncio.run(ask())
        self.assertEqual(len({answer.id for answer in answers}), 12)


@unittest.skipUnless(ENGINES and ADMIN, "the engines' own metrics are needed")
class GoneClients(unittest.TestCase):
    """A client that leaves ends the work: in the gateway, and at the engine."""

    def setUp(self):
        wait_until(lambda: support.inflight() == 0 and support.running() == 0, "idle before the test")
        self.made = support.engines("vllm:generation_tokens_total")

    def assert_stopped(self):
        wait_until(lambda: support.running() == 0, "the engine still works for a client that left")
        wait_until(lambda: support.inflight() == 0, "the gateway still counts a client that left")
        made = support.engines("vllm:generation_tokens_total") - self.made
        self.assertLess(made, LONG, "the engine made the whole answer: nothing was cancelled")

    def long_request(self, stream):
        body = {"model": MODEL, "messages": MESSAGES, "max_tokens": LONG, "ignore_eos": True, "stream": stream}
        data = json.dumps(body).encode()
        address = urllib.parse.urlsplit(URL)
        connection = socket.create_connection((address.hostname, address.port), timeout=20)
        self.addCleanup(connection.close)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        return connection

    def test_cancelled_stream(self):
        with client() as sdk:
            stream = sdk.chat.completions.create(
                model=MODEL, messages=MESSAGES, max_tokens=LONG, stream=True, extra_body={"ignore_eos": True}
            )
            for number, _ in enumerate(stream):
                if number == 5:
                    break
            stream.close()
        self.assert_stopped()

    def test_cancelled_before_a_plain_answer(self):
        connection = self.long_request(stream=False)
        wait_until(lambda: support.running() > 0, "the request never reached an engine")
        connection.close()
        self.assert_stopped()

    def test_end_of_input_counts_as_gone(self):
        connection = self.long_request(stream=True)
        wait_until(lambda: support.running() > 0, "the request never reached an engine")
        connection.shutdown(socket.SHUT_WR)
        self.assert_stopped()


@unittest.skipIf(anthropic is None, "the Anthropic SDK is not installed")
class Anthropic(unittest.TestCase):
    def setUp(self):
        self.client = anthropic.Anthropic(base_url=URL, api_key="sk-test", max_retries=0, timeout=60)
        self.addCleanup(self.client.close)

    def test_messages(self):
        answer = self.client.messages.create(model=MODEL, messages=MESSAGES, max_tokens=5)
        self.assertTrue(answer.content[0].text)
        self.assertIn(answer.stop_reason, ("max_tokens", "end_turn"))
        self.assertGreater(answer.usage.output_tokens, 0)

    def test_messages_stream(self):
        with self.client.messages.stream(model=MODEL, messages=MESSAGES, max_tokens=5) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertTrue(text)
        self.assertEqual(final.content[0].text, text)
        self.assertGreater(final.usage.output_tokens, 0)

    def test_count_tokens(self):
        self.assertGreater(self.client.messages.count_tokens(model=MODEL, messages=MESSAGES).input_tokens, 0)

    def test_unknown_model(self):
        with self.assertRaises(anthropic.NotFoundError) as caught:
            self.client.messages.create(model=MODEL + "x", messages=MESSAGES, max_tokens=5)
        self.assertEqual(caught.exception.body["type"], "error")
        self.assertEqual(caught.exception.body["error"]["type"], "not_found_error")

    def test_missing_messages(self):
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.client.post("/v1/messages", body={"model": MODEL, "max_tokens": 5}, cast_to=object)
        self.assertIn("messages", str(caught.exception))


if __name__ == "__main__":
    if not URL:
        sys.exit("FOREBAY_TEST_URL is not set: run this through sdk-tests/with-stack")
    tests = unittest.main(exit=False)
    run = tests.result
    bad = len(run.failures) + len(run.errors)
    print(f"{run.testsRun - bad - len(run.skipped)} passed, {bad} failed, {len(run.skipped)} skipped", flush=True)
    sys.exit(1 if bad or not run.testsRun else 0)
