"""Access to the page: only with the token, which no answer contains; and what headers forbid browsers to do."""

from __future__ import annotations

import html
import logging
import re
from typing import TYPE_CHECKING

import pytest

from catalog_ext.page.sign_in import SESSION_S, Sessions, WrongTokens
from catalog_ext.service.server import Service
from tests.kit.page_cases import Visitor, fill_with_everything, looking_at
from tests.kit.service_client import Client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_ext.catalog import Catalog

PAGES = ("/ui/", "/ui/activity", "/ui/table/sales/trips", "/ui/table/no/such", "/ui/nothing")


@pytest.fixture
def service(catalog: Catalog) -> Iterator[Service]:
    with Service(catalog, page=True) as service:
        yield service


@pytest.fixture
def visitor(service: Service) -> Visitor:
    """A visitor who has not signed in."""
    return Visitor(service)


def test_nothing_is_seen_without_signing_in(visitor: Visitor) -> None:
    for path in PAGES:
        answer = visitor.get(path)
        assert (answer.status, answer.text) == (303, "")
        assert answer.headers["location"].startswith("/ui/sign-in")
    visitor.cookies = {f"catalog_ext_page_{_port(visitor)}": "made-up"}
    assert visitor.get("/ui/").status == 303


def _port(visitor: Visitor) -> str:
    return visitor.address.rpartition(":")[2]


def test_who_signs_in_comes_to_the_page_that_was_asked_for(visitor: Visitor) -> None:
    asked = visitor.get("/ui/activity").headers["location"]
    assert asked == "/ui/sign-in?to=%2Fui%2Factivity"
    page = visitor.page(asked)
    assert 'name="to" value="/ui/activity"' in page
    assert "spark.sql.catalog.<bdi>lake</bdi>.token-file</code>" in page, "a session has it in no setting"
    answer = visitor.sign_in(to="/ui/activity")
    assert (answer.status, answer.headers["location"]) == (303, "/ui/activity")
    assert "Under way" in visitor.page("/ui/activity")


@pytest.mark.parametrize(
    "to", ["//elsewhere.example/", "https://elsewhere.example/ui/", "/ui/\\\\elsewhere", "/v1/ping"]
)
def test_sign_in_redirects_only_to_own_pages(visitor: Visitor, to: str) -> None:
    assert 'name="to" value=""' in visitor.page("/ui/sign-in", to=to)
    assert visitor.sign_in(to=to).headers["location"] == "/ui/"


def test_who_comes_from_elsewhere_is_asked_to_come_from_here(visitor: Visitor) -> None:
    asked = "/ui/sign-in?to=%2Fui%2Factivity"
    for site in ("cross-site", "same-site"):
        answer = visitor.ask("GET", asked, headers={"Sec-Fetch-Site": site})
        assert 'content="0; url=/ui/sign-in?to=%2Fui%2Factivity"' in answer.text
        assert (answer.status, answer.cookies, "<form" in answer.text) == (200, [], False)
    hostile = visitor.ask("GET", "/ui/sign-in?to=//elsewhere.example/%22%3E", headers={"Sec-Fetch-Site": "cross-site"})
    assert 'content="0; url=/ui/sign-in"' in hostile.text
    for site in ("same-origin", "none"):
        assert "<form" in visitor.ask("GET", asked, headers={"Sec-Fetch-Site": site}).text
    visitor.sign_in()
    assert visitor.get(asked).headers["location"] == "/ui/activity"
    assert visitor.get("/ui/sign-in?to=https://elsewhere.example/").headers["location"] == "/ui/"


def test_the_cookie_is_for_this_page_alone_and_is_not_the_token(service: Service, visitor: Visitor) -> None:
    visitor.sign_in()
    (cookie,) = visitor.cookies.values()
    assert service.token not in cookie
    assert len(cookie) >= 43
    reported = Visitor(service).sign_in().cookies[0]
    assert {part.strip() for part in reported.split(";")[1:]} == {
        "HttpOnly", "SameSite=strict", "Path=/ui", f"Max-Age={SESSION_S}",
    }  # fmt: skip


