import { PenstockError, type Problem } from "./errors.js";
import type { components } from "./openapi.js";

type Message = components["schemas"]["Message"];

/** The messages in a response of server-sent events, until the event `end`. `error` is thrown. */
export async function* messagesOf(response: Response): AsyncGenerator<Message> {
  if (response.body === null) return;
  const reader = response.body.pipeThrough(new TextDecoderStream() as ReadableWritablePair).getReader();
  let text = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      text += value as string;
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const event = fieldsOf(text.slice(0, end));
        text = text.slice(end + 2);
        if (event.get("event") === "end") return;
        if (event.get("event") === "error") {
          const problem = JSON.parse(event.get("data") ?? "{}") as Partial<Problem>;
          throw new PenstockError(problem.status ?? 0, problem);
        }
        if (event.get("event") === "message") yield JSON.parse(event.get("data") ?? "") as Message;
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

function fieldsOf(event: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const line of event.split("\n")) {
    const colon = line.indexOf(":");
    if (colon > 0) found.set(line.slice(0, colon), line.slice(colon + 1).replace(/^ /, ""));
  }
  return found;
}
