// Embeddings with the official client: npm ci && node embed.mjs [BASE_URL]
import OpenAI from "openai";

const client = new OpenAI({ baseURL: `${process.argv[2] ?? "http://localhost:3000"}/v1`, apiKey: "none", maxRetries: 0 });
const input = ["How do I lock a file?", "Use flock."];
// The client requests base64 and decodes it.
const answer = await client.embeddings.create({ model: "prefold-mini", input });
console.log(JSON.stringify(answer.data.map((item) => Array.from(item.embedding))));