def test_the_cookie_is_for_tls_alone_behind_a_proxy_that_has_it(visitor: Visitor) -> None:
    # Trusted from the loopback interface alone, as uvicorn has it by default.
    answer = visitor.sign_in(X_Forwarded_Proto="https", Origin=f"https://{visitor.address}")
    assert "Secure" in {part.strip() for part in answer.cookies[0].split(";")}


def test_a_wrong_token_is_no_way_in_and_five_are_enough(
    visitor: Visitor, caplog: pytest.LogCaptureFixture
) -> None:  # fmt: skip
    for _ in range(5):
        answer = visitor.sign_in("wrong")
        assert answer.status == 401
        assert "not the service" in answer.text
    answer = visitor.sign_in()
    assert answer.status == 429
    assert 0 < int(answer.headers["retry-after"]) <= 61
    assert visitor.get("/ui/").status == 303
    assert [record.getMessage() for record in caplog.records if "wrong token" in record.getMessage()] == [
        "A client at 127.0.0.1 gave the page a wrong token"
    ] * 5


def test_form_of_another_site_is_refused(visitor: Visitor, service: Service) -> None:
    right = {"token": service.token, "to": ""}
    assert visitor.post("/ui/sign-in", right).status == 403
    assert visitor.post("/ui/sign-in", {**right, "key": "made-up"}).status == 403
    stolen = Visitor(service).form_key()
    assert visitor.post("/ui/sign-in", {**right, "key": stolen}).status == 403
    for said in ({"Origin": "https://elsewhere.example"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"}):
        assert visitor.sign_in(**said).status == 403
    assert visitor.sign_in(Origin=f"http://{visitor.address}", Sec_Fetch_Site="same-origin").status == 303
    assert visitor.post("/ui/sign-out", {"key": "made-up"}).status == 403
    assert visitor.get("/ui/").status == 200


def test_the_forms_of_several_tabs_are_good(visitor: Visitor, service: Service) -> None:
    first = visitor.form_key()
    asked = {"key": first, "token": service.token, "to": "/ui/activity"}
    assert visitor.form_key() == first
    assert visitor.post("/ui/sign-in", asked).headers["location"] == "/ui/activity"
    session = dict(visitor.cookies)
    # The other tab, which still shows its form, is sent on as well; nothing is signed in anew.
    answer = visitor.post("/ui/sign-in", {**asked, "token": "wrong"})
    assert (answer.status, answer.headers["location"], visitor.cookies) == (303, "/ui/activity", session)
    assert visitor.post("/ui/sign-in", asked, Sec_Fetch_Site="same-site").status == 403


def test_foreign_cookie_is_not_taken_for_a_form(visitor: Visitor) -> None:
    name = f"catalog_ext_page_{_port(visitor)}_form"
    for made_up in ("x", "x" * 4000, "a;b", "<b>"):
        visitor.cookies = {name: made_up}
        visitor.form_key()
        assert visitor.cookies[name] != made_up


def test_who_signs_out_is_out_on_every_screen(visitor: Visitor, service: Service) -> None:
    visitor.sign_in()
    other = Visitor(service)
    other.cookies = dict(visitor.cookies)
    assert visitor.post("/ui/sign-out", {"key": visitor.form_key("/ui/", "sign-out")}).status == 303
    assert visitor.cookies == {}
    assert other.get("/ui/").status == 303


def test_a_session_ends_after_twelve_hours_and_there_are_not_too_many() -> None:
    now = [0.0]
    sessions = Sessions(["token"], lambda: now[0])
    first = sessions.open("token")
    assert sessions.open("tokem") is None
    assert sessions.is_open(first)
    now[0] = SESSION_S
    assert not sessions.is_open(first)
    kept = [sessions.open("token") for _ in range(1001)]
    assert not sessions.is_open(kept[0])
    assert all(map(sessions.is_open, kept[1:]))


def test_the_throttle_is_of_each_address_and_ends() -> None:
    now = [0.0]
    wrong = WrongTokens(lambda: now[0])
    for second in range(5):
        now[0] = second
        assert wrong.wait_s("one") == 0
        wrong.note("one")
    assert wrong.wait_s("one") == 56
    assert wrong.wait_s("other") == 0
    now[0] = 60
    assert wrong.wait_s("one") == 0


def test_every_answer_has_the_headers_that_keep_a_browser_from_more(visitor: Visitor) -> None:
    before = [visitor.get(path) for path in ("/", *PAGES, "/ui/sign-in", "/ui/static/page.css", "/ui/static/../x")]
    visitor.sign_in()
    for answer in (*before, *map(visitor.get, PAGES)):
        policy = dict(part.strip().partition(" ")[::2] for part in answer.headers["content-security-policy"].split(";"))
        assert policy == {
            "default-src": "'none'", "style-src": "'self'", "script-src": "'self'", "img-src": "'self'",
            "form-action": "'self'", "frame-ancestors": "'none'", "base-uri": "'none'",
        }  # fmt: skip
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == ("no-cache" if "etag" in answer.headers else "no-store")


@pytest.mark.slow
def test_the_token_is_in_no_answer_and_no_log(catalog: Catalog, caplog: pytest.LogCaptureFixture) -> None:
    fill_with_everything(catalog)
    with caplog.at_level(logging.DEBUG), looking_at(catalog, signed_in=False) as visitor:
        said = [visitor.get("/ui/sign-in"), visitor.sign_in("wrong" + visitor.token), visitor.sign_in()]
        said += map(visitor.get, PAGES)
        token = visitor.token
    assert len(visitor.cookies) == 1
    assert all(token not in answer.text and token not in str(answer.headers) for answer in said)
    assert token not in caplog.text
    assert not any(cookie in caplog.text for cookie in visitor.cookies.values())


def test_one_can_sign_in_from_a_long_address(visitor: Visitor, service: Service) -> None:
    for where in ("k = 'ä'" + " OR k = 'ä'" * 40, "k = 'ä'" + " OR k = 'ä'" * 250):
        asked = visitor.get("/ui/table/s/t", where=where).headers["location"]
        to = html.unescape(re.findall(r'name="to" value="([^"]*)"', visitor.page(asked))[0])
        answer = visitor.sign_in(to=to)
        assert (answer.status, answer.headers["location"]) == (303, to or "/ui/")
        assert bool(to) is (len(where) < 1000), "one that is too long is not kept"
        visitor.cookies = {}


def test_a_form_that_is_too_long_is_not_read(visitor: Visitor) -> None:
    assert visitor.post("/ui/sign-in", {"key": visitor.form_key(), "to": "", "token": "x" * 20_000}).status == 403


def test_nothing_can_be_changed_through_the_page(visitor: Visitor) -> None:
    visitor.sign_in()
    for path in ("/ui/", "/ui/activity", "/ui/table/sales/trips"):
        assert visitor.post(path, {}).status == 405


@pytest.mark.slow
def test_a_service_without_the_page_answers_as_ever(catalog: Catalog) -> None:
    with Service(catalog) as service:
        assert service.page_uri is None
        for path in ("/", "/ui/", "/ui/sign-in"):
            assert Client(service).send(path, method="GET", token=None).error["code"] == "CATALOG_EXT_UNAUTHORIZED"
        assert service.show_page() == service.page_uri == f"{service.uri}/ui/"
        assert Visitor(service).get("/ui/sign-in").status == 200
        assert Client(service).call("ping").json["service"] == "catalog-ext"
        assert Client(service).send("/v1/ping", token=None).status == 401
