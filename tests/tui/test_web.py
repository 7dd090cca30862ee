"""The dashboard in a browser: only for who has the whole address."""

import asyncio

import aiohttp


async def test_without_the_key_everything_is_refused(address: str) -> None:
    """Page, files and socket: 403, with a wrong key too."""
    base = address.partition("?")[0]
    async with aiohttp.ClientSession() as session:
        for path in ("", "?key=wrong", "static/js/textual.js", "ws?width=80&height=24"):
            async with session.get(base + path) as answer:
                assert answer.status == 403, path


async def test_with_the_key_the_dashboard_comes_through_the_socket(address: str) -> None:
    """The key becomes a cookie that other sites cannot send; then page and socket work."""
    base = address.partition("?")[0]
    jar = aiohttp.CookieJar(unsafe=True)  # cookies of an IP address
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        async with session.get(address, allow_redirects=False) as answer:
            assert "HttpOnly" in answer.headers["Set-Cookie"]
            assert "SameSite=Strict" in answer.headers["Set-Cookie"]
        async with session.get(base) as page:
            assert page.status == 200
            assert "default-src 'self'" in page.headers["Content-Security-Policy"]
        async with session.ws_connect(f"{base}ws?width=80&height=24") as stream:
            seen = b""
            async with asyncio.timeout(40):
                while b"No runs yet." not in seen:
                    message = await stream.receive()
                    assert message.type in {aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT}
                    if message.type is aiohttp.WSMsgType.BINARY:
                        seen += message.data
