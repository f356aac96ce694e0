"""What the Python suites share: where the gateway is, and how to read gauges."""

import os
import re
import time
import urllib.error
import urllib.request

URL = os.environ.get("FOREBAY_TEST_URL", "").rstrip("/")
ADMIN = os.environ.get("FOREBAY_TEST_ADMIN", "").rstrip("/")
MODEL = os.environ.get("FOREBAY_TEST_MODEL", "")
ADAPTER = os.environ.get("FOREBAY_TEST_ADAPTER", "")
ENGINES = [url for url in os.environ.get("FOREBAY_TEST_ENGINES", "").split(",") if url]
SKIP = {name for name in os.environ.get("FOREBAY_TEST_SKIP", "").split(",") if name}

MESSAGES = [{"role": "user", "content": "Name three rivers, and where each of them begins."}]
WAIT_LIMIT = 20.0


def scrape(base, name):
    """The sum of every series of one metric on a Prometheus page; 0 if none."""
    # A busy engine may take its time over this page.
    with urllib.request.urlopen(base + "/metrics", timeout=60) as answer:
        page = answer.read().decode()
    series = re.compile(r"^" + re.escape(name) + r"(?:\{[^\n]*\})? ([^ \n]+)", re.M)
    return sum(float(value) for value in series.findall(page))


def inflight():
    """Requests that the gateway has sent and that are not finished."""
    return scrape(ADMIN, "forebay_endpoint_inflight")


def engines(name):
    """The sum of one metric over the engines that are up."""
    total = 0.0
    for base in ENGINES:
        try:
            total += scrape(base, name)
        except urllib.error.URLError as error:
            # One that was ended on purpose; silence is not the same.
            if not isinstance(error.reason, (ConnectionRefusedError, ConnectionResetError)):
                raise
    return total


def running():
    """Requests that the engines run or hold in their queues."""
    return engines("vllm:num_requests_running") + engines("vllm:num_requests_waiting")


def wait_until(condition, what, limit=WAIT_LIMIT):
    """Waits for a condition; fails with `what` when it does not come true."""
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {limit:.0f} s")
        time.sleep(0.01)
