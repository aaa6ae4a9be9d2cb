"""
A chat program: `memdb.aio` behind a small web page, several people at once.

    pip install "memdb-sqlite[web]"
    python examples/chat_server.py [FILE] [--port 8000] [--model gpt-5-mini]

Without --model it answers from what it remembers. It listens on this machine only and has no
sign-in: it is a start, not a service.
"""

import argparse
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

import memdb
import memdb.aio

PAGE = """<!doctype html><meta charset="utf-8"><title>Chat</title>
<input id="user" value="ann"> <ol id="said"></ol>
<form id="form"><input id="text" autofocus size="60"> <button>Send</button></form>
<script>
const show = (who, text) => {              // text nodes only: what people write is never HTML
  const line = document.createElement("li");
  line.textContent = who + ": " + text;
  said.append(line);
};
form.onsubmit = async (event) => {
  event.preventDefault();
  show(user.value, text.value);
  const body = JSON.stringify({user: user.value, text: text.value});
  text.value = "";
  const headers = {"Content-Type": "application/json"};
  const answer = await fetch("/say", {method: "POST", headers, body});
  show("memory", (await answer.json()).text);
};
</script>"""

Answer = Callable[[dict[str, Any], memdb.Hits], Awaitable[str]]


async def from_memory(_: dict[str, Any], hits: memdb.Hits) -> str:
    """Answer without a model: the best of what is known."""
    return f"I remember: {hits[0].text}" if hits else "I will remember that."


def from_openai(model: str) -> Answer:
    """Ask a model of OpenAI, or of a server that speaks its API (OPENAI_BASE_URL)."""
    from openai import AsyncOpenAI

    client = AsyncOpenAI()

    async def answer(request: dict[str, Any], _: memdb.Hits) -> str:
        response = await client.chat.completions.create(model=model, **request)
        return response.choices[0].message.content or ""

    return answer


def make_app(path: str, answer: Answer = from_memory) -> Starlette:
    """Return the program; the file is open while it runs."""

    @asynccontextmanager
    async def opened(app: Starlette) -> AsyncIterator[None]:
        async with memdb.aio.open(path) as db:
            app.state.db = db
            worker = await db.jobs.start()  # summaries and vectors, while nobody waits
            yield
            worker.stop()

    async def page(_: Request) -> Response:
        return HTMLResponse(PAGE)

    async def say(request: Request) -> Response:
        try:
            given = await request.json()
            person = request.app.state.db.scope(given["user"])
            hits = await person.recall(given["text"], limit=3)
            chat = person.session("web")
            await chat.append("user", given["text"])
            window = await chat.context(budget_tokens=4000, query=given["text"])
            reply = await answer(window.to("openai"), hits)
            await chat.append("assistant", reply)
        except (ValueError, KeyError, TypeError, memdb.InvalidInput) as error:
            return JSONResponse({"text": f"not understood: {error}"}, status_code=422)
        return JSONResponse({"text": reply})

    routes = [Route("/", page), Route("/say", say, methods=["POST"])]
    return Starlette(routes=routes, lifespan=opened)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("file", nargs="?", default="chat.db")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--model")
    options = parser.parse_args()
    app = make_app(options.file, from_openai(options.model) if options.model else from_memory)
    uvicorn.run(app, host="127.0.0.1", port=options.port)
