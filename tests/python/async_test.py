"""await arr.numpy_async(), and callbacks of a stream."""

import asyncio
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import weft


def work(seconds=0.3):
    """A product that takes at least about as long. Timed by the fastest of some: on a loaded machine one may be slow by
    chance, and the work would then come out too short."""
    x = weft.asarray(np.full((256, 256), 1 / 256, np.float32))
    (x @ x).numpy()
    once = 1.0
    for _ in range(8):
        start = time.perf_counter()
        (x @ x).numpy()
        once = min(once, max(time.perf_counter() - start, 1e-4))
    y = x
    for _ in range(min(2000, int(seconds / once) + 1)):
        y = y @ x
    return y


def test_await(rng):
    values = rng.random((5, 7), np.float32)
    x = weft.asarray(values)

    async def main():
        assert (await x.numpy_async() == values).all()
        assert (await (x.T * 2).numpy_async() == values.T * 2).all()
        assert (await x[1:1].numpy_async()).shape == (0, 7)
        both = await asyncio.gather(*((x + k).numpy_async() for k in range(10)))
        for k, got in enumerate(both):
            np.testing.assert_array_equal(got, values + k)

    asyncio.run(main())


def test_the_loop_goes_on_while_one_waits():
    ticks = []

    async def tick():
        while True:
            ticks.append(1)
            await asyncio.sleep(0.005)

    async def main():
        ticker = asyncio.create_task(tick())
        y = work()
        await asyncio.sleep(0)
        before = len(ticks)
        got = await y.numpy_async()
        ticker.cancel()
        assert got.shape == (256, 256)
        return len(ticks) - before

    assert asyncio.run(main()) > 5


def test_giving_up():
    async def main():
        for _ in range(10):  # the loop's thread may itself be away until the work is done
            try:
                await asyncio.wait_for(work().numpy_async(), 0.001)
            except asyncio.TimeoutError:
                break
        else:
            pytest.fail("no time-out in ten tries")
        assert (await weft.ones(3).numpy_async()).tolist() == [1, 1, 1]

    asyncio.run(main())
    weft.synchronize()


def test_an_abandoned_read_and_loop():
    async def main():
        work(0.2).numpy_async()

    asyncio.run(main())  # the loop is closed when the elements come
    weft.synchronize()
    with pytest.raises(RuntimeError, match="no running event loop"):
        weft.ones(3).numpy_async()


def test_callbacks(rng):
    stream = weft.default_device().stream
    seen = []
    done = threading.Event()
    y = weft.ones(8) * 3

    def first(error):
        seen.append((error, y.numpy().tolist(), threading.current_thread() is threading.main_thread()))

    stream.on_complete(first)
    stream.on_complete(lambda error: (seen.append("second"), done.set()))
    assert done.wait(30)
    assert seen == [(None, [3] * 8, False), "second"]
    assert stream.pending == 0
    weft.ones(3) + 1
    stream.submit()
    with pytest.raises(TypeError):
        stream.on_complete(3)


def test_an_exception_in_a_callback_comes_out_of_synchronize():
    called = threading.Event()

    def callback(error):
        called.set()
        raise ValueError("from the callback")

    weft.default_device().stream.on_complete(callback)
    assert called.wait(30)
    deadline = time.monotonic() + 30
    text = ""
    while not text and time.monotonic() < deadline:
        try:
            weft.synchronize()
        except weft.InternalError as e:
            text = str(e)
    assert "ValueError: from the callback" in text
    weft.synchronize()  # told once


def test_refused_in_jit():
    with pytest.raises(weft.InvalidArgument, match="on_complete.*weft.jit"):
        weft.jit(lambda x: weft.default_device().stream.on_complete(print))(weft.ones(1))


def test_a_lost_device():
    device = weft.Device.open()
    seen = []
    done = threading.Event()
    y = weft.ones(8, device=device) * 3
    device.stream.on_complete(lambda error: (seen.append(error), done.set()))
    assert done.wait(30)
    device.destroy()
    with pytest.raises(weft.DeviceLost):
        y.numpy()
    assert seen == [None] or isinstance(seen[0], weft.DeviceLost)


def test_the_interpreters_end_with_callbacks_left():
    program = (
        "import numpy as np, weft, os\n"
        "x = weft.asarray(np.full((256, 256), 1 / 256, np.float32))\n"
        "y = x\n"
        "for _ in range(200): y = y @ x\n"
        "for _ in range(3): weft.default_device().stream.on_complete(lambda error: None)\n"
        "with weft.lazy(): z = y + 1\n"
        "f = weft.jit(lambda a: a @ a); w = f(y)\n"
        "print('end', flush=True)\n"
    )
    for _ in range(2):
        done = subprocess.run(
            [os.environ.get("WEFT_TEST_PYTHON", sys.executable), "-c", program],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0 and "end" in done.stdout, done.stderr
