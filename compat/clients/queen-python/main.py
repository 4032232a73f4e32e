"""The original's own Python SDK, unmodified, against the HTTP door.

Takes the door's address. A step is one thing an application does with it.
"""

import asyncio
import base64
import contextlib
import io
import json
import os
import sys
import time
import traceback
from datetime import datetime, timedelta, timezone
from importlib.metadata import version

import httpx
from queen import Queen

TIMEOUT = 120
RUN = os.urandom(4).hex()


def expect(ok, what):
    if not ok:
        raise AssertionError(what)


def same(got, want, what="answer"):
    expect(got == want, f"{what}: {got!r}, want {want!r}")


def name(what):
    return f"sdk-{what}-{RUN}"


def data(messages):
    return [m["data"] for m in messages]


class Program:
    def __init__(self, url):
        self.queen = Queen(url=url, retry_attempts=1)

    async def pop(self, queue, group=None, batch=10, partition=None, millis=20_000, **calls):
        q = self.queen.queue(queue).batch(batch).timeout_millis(millis)
        if group:
            q = q.group(group)
        if partition:
            q = q.partition(partition)
        for call, arg in calls.items():
            q = getattr(q, call)(arg)
        return await q.pop()

    async def ack(self, messages, status="completed", group=None, **more):
        got = await self.queen.ack(messages, status, {"group": group, **more})
        expect(got.get("success"), f"ack {status}: {got}")
        return got

    # ---- push

    async def push_and_duplicate(self):
        """The seed's two pushes."""
        q = name("push")
        item = {"transactionId": "test-transaction-id", "data": {"message": "Hello, world!"}}
        one = await self.queen.queue(q).push([item])
        two = await self.queen.queue(q).push([item])
        same((one[0]["status"], two[0]["status"]), ("queued", "duplicate"), "status")
        same(two[0]["message_id"], one[0]["message_id"], "message_id")
        same(two[0]["offset"], one[0]["offset"], "offset")
        other = await self.queen.queue(q).partition("other").push([item])
        same(other[0]["status"], "queued", "in another partition")

    async def push_inside_one_request(self):
        q = name("push-inside")
        got = await self.queen.queue(q).push([{"transactionId": "a", "data": n} for n in range(3)])
        same([g["status"] for g in got], ["queued", "duplicate", "duplicate"], "status")
        same(len({g["message_id"] for g in got}), 1, "message ids")

    async def push_values(self):
        """What goes in comes out, for all kinds of JSON."""
        q = name("values")
        values = [None, True, 0, -1.5, 12345678901234567890, "", "ä\u0000\U0001f600", [], {}, {"a": [1, {"b": None}]}]
        await self.queen.queue(q).push([{"data": v} for v in values])
        same(data(await self.pop(q, batch=100)), values, "values")

    async def push_buffered(self):
        q = name("buffered")
        buffered = self.queen.queue(q).buffer({"message_count": 10, "time_millis": 50})
        for n in range(25):
            await buffered.push([{"data": n}])
        await self.queen.flush_all_buffers()
        same(data(await self.pop(q, batch=100)), list(range(25)), "messages")

    async def push_callbacks(self):
        q, seen = name("callbacks"), []

        async def duplicate(items, _error):
            seen.append(("duplicate", [i["transactionId"] for i in items]))

        async def success(items):
            seen.append(("success", [i["transactionId"] for i in items]))

        for _ in range(2):
            await self.queen.queue(q).push([{"transactionId": "a", "data": 1}]).on_success(success).on_duplicate(duplicate)
        same(seen, [("success", ["a"]), ("duplicate", ["a"])], "callbacks")

    # ---- pop, ack, lease

    async def pop_and_ack(self):
        q = name("pop")
        await self.queen.queue(q).push([{"transactionId": f"t{n}", "data": n} for n in range(5)])
        got = await self.pop(q, batch=3)
        same(data(got), [0, 1, 2], "batch")
        same(await self.pop(q, wait=False), [], "beside a live lease")
        await self.ack(got[0])
        await self.ack(got[1:])
        rest = await self.pop(q)
        same(data(rest), [3, 4], "the rest")
        await self.ack(rest)
        same(await self.pop(q, wait=False), [], "after all")
        late = await self.queen.ack(got[0])
        expect(not late["success"] and late["error"], f"a late ack: {late}")

    async def pop_waits(self):
        q = name("waits")

        async def later():
            await asyncio.sleep(0.5)
            await self.queen.queue(q).push([{"data": "x"}])

        got, _ = await asyncio.gather(self.pop(q), later())
        same(data(got), ["x"], "popped")

    async def pop_groups(self):
        q = name("groups")
        await self.queen.queue(q).push([{"data": n} for n in range(3)])
        for g in ("g1", "g2"):
            got = await self.pop(q, group=g)
            same(data(got), [0, 1, 2], g)
            await self.ack(got, group=g)
        late = await self.pop(q, group="late", wait=False, subscription_mode="new")
        same(late, [], "a group of new messages")
        await self.queen.queue(q).push([{"data": 3}])
        same(data(await self.pop(q, group="late", subscription_mode="new")), [3], "what came after")

    async def pop_from_a_time(self):
        q = name("from-time")
        await self.queen.queue(q).push([{"data": 0}])
        hour_ago = (datetime.now(timezone.utc) - timedelta(hours=1)).isoformat()
        same(data(await self.pop(q, group="old", subscription_from=hour_ago)), [0], "from an hour ago")
        tomorrow = (datetime.now(timezone.utc) + timedelta(days=1)).isoformat()
        same(await self.pop(q, group="new", wait=False, subscription_from=tomorrow), [], "from tomorrow")

    async def pop_autopilot(self):
        q = name("autopilot")
        await self.queen.queue(q).push([{"data": n} for n in range(3)])
        got = await self.queen.queue(q).pop_result()
        same(data(got.messages), [0, 1, 2], "messages")
        expect(got.autopilot and got.autopilot.batch >= 3, f"autopilot: {got.autopilot}")

    async def pop_commit_on_delivery(self):
        q = name("delivery")
        await self.queen.queue(q).push([{"data": 1}])
        same(data(await self.pop(q, commit_on_delivery=True)), [1], "popped")
        same(await self.pop(q, wait=False), [], "again")

    async def pop_several_partitions(self):
        q = name("several")
        for p in range(4):
            await self.queen.queue(q).partition(f"p{p}").push([{"data": p}])
        got = []
        while len(got) < 4:
            more = await self.pop(q, partitions=4)
            expect(more, f"nothing after {got}")
            await self.ack(more)
            got += data(more)
        same(sorted(got), [0, 1, 2, 3], "messages")

    async def pop_by_namespace_and_task(self):
        ns, task, q = name("ns"), name("task"), name("labelled")
        await self.queen.queue(q).namespace(ns).task(task).create()
        await self.queen.queue(q).push([{"data": 1}])
        got = await self.queen.queue(None).namespace(ns).task(task).batch(5).pop()
        same(data(got), [1], "messages")
        await self.ack(got)

    async def ack_negatively(self):
        """retry is free, failed counts, and the last failure makes a dead letter."""
        q = name("nack")
        await self.queen.queue(q).config({"retry_limit": 1}).create()
        await self.queen.queue(q).push([{"transactionId": "bad", "data": 1}])
        for status in ("retry", "retry", "failed", "failed"):
            got = await self.pop(q)
            same(data(got), [1], f"before {status}")
            await self.ack(got[0], status, error="no")
        same(await self.pop(q, wait=False), [], "after the last failure")
        dead = await self.queen.queue(q).dlq().get()
        same((dead["total"], [m["transactionId"] for m in dead["messages"]]), (1, ["bad"]), "dead letters")

    async def ack_dlq(self):
        q = name("dlq")
        await self.queen.queue(q).push([{"transactionId": "bad", "data": {"n": 1}}, {"data": 2}])
        got = await self.pop(q, group="g")
        await self.ack(got[0], "dlq", group="g", error="poison")
        await self.ack(got[1], group="g")
        dead = await self.queen.queue(q).dlq("g").limit(10).get()
        same([m["data"] for m in dead["messages"]], [{"n": 1}], "dead letters")
        same((await self.queen.queue(q).dlq("other").get())["total"], 0, "of another group")
        again = await self.queen.admin.retry_message(got[0]["partitionId"], "bad")
        expect(again.get("success"), f"retry: {again}")

    async def renew(self):
        q = name("renew")
        await self.queen.queue(q).push([{"data": 1}])
        got = await self.pop(q)
        one = await self.queen.renew(got[0])
        expect(one["success"] and one["newExpiresAt"], f"renew: {one}")
        await self.ack(got)
        gone = await self.queen.renew(got[0]["leaseId"])
        expect(not gone["success"], f"renew after the ack: {gone}")

    # ---- consume

    async def consume_each(self):
        q, seen = name("consume-each"), []
        await self.queen.queue(q).push([{"data": n} for n in range(10)])

        async def handle(m):
            seen.append(m["data"])

        await self.queen.queue(q).group("g").limit(10).each().timeout_millis(2000).consume(handle)
        same(seen, list(range(10)), "seen")
        same(await self.pop(q, group="g", wait=False), [], "left")

    async def consume_batches(self):
        q, seen = name("consume"), []
        for p in range(3):
            await self.queen.queue(q).partition(f"p{p}").push([{"data": (p, n)} for n in range(5)])

        async def handle(messages):
            seen.extend(tuple(m["data"]) for m in messages)

        await self.queen.queue(q).group("g").concurrency(2).batch(4).limit(15).idle_millis(3000).timeout_millis(1000).consume(handle)
        same(sorted(seen), sorted((p, n) for p in range(3) for n in range(5)), "seen")
        for p in range(3):
            same([n for x, n in seen if x == p], list(range(5)), f"order of p{p}")

    # ---- transactions

    async def transaction(self):
        a, b = name("tx-in"), name("tx-out")
        await self.queen.queue(a).push([{"transactionId": "in", "data": 1}])
        got = await self.pop(a, group="g")
        tx = self.queen.transaction().ack(got[0], "completed", {"consumer_group": "g"})
        res = await tx.queue(b).push([{"transactionId": "out", "data": 2}]).commit()
        expect(res and res["success"], f"commit: {res}")
        same(data(await self.pop(b)), [2], "pushed")
        same(await self.pop(a, group="g", wait=False), [], "left")

    async def transaction_rolls_back(self):
        a, b = name("txr-in"), name("txr-out")
        await self.queen.queue(b).push([{"transactionId": "out", "data": 0}])
        await self.queen.queue(a).push([{"transactionId": "in", "data": 1}])
        got = await self.pop(a)
        tx = self.queen.transaction().ack(got[0]).queue(b).push([{"data": 1}, {"transactionId": "out", "data": 2}])
        try:
            res = await tx.commit()
        except Exception as e:  # noqa: BLE001 - the SDK raises a plain one
            res = str(e)
        expect(isinstance(res, str) and "duplicate" in res, f"commit: {res}")
        same(data(await self.pop(b, batch=10)), [0], "nothing of it is there")
        await self.ack(got)  # the lease is still ours

    async def transaction_once(self):
        q = name("once-in")
        await self.queen.queue(q).push([{"data": 1}])
        got = await self.pop(q)
        for n in (1, 2):
            tx = self.queen.transaction().once("welcome", name("user"), ttl=timedelta(days=7))
            res = await tx.queue(name("mails")).push([{"data": n}]).commit()
            same(bool(res), n == 1, f"time {n}: {res}")
        same(res["reason"], "kv_precondition", "reason")
        same(data(await self.pop(name("mails"))), [1], "mails")
        res = await self.queen.transaction().ack(got[0]).kv.put("state", name("k"), {"n": 1}, forever=True).commit()
        expect(res, f"ack with a key: {res}")
        same((await self.queen.kv.get("state", name("k")))["value"], {"n": 1}, "the key")

    # ---- keys and values

    async def kv_values(self):
        kv, k = self.queen.kv, name("key")
        put = await kv.put("n", k, {"a": 1.5}, ttl_seconds=60)
        expect(put["applied"], f"put: {put}")
        got = await kv.get("n", k)
        same((got["found"], got["value"], got["version"]), (True, {"a": 1.5}, put["version"]), "get")
        lost = await kv.put("n", k, 2, forever=True, expect=put["version"] + 100)
        same((lost["applied"], lost["reason"], lost["value"]), (False, "version", {"a": 1.5}), "compare and set")
        expect((await kv.put("n", k, 2, forever=True, expect=put["version"]))["applied"], "compare and set")
        same((await kv.put_if_absent("n", k, 3, forever=True))["applied"], False, "put_if_absent")
        many = await kv.get_many("n", [k, "none"])
        same(([r["value"] for r in many["rows"]], many["missing"]), ([2], ["none"]), "get_many")
        expect((await kv.check("n", k, expect=(await kv.get("n", k))["version"]))["applied"], "check")
        expect(await kv.delete("n", k), "delete")
        expect(not await kv.get("n", k), "get after delete")
        same((await kv.delete("n", k))["reason"], "absent", "delete again")

    async def kv_once(self):
        k = name("once")
        same([await self.queen.kv.once("n", k, ttl=timedelta(hours=1)) for _ in range(3)], [True, False, False], "once")
        won = await asyncio.gather(*(self.queen.kv.once("n", k + "-race", ttl=timedelta(hours=1)) for _ in range(8)))
        same(sum(won), 1, "winners of a race")

    async def kv_incr(self):
        kv, k = self.queen.kv, name("count")
        same([(await kv.incr("n", k, delta=2, max=5, ttl=timedelta(hours=1)))["applied"] for _ in range(3)], [True, True, False], "applied")
        same((await kv.get("n", k))["value"], 4, "value")

    async def kv_prefix(self):
        kv, p = self.queen.kv, name("prefix") + ":"
        await kv.batch([kv.op.put("n", f"{p}{n:02}", n, forever=True) for n in range(25)])
        rows = await kv.list_all("n", p, limit=10)
        same([r["value"] for r in rows], list(range(25)), "rows")

    # ---- timers

    async def timers(self):
        q = name("timers")
        timers = self.queen.timers
        soon = await timers.schedule(q, "soon", {"n": 1}, delay=timedelta(seconds=1))
        expect(soon["ok"] and soon["messageId"], f"schedule: {soon}")
        await timers.schedule(q, "late", {"n": 2}, delay=timedelta(hours=1))
        late = await timers.reschedule(q, "late", {"n": 3}, delay=timedelta(hours=2))
        expect(late["ok"], f"reschedule: {late}")
        got = await self.pop(q)
        same([(m["data"], m["id"]) for m in got], [({"n": 1}, soon["messageId"])], "fired")
        peeked = await timers.peek(q, "late")  # as stored: the SDK sends base64
        same(json.loads(base64.b64decode(peeked["payload"])), {"n": 3}, "peek")
        expect((await timers.cancel(q, "late"))["ok"], "cancel")
        same((await timers.peek(q, "late"))["found"], False, "peek after cancel")

    # ---- queues

    async def queue_create(self):
        """create() sends every option with its default, set or not."""
        q = name("create")
        got = await self.queen.queue(q).create()
        expect(got.get("configured"), f"create: {got}")
        got = await self.queen.queue(q).config({"retention_seconds": 3600, "completed_retention_seconds": 60, "lease_time": 60, "retry_limit": 5}).create()
        same((got["options"]["retentionSeconds"], got["options"]["completedRetentionSeconds"]), (3600, 60), "options")
        info = await self.queen.admin.get_queue(q)
        same((info["name"], info["options"]["retentionSeconds"]), (q, 3600), "get_queue")
        same([x["name"] for x in (await self.queen.admin.list_queues(search=q))["queues"]], [q], "list_queues")
        expect((await self.queen.queue(q).delete()).get("deleted"), "delete")
        try:
            await self.queen.admin.get_queue(q)
        except httpx.HTTPStatusError as e:
            same((e.response.status_code, e.code), (404, "unknown_queue"), "after delete")
        else:
            raise AssertionError("the queue is still there")

    async def queue_refusals(self):
        """What nothing enforces is refused by name, never stored without effect."""
        for option, value in (("priority", 5), ("encryption_enabled", True), ("max_size", 10)):
            try:
                await self.queen.queue(name("refused")).config({option: value}).create()
            except httpx.HTTPStatusError as e:
                same(e.response.status_code, 400, option)
            else:
                got = await self.queen.admin.get_queue(name("refused"))
                camel = "".join(w.capitalize() if i else w for i, w in enumerate(option.split("_")))
                same(got["options"].get(camel), value, f"{option}: taken, so it must be an option")

    async def queue_admin(self):
        q, a = name("admin"), self.queen.admin
        await self.queen.queue(q).namespace(name("ans")).task(name("atask")).create()
        await self.queen.queue(q).partition("p").push([{"data": n} for n in range(3)])
        depth = await a.get_queue_depth(q)
        same((depth["pending"], depth["partitionsPending"], depth["effectivePending"]), (3, 1, 3), "depth")
        same((await a.get_queue_depth(q, "g"))["partitions"], [{"partition": "p", "pending": 3}], "a group's depth")
        same([p["name"] for p in (await a.get_partitions(queue=q))["partitions"]], ["p"], "partitions")
        same(data((await a.list_messages(queue=q, limit=2))["messages"]), [0, 1], "messages")
        expect(name("ans") in [n["namespace"] for n in (await a.get_namespaces())["namespaces"]], "namespaces")
        expect(name("atask") in [t["task"] for t in (await a.get_tasks())["tasks"]], "tasks")
        expect((await a.get_overview())["queues"] >= 1 and (await a.get_status())["queues"] >= 1, "overview")
        same((await a.get_queue_detail(q))["totalMessages"], 3, "queue detail")
        expect(any(x["name"] == q for x in (await a.get_queue_stats(search=q))["queues"]), "queue stats")
        same((await a.health())["status"], "healthy", "health")

    async def reads_by_offset(self):
        q = name("reads")
        await self.queen.queue(q).partition("p").push([{"data": n} for n in range(3)])
        got = await self.queen.queue(q).fetch(["p", "none"], offsets={"p": 1})
        same([r["payload"] for r in got["p"]["records"]], [1, 2], "records")
        same((got["p"]["nextOffset"], got["none"]["records"]), (3, []), "next")

    async def changed_since(self):
        q = name("changed")
        for p in range(3):
            await self.queen.queue(q).partition(f"p{p}").push([{"data": p}])
        all_ = await self.queen.queue(q).changed_since()
        same([(p["name"], p["lastOffset"]) for p in all_["partitions"]], [("p0", 0), ("p1", 0), ("p2", 0)], "all")
        await self.queen.queue(q).partition("p1").push([{"data": 9}])
        later = await self.queen.queue(q).changed_since(all_["safeTime"])
        expect(("p1", 1) in [(p["name"], p["lastOffset"]) for p in later["partitions"]], f"since: {later}")
        same((await self.queen.queue(name("none")).changed_since())["partitions"], [], "of no queue")

    # ---- groups

    async def groups(self):
        q, g, a = name("group-admin"), name("g"), self.queen.admin
        await self.queen.queue(q).partition("p").push([{"data": n} for n in range(4)])
        got = await self.pop(q, group=g, batch=1)
        await self.ack(got, group=g)
        mine = [x for x in await a.list_consumer_groups() if x["name"] == g]
        same([(x["queueName"], x["totalLag"]) for x in mine], [(q, 3)], "list")
        info = await a.get_consumer_group(g)
        same((info["queues"][0]["partitions"][0]["offset"], info["queues"][0]["totalLag"]), (1, 3), "describe")
        lagging = [x for x in await a.get_lagging_consumers(0) if x["consumer_group"] == g]
        same([(x["partition_name"], x["offset_lag"]) for x in lagging], [("p", 3)], "lagging")
        await a.seek_consumer_group(g, q, {"toEnd": True})
        same(await self.pop(q, group=g, wait=False), [], "after a seek to the end")
        await a.seek_consumer_group(g, q, {"timestamp": "1970-01-01T00:00:00Z"})
        got = await self.pop(q, group=g)
        same(data(got), [0, 1, 2, 3], "after a seek to the beginning")
        await self.ack(got, group=g)
        expect((await a.refresh_consumer_stats()).get("success"), "refresh")
        expect((await a.delete_consumer_group_for_queue(g, q)).get("success"), "delete from the queue")
        got = await self.pop(q, group=g)
        same(data(got), [0, 1, 2, 3], "a new start")
        await self.ack(got, group=g)
        expect((await self.queen.delete_consumer_group(g)).get("success"), "delete")
        expect(not [x for x in await a.list_consumer_groups() if x["name"] == g], "list after delete")

    async def group_subscription(self):
        q, g = name("subscription"), name("gs")
        await self.queen.queue(q).push([{"data": 0}])
        same(await self.pop(q, group=g, wait=False, subscription_mode="new"), [], "new messages only")
        got = await self.queen.update_consumer_group_timestamp(g, "1970-01-01T00:00:00Z")
        expect(got.get("success"), f"update: {got}")
        same(data(await self.pop(q, group=g)), [0], "after the subscription was moved back")


