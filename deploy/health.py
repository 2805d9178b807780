"""Health check of a live run: `health.py [URL]`; exit code 0 if healthy, 1 if not or no response.

Uses only the standard library. If the run requires a token, set HEADRACE_WEB_TOKEN.
"""

import os
import sys
import urllib.error
import urllib.request

URL = "http://127.0.0.1:8686/health"
TIMEOUT_SECONDS = 5


def main() -> None:
    request = urllib.request.Request(sys.argv[1] if len(sys.argv) > 1 else URL)
    token = os.environ.get("HEADRACE_WEB_TOKEN")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:
            print(response.read().decode())
    except urllib.error.HTTPError as error:
        sys.exit(error.read().decode())
    except OSError as error:
        sys.exit(f"no response from {request.full_url}: {error}")


main()
