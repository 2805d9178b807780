"""A run is served over real HTTP, to who may ask, and nobody holds it."""

from sinks.web.asking import ask
from sinks.web.faked_run import faked_run, seen

def test_the_page():
    with faked_run() as run:
        for p in ["/", "/page.css", "/page.js", "/status.json", "/metrics", "/health", "/x", "/page/page.js", "/..%2f"]:
            r = ask(run, p)
            print(p, r.status, r.headers, r.body[:200])
        run.view.write(seen(1))
        r = ask(run, "/picture.jpg")
        print(r.status, r.headers, len(r.body))
        print(ask(run, "/metrics").text)
    assert 0
