"""Paths of the sessions' API below `/api/v1/`."""

from django.urls import path

from sessions_app.api import composed, queue, reports, sessions

urlpatterns = [
    path("me", composed.me),
    path("offerings", composed.offerings),
    path("policies/effective", composed.effective_policy),
    path("sessions", sessions.sessions),
    path("sessions/preview", sessions.preview),
    path("sessions/<uuid:session_id>", sessions.session),
    path("sessions/<uuid:session_id>/pause", sessions.pause),
    path("sessions/<uuid:session_id>/resume", sessions.resume),
    path("sessions/<uuid:session_id>/restart", sessions.restart),
    path("sessions/<uuid:session_id>/stop", sessions.stop),
    path("sessions/<uuid:session_id>/keep-alive", sessions.keep_alive),
    path("sessions/<uuid:session_id>/stay-paused", sessions.stay_paused),
    path("sessions/<uuid:session_id>/access", sessions.open_app),
    path("sessions/<uuid:session_id>/timeline", sessions.timeline),
    path("sessions/<uuid:session_id>/logs", sessions.logs),
    path("sessions/<uuid:session_id>/summary", reports.summary),
    path("reports/usage", reports.usage),
    path("queue", queue.queue),
    path("queue/<uuid:session_id>", queue.entry),
]
