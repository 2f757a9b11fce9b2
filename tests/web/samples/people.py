"""Sign in, password, notifications, account, volumes."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from types import SimpleNamespace as Record
from typing import Any

from django import forms

from gshare_core.kit.pictures import CardPart, CardPicture
from tests.web.samples.story import NOW, SIZES, at, limits


class SignInForm(forms.Form):
    """Stands for the view's form."""

    email = forms.EmailField(label="Email", widget=forms.EmailInput(attrs={"autocomplete": "username"}))
    password = forms.CharField(
        label="Password", widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}, render_value=True)
    )


class PasswordForm(forms.Form):
    """Stands for the view's form."""

    current = forms.CharField(label="The password so far", widget=forms.PasswordInput())
    new = forms.CharField(
        label="New password", help_text="12 characters or more, and not a common one", widget=forms.PasswordInput()
    )
    repeat = forms.CharField(label="Once more", widget=forms.PasswordInput())


def sign_in(*, refused: bool = False) -> dict[str, Any]:
    """The way in."""
    form = SignInForm({"email": "alice@vision.example", "password": "correct horse!"}) if refused else SignInForm()
    if refused:
        form.add_error(None, "E-mail and password do not belong together. 4 tries are left.")
    return {
        "form": form,
        "next": "/",
        "sizes_of": "A100 80GB",
        "card": CardPicture(
            [
                CardPart(Fraction(0), SIZES["XL"], "mine", "XL", "half"),
                CardPart(Fraction(1, 2), SIZES["L"], "mine", "L", "quarter"),
                CardPart(Fraction(3, 4), SIZES["M"], "mine", "M"),
                CardPart(Fraction(7, 8), SIZES["S"], "mine", "S"),
            ]
        ),
        "sizes": [
            Record(name="XL", share=SIZES["XL"], words="", memory_mib=40779, each=False, compute_percent=50),
            Record(name="L", share=SIZES["L"], words="", memory_mib=20389, each=False, compute_percent=25),
            Record(name="M", share=SIZES["M"], words="", memory_mib=10194, each=False, compute_percent=12),
            Record(name="S", share=SIZES["S"], words="", memory_mib=5097, each=False, compute_percent=6),
            Record(
                name="Whole card",
                share=Fraction(1),
                words="1 to 8 cards",
                memory_mib=81559,
                each=True,
                compute_percent=100,
            ),
        ],
    }


def password_change() -> dict[str, Any]:
    """The first password must be changed; the new one was too short."""
    form = PasswordForm({"current": "x", "new": "short", "repeat": "short"})
    form.add_error("new", "It has 5 characters; 12 are needed.")
    return {"form": form, "forced": True, "expires_at": at(9, 0, days=6), "now": NOW}


class VolumeForm(forms.Form):
    """Stands for the view's form."""

    name = forms.CharField(label="Name", help_text="Letters, digits, hyphens")
    kind = forms.ChoiceField(
        label="Kind",
        choices=[
            ("home", "home: your files"),
            ("data", "data: large, can be shared"),
            ("scratch", "scratch: fast, on one node"),
        ],
    )
    size_gib = forms.IntegerField(label="Size", min_value=1, max_value=188, help_text="188 GiB are left")


def volumes(*, empty: bool = False) -> dict[str, Any]:
    """Three volumes, one of them on its way out."""

    def volume(name: str, kind: str, access: str, size: int, used: int | None, **more: Any) -> Record:
        base: dict[str, Any] = {
            "id": "0197f3c2-a1b2-7c4e-9d10-000000000001",
            "name": name,
            "kind_text": kind,
            "access_text": access,
            "size_gib": size,
            "used_gib": used,
            "use_text": f"{used} of {size} GiB" if used is not None else "",
            "cluster": "seoul-1",
            "shared_text": "",
            "attached_to": [],
            "detail": "",
            "gone_at": None,
            "shares_url": "/volumes/0197f3c2-a1b2-7c4e-9d10-000000000001/shares/",
            "may_manage": True,
        }
        return Record(**(base | more))

    return {
        "now": NOW,
        "quota": Record(used_gib=312, limit_gib=500, text="312 of 500 GiB", tone=""),
        "form": VolumeForm({"name": "Check points", "kind": "data", "size_gib": "250"}) if not empty else VolumeForm(),
        "volumes": []
        if empty
        else [
            volume(
                "home",
                "home",
                "one writer",
                300,
                212,
                attached_to=[Record(name="vit-ft", url="/sessions/1/")],
                detail="vit-ft uses it. Stop or pause vit-ft first.",
            ),
            volume(
                "imagenet-1k",
                "data",
                "many readers",
                160,
                148,
                shared_text="of Vision Lab, read only",
                may_manage=False,
                attached_to=[Record(name="vit-ft", url="/sessions/1/"), Record(name="seg-sweep", url="/sessions/2/")],
            ),
            volume("imagenet-old", "data", "many readers", 12, None, gone_at=at(15, 0, days=1)),
        ],
    }


class ShareForm(forms.Form):
    """Stands for the view's form."""

    email = forms.EmailField(label="E-mail", required=False, help_text="A person of the same organisation")
    group = forms.ChoiceField(label="Or a group", choices=[("", "none"), ("1", "Vision Lab")], required=False)
    mode = forms.ChoiceField(label="May", choices=[("ro", "read only"), ("rw", "read and write")])


