"""Ask a run whether it is well: `health.py [URL]`; exit code 0 if it is, 1 if not or no answer.

Needs Python alone. Its token is that of HEADRACE_WEB_TOKEN, where the run asks for one.
"""

import os
import sys
import urllib.error
import urllib.request

URL = "http://127.0.0.1:8686/health"
SECONDS = 5


def main() -> None:
    request = urllib.request.Request(sys.argv[1] if len(sys.argv) > 1 else URL)
    token = os.environ.get("HEADRACE_WEB_TOKEN")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            print(answer.read().decode())
    except urllib.error.HTTPError as error:
        sys.exit(error.read().decode())
    except OSError as error:
        sys.exit(f"no answer from {request.full_url}: {error}")


main()
