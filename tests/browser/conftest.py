"""Debian's chromium, driven by playwright, and a server of files."""

import shutil
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

# For readable.py, and for runs.py and hostile.py, the fake journals.
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "analyse")]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def browser():
    where = shutil.which("chromium")
    if where is None:
        pytest.skip("chromium is not installed: apt-get install chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=where, args=["--no-sandbox"])  # of our own pages only
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def serve():
    servers = []

    def served(folder):
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/"

    yield served
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.fixture
def visit(browser):
    """Opens pages of a server; at the end nothing was said on a console and nobody else was asked."""
    contexts, faults = [], []

    def visited(at, path, **options):
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: None if request.url.startswith(at) else faults.append(request.url))
        page.on("response", lambda response: faults.append(response.url) if response.status >= 400 else None)
        page.goto(at + path)
        return page

    yield visited
    for context in contexts:
        context.close()
    assert faults == []
