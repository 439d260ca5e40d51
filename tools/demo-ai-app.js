// A small program that answers questions from papers (RAG), as many are written: embeddings, a vector database, a model that
// streams, all by their real SDKs. `naive` leaves the SDKs as they come; `careful` has deadlines and something to fall back to.
//
//     node demo-ai-app.js naive|careful        a JSON line in: {"number", "models"}, one out: what its user saw
"use strict";

const { OpenAI } = require("openai");
const { ChromaClient } = require("chromadb");

const careful = process.argv[2] === "careful";
const QUESTION = "which index keeps a vector search fast";
const PAPERS = ["an index of small worlds", "a cache for prompts", "queues and their limits", "the cost of retries"];
const WORDS = 40;
const EMBED_MS = 3000, SEARCH_MS = 3000, FIRST_WORD_MS = 6000, ANSWER_MS = 20000;

const options = careful ? { maxRetries: 0 } : {}; // who has a second place to ask need not ask the first one three times
const server = (at) => new OpenAI({ baseURL: `http://${at}/v1`, apiKey: "none", ...options });
const embedder = server("127.0.0.1:7997");
const models = { local: server("127.0.0.1:11434"), provider: server("api.openai.com:443") };

// A deadline for something that has none.
function within(ms, promise) {
  if (!careful) return promise;
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new Error(`no answer in ${ms} ms`)), ms); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

const vectorOf = async (text) => (await embedder.embeddings.create({ model: "tiny", input: text })).data[0].embedding;

const papers = () => new ChromaClient({ host: "127.0.0.1", port: 8000 }).getOrCreateCollection({
  name: "papers", embeddingFunction: null });

async function fill() {
  const collection = await papers();
  const embeddings = [];
  for (const text of PAPERS) embeddings.push(await vectorOf(text));
  await collection.upsert({ ids: PAPERS.map((_, i) => String(i)), documents: PAPERS, embeddings });
}

async function search() {
  const vector = await within(EMBED_MS, vectorOf(QUESTION));
  const found = await within(SEARCH_MS, papers().then((all) => all.query({ queryEmbeddings: [vector], nResults: 1 })));
  return found.documents[0][0];
}

// What to do without vectors: the paper that shares the most words with the question.
function keywords() {
  const shared = (text) => text.split(" ").filter((word) => QUESTION.includes(word)).length;
  return [...PAPERS].sort((a, b) => shared(b) - shared(a))[0];
}

async function answer(model, context, seen, start) {
  const messages = [{ role: "user", content: `${context}: ${QUESTION}` }];
  const stop = new AbortController();
  const timer = careful && setTimeout(() => stop.abort(), ANSWER_MS);
  let end = null;
  try {
    const stream = await within(FIRST_WORD_MS, models[model].chat.completions.create(
      { model: "tiny", messages, max_tokens: WORDS, temperature: 0, stream: true }, { signal: stop.signal }));
    for await (const event of stream) {
      if (event.choices[0]?.delta?.content) {
        seen.words += 1;
        seen.first_ms ??= Math.round(performance.now() - start);
      }
      end = event.choices[0]?.finish_reason ?? end;
    }
  } finally {
    clearTimeout(timer);
  }
  if (careful && !end) throw new Error("the answer is cut");
}

function word(error) {
  let deepest = error;
  while (deepest.cause) deepest = deepest.cause;
  return `${error.constructor.name}: ${deepest.code ?? error.message}`.slice(0, 60);
}

async function ask(todo) {
  const start = performance.now();
  const seen = { number: todo.number, words: 0, of: WORDS, fallbacks: [] };
  try {
    let context;
    try {
      context = await search();
    } catch (error) {
      if (!careful) throw error;
      seen.fallbacks.push(`keywords (${word(error)})`);
      context = keywords();
    }
    for (const [i, model] of todo.models.entries()) {
      try {
        seen.words = 0;
        await answer(model, context, seen, start);
        break;
      } catch (error) {
        if (!careful || i === todo.models.length - 1) throw error;
        seen.fallbacks.push(`${todo.models[i + 1]} (${word(error)})`);
      }
    }
  } catch (error) {
    seen.error = word(error);
  }
  return { ...seen, ms: Math.round(performance.now() - start) };
}

process.on("unhandledRejection", () => {}); // of a promise that lost its race
require("readline").createInterface({ input: process.stdin })
  .on("line", async (line) => console.log(JSON.stringify(await ask(JSON.parse(line)))))
  .on("close", () => process.exit(0));
const ready = (what) => console.log(JSON.stringify({ number: 0, ...what }));
fill().then(() => ready({ ready: process.version }), (error) => ready({ error: String(error) }));
