"""The worker and its beat. Tasks are hints or ticks; neither holds truth, and no result is kept.

Guarantees: a hint that cannot be sent fails after one time-out of two seconds and is not retried by the sender (the sweep finds the rows); a tick expires
after its period; a worker that is killed loses nothing, since rows are worked on under guards. Every process of ours loads this
module when Django is ready, so that hints leave through this broker and no other.
"""

import os
from typing import Any

import django
from celery import Celery, bootsteps
from django.apps import apps

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gshare_site.settings")
if not apps.models_ready:
    django.setup()

from django.conf import settings

from gshare_site import ticks
from gshare_site.environment import require_serving

#: A hint that comes while its tick runs may be about rows the tick has passed already: it looks once more after this.
SECOND_LOOK_SECONDS = 1.0


class RequireServing(bootsteps.Step):
    """A worker without its settings stops at the start and names them."""

    def __init__(self, parent: Any, **options: Any) -> None:
        require_serving(settings.GSHARE)
        super().__init__(parent, **options)


app = Celery("gshare")
app.steps["worker"].add(RequireServing)
app.conf.update(
    broker_url=settings.REDIS.broker,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options={
        "visibility_timeout": 3600,
        "socket_timeout": 2,
        "socket_connect_timeout": 2,
        "max_retries": 0,  # of who sends; worker and beat connect again for ever, by the settings above
    },
    task_ignore_result=True,
    task_serializer="json",
    accept_content=["json"],
    task_default_queue="gshare",
    task_publish_retry=False,
    timezone="UTC",
    worker_hijack_root_logger=False,
    worker_prefetch_multiplier=1,
    worker_max_tasks_per_child=10_000,
    beat_schedule={
        tick.name: {
            "task": tick.name,
            "schedule": tick.period.total_seconds(),
            "kwargs": {"looks": 1},
            "options": {"expires": tick.expiry.total_seconds()},
        }
        for tick in ticks.table()
    },
)
app.autodiscover_tasks()


def _register(name: str) -> None:
    @app.task(name=name)
    def turn(looks: int = 2) -> None:
        """Run one row of the table; a hint that finds it running looks a second time."""
        if not ticks.run(ticks.named(name)) and looks > 1:
            app.send_task(name, kwargs={"looks": looks - 1}, countdown=SECOND_LOOK_SECONDS, retry=False)


for _tick in ticks.table():
    _register(_tick.name)
