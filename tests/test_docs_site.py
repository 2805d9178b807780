"""The site built by `make docs`: links, search, and pages in an offline browser."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from missing import missing
from report.chromium import Page

SITE = Path(__file__).parents[1] / "build" / "site"
SERVED_ONLY = "404.html"
"""Its links are absolute paths on a server."""
pytestmark = pytest.mark.slow


class Html(HTMLParser):
    """A page of the site: its ids, its links, and the files that it loads."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.ids = set[str]()
        self.links = list[str]()
        self.files = list[str]()
        self.feed(file.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value for name, value in attrs if value}
        self.ids.add(found.get("id", ""))
        links = self.links if tag == "a" else self.files
        links += [found[name] for name in ("href", "src", "srcset") if name in found]


@pytest.fixture(scope="module")
def pages() -> dict[Path, Html]:
    """Return file → page of the site."""
    files = [file for file in sorted(SITE.rglob("*.html")) if file.name != SERVED_ONLY]
    return {file: Html(file) for file in files} or missing("the site is not built", "make docs")


def test_links_lead_to_pages_and_headings_and_nothing_is_loaded_from_elsewhere(pages):
    dead = []
    for file, html in pages.items():
        outside = [link for link in html.links if urlsplit(link).scheme in ("http", "https")]
        for link in {*html.links, *html.files} - {*outside}:
            name, heading = unquote(urlsplit(link).path), unquote(urlsplit(link).fragment)
            target = (file.parent / name).resolve() if name else file
            known = pages[target].ids if target in pages else {heading}
            if urlsplit(link).netloc or not target.is_file() or heading not in {"", *known}:
                dead.append((str(file.relative_to(SITE)), link))
    assert dead == []


def test_no_page_scrolls_horizontally_or_requests_other_sites(pages, page: Page):
    wide = []
    for file in pages:
        page.show(file, width=1280)
        for width in (1280, 390):
            page.resize(width)
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                wide.append((str(file.relative_to(SITE)), width))
    assert wide == []
    assert page.console == []
    assert [each for each in page.requested if not each.startswith(SITE.as_uri())] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_follows_the_scheme_of_the_system(pages, page: Page, scheme):
    page.show(SITE / "index.html", width=390, scheme=scheme)
    assert (page.brightness() > 128) is (scheme == "light")


def test_search_finds_a_guide_on_pages_opened_from_disk(pages, page: Page):
    page.show(SITE / "index.html", width=1280)
    page.evaluate("document.querySelector('label[for=__search]').click()")
    field = "[...document.querySelectorAll('body > div')].find(each => each.shadowRoot).shadowRoot"
    page.wait_for(f"{field}.activeElement")
    page.call("Input.insertText", text="frames that wait")
    page.wait_for(f"{field}.textContent.includes('Frames that wait')")
    assert page.console == []
