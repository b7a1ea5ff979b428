"""Makes strings of unknown origin safe to show."""

from __future__ import annotations

import re

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad"  # control characters, among them those that begin escape sequences
    "\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # invisible ones
    "\ud800-\udfff\U000e0000-\U000e007f]"  # no characters at all; tags
)


def printable(text: str) -> str:
    r"""Give a text of one line that moves no cursor, changes no colour and hides nothing.

    What would is written as an escape: ``\x1b``, ``\n``, ``\u202e``. Markup is left as it is; who
    shows the text must not interpret any.
    """
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