STEPS = [
    getattr(Program, n) for n in vars(Program) if not n.startswith("_") and n not in ("pop", "ack")
]


async def main(url, only):
    print("version", version("queen-mq"), flush=True)
    failed = False
    program = Program(url)
    for step in STEPS:
        title = step.__name__.replace("_", "-")
        if only and title not in only:
            continue
        start, said = time.monotonic(), io.StringIO()
        try:
            with contextlib.redirect_stdout(said):  # the SDK prints what it swallows
                await asyncio.wait_for(step(program), TIMEOUT)
        except Exception as e:  # noqa: BLE001 - a step that fails is a result
            failed = True
            why = f"{type(e).__name__}: {e}".replace("\n", " ")
            print(f"FAIL {title} ({time.monotonic() - start:.1f}s): {why}", *said.getvalue().split("\n"), flush=True)
            if os.environ.get("TRACE"):
                traceback.print_exc()
        else:
            print(f"PASS {title} ({time.monotonic() - start:.1f}s)", flush=True)
    with contextlib.redirect_stdout(io.StringIO()):
        await program.queen.close()
    return 1 if failed else 0


if __name__ == "__main__":
    address = sys.argv[-1]
    sys.exit(asyncio.run(main(address if "://" in address else "http://" + address, set(sys.argv[1:-1]))))
