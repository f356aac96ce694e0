// The OpenAI Node SDK, as its users call it, through the gateway. The
// environment says where the gateway is: see ../with-stack. Run by run.sh.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import path from 'node:path';
import test from 'node:test';

const require = createRequire(path.join(process.env.FOREBAY_NODE_MODULES, 'index.js'));
const OpenAI = require('openai').default;

const { FOREBAY_TEST_URL: url, FOREBAY_TEST_ADMIN: admin, FOREBAY_TEST_MODEL: model } = process.env;
const engines = (process.env.FOREBAY_TEST_ENGINES ?? '').split(',').filter(Boolean);
const skip = new Set((process.env.FOREBAY_TEST_SKIP ?? '').split(','));
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'sk-test', maxRetries: 0, timeout: 60_000 });
const messages = [{ role: 'user', content: 'Name three rivers, and where each of them begins.' }];
// Tokens of an answer that takes longer than any test waits, on a fast engine too.
const LONG = 12_000;

/** The sum of every series of one metric on a Prometheus page; 0 if none. */
async function scrape(base, name) {
  const page = await (await fetch(`${base}/metrics`)).text();
  return page
    .split('\n')
    .filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' ') + 1)), 0);
}

async function overEngines(name) {
  const values = await Promise.all(engines.map((base) => scrape(base, name)));
  return values.reduce((sum, value) => sum + value, 0);
}

async function waitUntil(condition, what) {
  const deadline = Date.now() + 20_000;
  while (!(await condition())) {
    assert.ok(Date.now() < deadline, `${what}: not within 20 s`);
    await new Promise((done) => setTimeout(done, 20));
  }
}

test('models.list names the model', async () => {
  const models = await client.models.list();
  assert.ok(models.data.some((entry) => entry.id === model));
});

test('models.retrieve knows the model', async () => {
  assert.equal((await client.models.retrieve(model)).id, model);
});

test('chat answers', async () => {
  const answer = await client.chat.completions.create({ model, messages, max_tokens: 6 });
  assert.ok(answer.choices[0].message.content);
  assert.ok(answer.usage.prompt_tokens > 0);
  assert.ok(answer.usage.completion_tokens <= 6);
});

test('streamed chat ends once, without usage unless asked', async () => {
  const reasons = [];
  let text = '';
  for await (const chunk of await client.chat.completions.create({ model, messages, max_tokens: 8, stream: true })) {
    assert.ok(!chunk.usage);
    text += chunk.choices[0].delta.content ?? '';
    reasons.push(chunk.choices[0].finish_reason);
  }
  assert.ok(text);
  assert.equal(reasons.filter(Boolean).length, 1);
});

test('streamed chat ends with usage when asked', async () => {
  let last;
  const options = { model, messages, max_tokens: 8, stream: true, stream_options: { include_usage: true } };
  for await (const chunk of await client.chat.completions.create(options)) last = chunk;
  assert.deepEqual(last.choices, []);
  assert.ok(last.usage.completion_tokens > 0);
});

test('completions answer', async () => {
  const answer = await client.completions.create({ model, prompt: 'Once upon a time', max_tokens: 5 });
  assert.ok(answer.choices[0].text);
});

test('embeddings come in order', { skip: skip.has('embeddings') }, async () => {
  const answer = await client.embeddings.create({ model, input: ['one sentence', 'another one'] });
  assert.deepEqual(
    answer.data.map((item) => item.index),
    [0, 1],
  );
  assert.ok(answer.data[0].embedding.length > 1);
});

test('responses answer', async () => {
  const answer = await client.responses.create({ model, input: 'Name a river.', max_output_tokens: 6 });
  assert.ok(answer.output_text);
});

test('an aborted stream ends the work everywhere', { skip: !admin || engines.length === 0 }, async () => {
  const before = await overEngines('vllm:generation_tokens_total');
  const stream = await client.chat.completions.create({ model, messages, max_tokens: LONG, stream: true, ignore_eos: true });
  let read = 0;
  for await (const _ of stream) {
    if (++read === 5) {
      stream.controller.abort();
      break;
    }
  }
  await waitUntil(async () => (await overEngines('vllm:num_requests_running')) === 0, 'the engine still works');
  await waitUntil(async () => (await scrape(admin, 'forebay_endpoint_inflight')) === 0, 'the gateway still counts it');
  assert.ok((await overEngines('vllm:generation_tokens_total')) - before < LONG, 'the whole answer was made');
});

test('an unknown model is a NotFoundError', async () => {
  await assert.rejects(client.chat.completions.create({ model: `${model}x`, messages }), OpenAI.NotFoundError);
});

test('a request without messages is a BadRequestError', async () => {
  await assert.rejects(client.post('/chat/completions', { body: { model } }), (error) => {
    assert.ok(error instanceof OpenAI.BadRequestError);
    assert.match(error.message, /messages/);
    return true;
  });
});
