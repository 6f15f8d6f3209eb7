"""/docs in a real browser: an operation is opened and executed."""

import os
import shutil
from pathlib import Path

import pytest

from harness import ROOT, Server

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="make test-clients installs it")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium (Debian: apt-get install chromium, or set CHROMIUM)")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def artefacts():
    """Directory of screenshots, outside the repository."""
    path = Path(os.environ.get("PREFOLD_ARTEFACTS", ROOT / "target" / "artefacts"))
    path.mkdir(parents=True, exist_ok=True)
    return path


def execute(page, name):
    """Opens and executes the operation; returns the status shown by the page."""
    operation = page.locator(f"#operations-{name}")
    operation.locator(".opblock-summary-control").click()
    operation.get_by_role("button", name="Try it out").click()
    if operation.locator("textarea.body-param__text").count():
        operation.locator("textarea.body-param__text").fill('{"inputs": ["How do I lock a file?"], "dimensions": 4}')
    operation.get_by_role("button", name="Execute").click()
    status = operation.locator(".live-responses-table .response .response-col_status").first
    status.wait_for()
    return status.inner_text().split()[0]


def test_an_operation_is_tried_on_the_page(browser, builtin):
    page = browser.new_page(viewport={"width": 1280, "height": 1600})
    problems, asked = [], []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(builtin.url("/docs/"))
    page.wait_for_selector(".opblock")
    assert "prefold" in page.locator(".info .title").inner_text()
    assert execute(page, "text-embeddings-inference-embed") == "200"
    body = page.locator("#operations-text-embeddings-inference-embed .live-responses-table .response .response-col_description")
    assert "-0.41" in body.first.inner_text()
    page.screenshot(path=artefacts() / "docs.png", full_page=True)
    assert execute(page, "Server-ready") == "200"
    assert problems == []
    # The page loads nothing from other hosts.
    assert all(url.startswith((builtin.url(), "data:", "blob:")) for url in asked), asked
    page.close()


def test_the_page_takes_the_key(browser):
    with Server("--api-key", "sesame") as server:
        page = browser.new_page()
        page.goto(server.url("/docs/"))
        page.wait_for_selector(".opblock")
        assert execute(page, "text-embeddings-inference-info") == "401"
        page.locator(".auth-wrapper .authorize").first.click()
        page.locator(".auth-container input").fill("sesame")
        page.locator(".auth-btn-wrapper .authorize").click()
        page.locator(".auth-btn-wrapper .btn-done").click()
        operation = page.locator("#operations-text-embeddings-inference-info")
        operation.get_by_role("button", name="Execute").click()
        page.wait_for_function(
            "document.querySelector('#operations-text-embeddings-inference-info .live-responses-table "
            ".response .response-col_status').innerText.startsWith('200')")
        page.close()
