"""A server of OpenAI's protocol on 127.0.0.1, scripted by each test."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class Exchange:
    """One request, and the means to answer it."""

    def __init__(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        """Hold what came in."""
        self.handler = handler
        self.body = body
        self.path = handler.path
        self.headers = handler.headers

    def send(
        self,
        body: str | bytes,
        *,
        status: int = 200,
        kind: str = "application/json",
        **headers: str,
    ) -> None:
        """Answer at once."""
        data = body.encode() if isinstance(body, str) else body
        self.handler.send_response(status)
        self.handler.send_header("Content-Type", kind)
        self.handler.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.handler.send_header(name.replace("_", "-"), value)
        self.handler.end_headers()
        self.handler.wfile.write(data)

    def error(self, status: int, message: str = "no", **fields: Any) -> None:
        """Answer with an error in OpenAI's form."""
        headers = {k: v for k, v in fields.items() if k[0].isupper()}
        facts = {k: v for k, v in fields.items() if not k[0].isupper()}
        body = json.dumps({"error": {"message": message, **facts}})
        self.send(body, status=status, **headers)

    def open_stream(self) -> None:
        """Begin a stream of events that ends with the connection."""
        self.handler.send_response(200)
        self.handler.send_header("Content-Type", "text/event-stream")
        self.handler.send_header("Connection", "close")
        self.handler.end_headers()
        self.handler.close_connection = True

    def write(self, text: str) -> None:
        """Send some bytes of an open stream now."""
        self.handler.wfile.write(text.encode())
        self.handler.wfile.flush()

    def piece(self, text: str | None = None, finish: str | None = None, **delta: Any) -> None:
        """Send a chunk of a chat completion."""
        delta = {"content": text, **delta}
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        self.write(f"data: {json.dumps({**chunk, 'choices': [choice]})}\n\n")

    def say(self, *pieces: str) -> None:
        """Answer with a whole stream."""
        self.open_stream()
        for piece in pieces:
            self.piece(piece)
        self.piece(None, "stop")
        self.write("data: [DONE]\n\n")


class Server:
    """Answers each request by `answer`; `requests` are those that came."""

    def __init__(self) -> None:
        """Listen on a free port."""
        self.requests: list[Exchange] = []
        self.answer: Callable[[Exchange], object] = lambda exchange: exchange.say("hello")
        self.released = threading.Event()
        self.dropped = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                exchange = Exchange(self, json.loads(self.rfile.read(length)))
                owner.requests.append(exchange)
                try:
                    owner.answer(exchange)
                except OSError:
                    owner.dropped.set()
                    self.close_connection = True

            def log_message(self, *_args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.address = f"127.0.0.1:{self._http.server_port}"
        self.url = f"http://{self.address}/v1"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def in_turn(self, *answers: Callable[[Exchange], object]) -> None:
        """Answer each request by the next of *answers*, the last for all that follow."""
        self.answer = lambda exchange: answers[min(len(self.requests), len(answers)) - 1](exchange)

    def close(self) -> None:
        """Let what hangs go on, and stop."""
        self.released.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Return a server, reached without any proxy of the machine."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    server = Server()
    yield server
    server.close()
