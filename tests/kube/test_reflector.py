"""The operator's copy of a collection stays true whatever happens to watches: events dropped, versions gone, restarts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import yaml
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import load_kube_config_from_dict

from cluster.operator.substrates.kubernetes.api import PODS, SESSIONS, Api
from cluster.operator.substrates.kubernetes.reflector import Reflector
from cluster.operator.substrates.kubernetes.substrate import Followed
from gshare_core.ids import uuid7
from tests.kube.documents import a_session, sessions
from tests.waiting import until_async


@pytest.fixture
async def connected(between) -> AsyncIterator[Api]:
    configuration = Configuration()
    await load_kube_config_from_dict(yaml.safe_load(between.kubeconfig()), client_configuration=configuration)
    async with ApiClient(configuration) as client:
        yield Api(client)


@pytest.fixture
async def follow(connected, namespace) -> AsyncIterator:
    """Starts a reflector on the namespace's sessions; all end with the test."""
    tasks = []

    async def start(*, kind=SESSIONS, within=namespace, **how):
        reflector = Reflector(connected, kind, within, **how)
        tasks.append(asyncio.create_task(reflector.run()))
        await until_async(lambda: holds(reflector.is_fresh), what="the first list")
        return reflector

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def holds(value):
    return value


@pytest.fixture
def make(plane, namespace):
    async def session():
        made = a_session()
        await asyncio.to_thread(plane.rest().create, sessions(namespace), made)
        return made["metadata"]["name"]

    return session


def lists(between):
    return sum("watch=true" not in request for request in between.requests)


async def knows(reflector, *names, within=10):
    await until_async(lambda: holds(set(reflector.objects) == set(names)), within=within, what="just these objects")


async def test_what_is_added_and_removed_is_seen_without_listing_again(plane, between, namespace, follow, make):
    first, changes = await make(), []
    reflector = await follow(on_change=lambda: changes.append(1))
    await knows(reflector, first)

    second = await make()
    await knows(reflector, first, second)
    await asyncio.to_thread(plane.rest().delete, sessions(namespace, first))
    await knows(reflector, second)

    assert lists(between) == 1
    assert len(changes) >= 3


async def test_a_dropped_event_is_found_by_the_next_list(between, follow, make):
    between.line = lambda text: None if b'"ADDED"' in text else text
    reflector = await follow(relist_seconds=1)

    lost = await make()

    await knows(reflector, lost)
    assert lists(between) >= 2


async def test_a_version_that_is_gone_in_the_middle_of_a_watch_leads_to_a_new_list(between, follow, make):
    gone = json.dumps({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired"}}).encode()
    told = []

    def spoil(text):
        if told:
            return text
        told.append(text)
        return gone

    between.line = spoil
    reflector = await follow()

    made = await make()

    await knows(reflector, made)
    assert told and lists(between) == 2


async def test_an_api_server_that_restarts_and_has_forgotten_the_version_leads_to_a_new_list(
    plane, between, namespace, follow, make
):
    first = await make()
    reflector = await follow()
    await knows(reflector, first)

    def forget():
        elsewhere = plane.namespace()
        for _ in range(3):
            plane.rest().create(sessions(elsewhere), a_session())
        plane.compact()
        plane.restart_api()

    await asyncio.to_thread(forget)
    second = await make()

    await knows(reflector, first, second, within=40)
    assert lists(between) >= 2


async def test_what_this_process_wrote_itself_is_no_news(namespace, connected, follow, make):
    changes = []
    reflector = await follow(on_change=lambda: changes.append(1))
    own = await connected.create(SESSIONS, namespace, a_session())
    reflector.wrote(own)
    changes.clear()
    other = await make()  # what comes after it on the same watch
    await knows(reflector, own["metadata"]["name"], other)
    assert changes == [1]
    known = reflector.objects[own["metadata"]["name"]]  # as we read the answer, or as an event that overtook us told it
    assert known["metadata"]["resourceVersion"] == own["metadata"]["resourceVersion"]


async def test_objects_of_the_same_name_in_two_namespaces_are_two(plane, follow):
    reflector, places = await follow(kind=PODS, within=None), [plane.namespace(), plane.namespace()]
    pod = {"metadata": {"name": "db-0"}, "spec": {"containers": [{"name": "db", "image": "i"}]}}
    for place in places:
        await asyncio.to_thread(plane.rest().create, f"/api/v1/namespaces/{place}/pods", pod)
    both = {f"{place}/db-0" for place in places}
    await until_async(lambda: holds(both <= set(reflector.objects)), what="both")
    await asyncio.to_thread(plane.rest().delete, f"/api/v1/namespaces/{places[0]}/pods/db-0", grace=0)
    await until_async(lambda: holds(f"{places[0]}/db-0" not in reflector.objects), what="the end of one")
    assert f"{places[1]}/db-0" in reflector.objects


async def test_every_pod_of_the_cluster_is_followed_once(plane, namespace, connected):
    elsewhere, session = plane.namespace(), {"gshare.io/session": str(uuid7())}
    followed = Followed(connected, namespace, lambda: None)
    tasks = [asyncio.create_task(reflector.run()) for reflector in followed.everything]
    await until_async(lambda: holds(all(each.is_fresh for each in followed.everything)), what="the first lists")
    for number, (place, labels) in enumerate(
        [(namespace, session), (namespace, {}), (elsewhere, session), (elsewhere, {})]
    ):
        pod = {
            "metadata": {"name": f"p{number}", "labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        await asyncio.to_thread(plane.rest().create, f"/api/v1/namespaces/{place}/pods", pod)

    def seen():
        found = [pod["metadata"] for pod in followed.every_pod()]
        return sorted(each["name"] for each in found if each["namespace"] in (namespace, elsewhere))

    await until_async(lambda: holds(seen() == ["p0", "p1", "p2", "p3"]), what="each pod once")
    assert list(followed.pods.objects) == ["p0"]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
