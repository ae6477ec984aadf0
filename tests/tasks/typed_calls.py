"""Calls for test_typing.py. Type checkers must report the lines marked `wrong`, and no others."""

from __future__ import annotations

from typing import assert_type
from uuid import UUID

from penstock import App, Handle, NewMessage, batch, chain, group

app = App()


@app.task(queue="emails", retry=5, timeout=30)
async def send(user_id: UUID, template: str = "short") -> int:
    return 1


@app.task(queue="emails")
def resize(width: int, *, height: int) -> list[str]:
    return []


async def good(user_id: UUID) -> None:
    assert_type(await send.enqueue(user_id), Handle[int])
    assert_type(await send.options(delay=60, priority=3).enqueue(user_id, "long"), Handle[int])
    assert_type(resize.enqueue_sync(1, height=2), Handle[list[str]])
    assert_type(await (await send.enqueue(user_id)).result(timeout=10), int)
    assert_type(resize.handle(1).result_sync(), list[str])
    resize.enqueue_with_ack(1, height=2)
    assert_type(resize.options(key="k", connection=object()).message(1, height=2), NewMessage)


async def good_direct_calls(user_id: UUID) -> None:
    assert_type(await send(user_id, "long"), int)
    assert_type(resize(1, height=2), list[str])
    assert_type(await send.options(priority=3)(user_id), int)


async def bad_direct_calls(user_id: UUID) -> None:
    await send("ada")  # wrong
    resize(1)  # wrong
    later: int = send(user_id)  # wrong
    names: list[int] = resize(1, height=2)  # wrong
    print(later, names)


async def good_compositions(user_id: UUID) -> None:
    last = chain(resize.s(1, height=2), send.si(user_id))
    assert_type(await (await last.enqueue()).result(), int)
    assert_type(
        await (await group(send.s(user_id), send.si(user_id)).enqueue()).results(), list[int]
    )
    assert_type(await (await group(last, send.s(user_id)).enqueue()).results(5), list[int])
    assert_type(group(send.s(user_id)).enqueue_with_ack(), None)
    progress = await (await batch([last, send.s(user_id)], on_finish=resize.s(1)).enqueue()).wait()
    assert_type(progress.fraction, float)


async def bad_compositions(user_id: UUID) -> None:
    send.si("ada")  # wrong
    send.si(user_id, height=2)  # wrong
    chain(send, resize)  # wrong
    group(send)  # wrong
    batch([send])  # wrong
    batch([send.s(user_id)], on_success=resize)  # wrong
    await group(send.s(user_id)).enqueue(delay=60)  # wrong
    total: str = await (await chain(resize.s(1), send.s()).enqueue()).result()  # wrong
    print(total)


async def bad(user_id: UUID) -> None:
    await send.enqueue()  # wrong
    await send.enqueue("ada")  # wrong
    await send.enqueue(user_id, template=1)  # wrong
    await send.enqueue(user_id, delay=60)  # wrong
    await send.options(delya=60).enqueue(user_id)  # wrong
    await send.options(priority="high").enqueue(user_id)  # wrong
    await send.options(delay=60).enqueue(1)  # wrong
    resize.enqueue_sync(1, 2)  # wrong
    resize.message(width=1)  # wrong
    app.task(queue=1)  # wrong
    resize.enqueue_with_ack("1", height=2)  # wrong
    result: str = await (await send.enqueue(user_id)).result()  # wrong
    print(result)
