"""Addresses of both consoles that sessions_app serves."""

from django.urls import path

from sessions_app.views import (
    acts,
    admin_overview,
    admin_policies,
    admin_queue,
    admin_reports,
    admin_session,
    admin_sessions,
    dashboard,
    log_page,
    new_session,
    queue_page,
    session_list,
    session_page,
    volume_shares,
    volumes,
)

urlpatterns = [
    path("", dashboard.dashboard, name="dashboard"),
    path("sessions/", session_list.session_list, name="session_list"),
    path("sessions/new/", new_session.new_session, name="session_new"),
    path("sessions/bulk/", acts.bulk, name="session_bulk"),
    path("sessions/<uuid:session_id>/", session_page.session, name="session"),
    path("sessions/<uuid:session_id>/logs/", log_page.session_logs, name="session_logs"),
    path("sessions/<uuid:session_id>/open/", acts.open_app, name="session_open"),
    path("sessions/<uuid:session_id>/<slug:verb>/", acts.act, name="session_act"),
    path("queue/", queue_page.queue, name="queue"),
    path("volumes/", volumes.volume_list, name="volume_list"),
    path("volumes/<uuid:volume_id>/resize/", volumes.resize, name="volume_resize"),
    path("volumes/<uuid:volume_id>/delete/", volumes.delete, name="volume_delete"),
    path("volumes/<uuid:volume_id>/shares/", volume_shares.volume_shares, name="volume_shares"),
    path("volumes/<uuid:volume_id>/shares/<uuid:share_id>/end/", volume_shares.end_share, name="volume_share_end"),
    path("volumes/<uuid:volume_id>/restore/", volumes.restore, name="volume_restore"),
    path("admin/", admin_overview.overview, name="admin_overview"),
    path("admin/sessions/", admin_sessions.sessions, name="admin_sessions"),
    path("admin/sessions/bulk/", admin_sessions.bulk, name="admin_session_bulk"),
    path("admin/sessions/<uuid:session_id>/", admin_session.session, name="admin_session"),
    path("admin/sessions/<uuid:session_id>/<slug:verb>/", admin_session.act, name="admin_session_act"),
    path("admin/queue/", admin_queue.queue, name="admin_queue"),
    path("admin/reports/", admin_reports.reports, name="admin_reports"),
    path("admin/policies/", admin_policies.policies, name="admin_policies"),
]