def volume_shares(*, empty: bool = False) -> dict[str, Any]:
    """A volume that is shared with a person and a group; the address of a third was not found."""
    form = ShareForm({"email": "nobody@example.org", "mode": "ro"}) if not empty else ShareForm()
    if not empty:
        form.add_error("email", "There is no such person in the volume's organisation.")

    def share(name: str, kind: str, mode: str) -> Record:
        return Record(id="s", name=name, kind_text=kind, mode_text=mode, end_url="/volumes/1/shares/1/end/")

    return {
        "volume": Record(name="imagenet-1k"),
        "form": form,
        "shares": []
        if empty
        else [
            share("minji.kim@cs.example.org", "Minji Kim", "read only"),
            share("Vision Lab", "group", "read and write"),
        ],
        "back": [{"name": "Volumes", "url": "/volumes/"}],
    }


def notifications(*, empty: bool = False) -> dict[str, Any]:
    """What was told to alice."""

    def note(
        icon: str, tone: str, title: str, text: str, moment: datetime, *, unread: bool = False, url: str = ""
    ) -> Record:
        return Record(id="n", icon=icon, tone=tone, title=title, text=text, url=url, at=moment, unread=unread)

    return {
        "now": NOW,
        "unread": 0 if empty else 3,
        "previous": "",
        "next": "",
        "days": []
        if empty
        else [
            Record(
                day="Today",
                notices=[
                    note(
                        "idle",
                        "",
                        "vit-ft is idle and pauses at 17:20",
                        "No kernel since 16:35, CPU 2.1 %. Keep it alive on its page.",
                        at(16, 40),
                        unread=True,
                        url="/sessions/1/",
                    ),
                    note(
                        "queued",
                        "queued",
                        "night-run is passed over",
                        "Vision Lab uses 2 of 2 whole cards. The place in line stays.",
                        at(16, 31),
                        unread=True,
                        url="/queue/",
                    ),
                    note(
                        "coins",
                        "",
                        "100.00 cr from Vision Lab",
                        "Your request, ablation week",
                        at(14, 5),
                        unread=True,
                        url="/wallet/",
                    ),
                    note(
                        "paused",
                        "",
                        "notebook was paused, it was idle",
                        "No kernel for 45 min, no activity since 11:07. Resume it when you like.",
                        at(11, 52),
                        url="/sessions/7/",
                    ),
                ],
            ),
            Record(
                day="Yesterday",
                notices=[
                    note(
                        "calendar",
                        "accent",
                        "Sat 17 Oct: gpu-03 drains",
                        "From 08:00, firmware. Files stay.",
                        at(9, 0, days=-1),
                    )
                ],
            ),
        ],
        "kinds": [
            Record(name="idle", label="Idle warnings", hint="15 and 5 min before a pause", chosen=True),
            Record(name="money", label="Credits", hint="low, used up, or arrived", chosen=True),
            Record(name="queue", label="Queue", hint="passed over, held card, started", chosen=True),
        ],
    }


class AccountForm(forms.Form):
    """Stands for the view's form."""

    language = forms.ChoiceField(label="Language", choices=[("en", "English"), ("ko", "한국어")])
    time_zone = forms.ChoiceField(
        label="Time zone", choices=[("Asia/Seoul", "Asia/Seoul"), ("Europe/Berlin", "Europe/Berlin")]
    )


def _plain_limits() -> list[Record]:
    """Limits that nothing adds up to."""
    return [
        Record(name=name, plain=True, limit_text=text, scope_text=scope)
        for name, text, scope in [
            ("Longest run", "no end", "the general policy"),
            ("Paused when idle for", "1 h", "the group Vision Lab"),
            ("Privileged sessions", "not allowed", "the general policy"),
        ]
    ]


def _total() -> Record:
    """A limit that is shared with the group."""
    return Record(
        name="Sessions",
        total=True,
        value=31,
        limit=40,
        value_text="31",
        limit_text="40",
        tone="",
        scope_text="the group Vision Lab",
    )


def account() -> dict[str, Any]:
    """Alice's account."""
    return {
        "now": NOW,
        "form": AccountForm({"language": "en", "time_zone": "Asia/Seoul"}),
        "limits": [*limits(), *_plain_limits(), _total()],
        "limit_groups": [
            Record(name="Vision Lab", url="?group=1#limits", current=True),
            Record(name="Language Lab", url="?group=2#limits", current=False),
        ],
        "profile": Record(
            name="Alice Kim",
            email="alice@vision.example",
            organisation="Engineering",
            id="0197f3c2-a1b2-7c4e-9d10-aabbccddeeff",
            password_changed_at=at(9, 0, days=-40),
        ),
        "memberships": [
            Record(organisation="Engineering", group="Vision Lab", role_text="member"),
            Record(organisation="Engineering", group="Language Lab", role_text="guest"),
        ],
        "devices": [
            Record(
                id="1",
                icon="device",
                name="Firefox on Linux",
                where="10.20.0.14, since 14 Oct 09:02",
                at=NOW,
                here=True,
            ),
            Record(
                id="2",
                icon="phone",
                name="Safari on iPhone",
                where="10.20.3.7, since 12 Oct 18:31",
                at=at(8, 10),
                here=False,
            ),
        ],
    }
