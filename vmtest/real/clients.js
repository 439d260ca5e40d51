// Real JavaScript clients, told what to do: a JSON line in, {"id", "do", ...}, a JSON line out, {"id", "ms"} with "value" or
// "error", in the order in which things end. An error is the classes and the codes of it and its causes. Every call is a new
// client with the defaults of its library, but for the timeout that it is given; `keep` asks for one that lives on with its
// connection, `secure` for TLS, whatever the certificate.
"use strict";

const readline = require("readline");

const MODEL = "tiny";
const messages = [{ role: "user", content: "what is a vector database" }];

const model = (todo) => (todo.secure ? `https://${todo.at}:8443` : `http://${todo.at}:8080`);

const made = {
  openai: (todo) => new (require("openai").OpenAI)({
    baseURL: model(todo) + "/v1", apiKey: "none", timeout: todo.timeout }),
  anthropic: (todo) => new (require("@anthropic-ai/sdk").Anthropic)({
    baseURL: model(todo), apiKey: "none", timeout: todo.timeout }),
  chroma: (todo) => new (require("chromadb").ChromaClient)({ host: todo.at, port: 8000, ssl: false }),
};

const redises = new Map(); // those that wait for something, and where
const kept = new Map(); // those that live on, by where

const vector = (number) => [1, number, number * number];

// What a stream was, as far as it came: a client that only iterates learns no more.
async function follow(stream, wordOf, endOf) {
  const seen = { words: 0, end: null };
  const start = performance.now();
  try {
    for await (const event of stream) {
      if (wordOf(event)) {
        seen.first_ms ??= performance.now() - start;
        seen.words += 1;
      }
      seen.end = endOf(event) ?? seen.end;
    }
  } catch (error) {
    error.seen = seen;
    throw error;
  }
  return seen;
}

const calls = {
  async openai(todo) {
    const answer = await made.openai(todo).chat.completions.create({ model: MODEL, messages, max_tokens: 6, temperature: 0 });
    return answer.choices[0].message.content.trim().split(" ").length;
  },
  async openai_stream(todo) {
    const stream = await made.openai(todo).chat.completions.create({
      model: MODEL, messages, max_tokens: todo.words, temperature: 0, stream: true });
    return follow(stream, (event) => event.choices[0]?.delta?.content, (event) => event.choices[0]?.finish_reason);
  },
  async anthropic(todo) {
    const answer = await made.anthropic(todo).messages.create({ model: MODEL, messages, max_tokens: 6, temperature: 0 });
    return answer.content[0].text.trim().split(" ").length;
  },
  async anthropic_stream(todo) {
    const stream = await made.anthropic(todo).messages.create({
      model: MODEL, messages, max_tokens: todo.words, temperature: 0, stream: true });
    return follow(stream, (event) => event.type === "content_block_delta", (event) => event.delta?.stop_reason);
  },
  async chroma_fill(todo) {
    const numbers = [...Array(todo.count).keys()];
    const collection = await made.chroma(todo).createCollection({ name: "papers", embeddingFunction: null });
    await collection.add({ ids: numbers.map(String), embeddings: numbers.map(vector) });
    return collection.count();
  },
  async chroma(todo) {
    const collection = await made.chroma(todo).getCollection({ name: "papers", embeddingFunction: null });
    const found = await collection.query({ queryEmbeddings: [vector(3)], nResults: 2 });
    return found.ids[0];
  },
  async ioredis(todo) {
    const redis = (todo.keep && kept.get(todo.at)) || new (require("ioredis"))({ host: todo.at, port: 6379, ...todo.options });
    redis.on("error", () => {}); // what matters is what the command says
    redises.set(redis, todo.at);
    if (todo.keep) kept.set(todo.at, redis);
    try {
      return await redis.get("greeting");
    } finally {
      redises.delete(redis);
      if (!todo.keep) redis.disconnect();
    }
  },
  async give_up(todo) {
    const found = [...redises].filter(([, at]) => at === todo.at);
    for (const [redis] of found) redis.disconnect();
    return found.length;
  },
  async load() { // reading the libraries takes long, and is nobody's latency
    for (const name of ["openai", "@anthropic-ai/sdk", "chromadb", "ioredis"]) require(name);
    return process.version;
  },
};

function wordsOf(error) {
  const words = { classes: [], codes: [], message: String(error.message).slice(0, 200), seen: error.seen };
  for (let one = error; one && words.classes.length < 8; one = one.cause) {
    words.classes.push(one.constructor?.name ?? typeof one);
    if (one.code) words.codes.push(one.code);
  }
  return words;
}

async function run(todo) {
  const start = performance.now();
  const answer = { id: todo.id };
  try {
    answer.value = await calls[todo.do](todo);
  } catch (error) {
    answer.error = wordsOf(error);
  }
  answer.ms = Math.round(performance.now() - start);
  process.stdout.write(JSON.stringify(answer) + "\n");
}

process.on("unhandledRejection", (error) => console.error("unhandled:", error)); // a library's, not ours
readline.createInterface({ input: process.stdin }).on("line", (line) => run(JSON.parse(line))).on("close", () => process.exit(0));
