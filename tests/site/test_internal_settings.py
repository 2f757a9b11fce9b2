"""The internal listener reads the largest callback that it promises to take."""

from gshare_site.settings import internal
from sessions_app.api.callbacks import BODY_MAX


def test_an_inventory_of_the_largest_size_is_read() -> None:
    assert internal.DATA_UPLOAD_MAX_MEMORY_SIZE >= BODY_MAX
