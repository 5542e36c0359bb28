// A client made of the OpenAPI document: openapi-typescript gives the types, openapi-fetch the calls.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const [baseUrl, token] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });

function check(holds: boolean, what: string): void {
  if (!holds) throw new Error(what);
}

const topic = `ts${Date.now()}`;
const path = { topic };
const made = await client.PUT("/v1/log/{topic}", { params: { path }, body: { partitions: 1, retention: "7d" } });
check(made.data?.partitions === 1 && made.data.retention === "7d", "the topic is made");

const sent = await client.POST("/v1/log/{topic}", {
  params: { path },
  body: { messages: [{ key: "a", value: "hello" }, { value: { base64: "/w==" } }] },
});
const first: string | undefined = sent.data?.appended[0]?.first_offset;
check(first === "1", "offsets are strings");

const read = await client.GET("/v1/log/{topic}/messages", { params: { path, query: { from: "earliest" } } });
const values = read.data?.messages.map(({ value }) => (typeof value === "string" ? value : value?.base64));
check(JSON.stringify(values) === '["hello","/w=="]', "messages are read");

const published = await client.POST("/v1/broker/events", { body: { topic, payload: { order: 7 } } });
check(typeof published.data?.event_ids[0] === "string", "an event is published");
const groups = await client.GET("/v1/broker/groups");
check(Array.isArray(groups.data), "groups are listed");

const key = `user:${topic}`;
const put = await client.PUT("/v1/kv/{key}", { params: { path: { key } }, body: { name: "Ann" } as never });
check(put.data?.answer === "INSERT" && put.response.status === 201, "a key is put");

const missing = await client.GET("/v1/log/{topic}", { params: { path: { topic: "nowhere" } } });
const problem: components["schemas"]["Problem"] | undefined = missing.error;
check(problem?.code === "TL404" && typeof problem.hint === "string", "refusals have their type");

await client.DELETE("/v1/log/{topic}", { params: { path } });
console.log("all is well");
