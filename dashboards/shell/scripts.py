"""Scripts of callbacks that run in the browser."""

from __future__ import annotations

GROUND_SCRIPT = "function() { return document.documentElement.getAttribute('data-mantine-color-scheme') || 'light'; }"
"""The toggle reports light until it is used, even on a system set to dark."""

TITLE_SCRIPT = "function(title) { if (title) { document.title = title; } return ''; }"

WANTED_SCRIPT = """function(wanted) {
  const at = window.location.pathname + window.location.search;
  return wanted && wanted.at === at ? wanted.search : window.dash_clientside.no_update;
}"""
"""A chosen filter takes effect at the address where it was chosen: after a Back meanwhile, the address bar wins."""

FOCUS_SCRIPT = """function(digest, done) {
  const at = window.location.pathname + window.location.search;
  if (!/[?&]action=(ack|snooze)(&|$)/.test(window.location.search) || done === at) {
    return window.dash_clientside.no_update;
  }
  let left = 30;
  const seek = () => {
    const field = document.querySelector('#decide.chosen textarea');
    if (field) {
      field.scrollIntoView({block: 'center'});
      field.focus({preventScroll: true});
    } else if (--left > 0) {
      setTimeout(seek, 100);
    }
  };
  setTimeout(seek, 50);
  return at;
}"""
"""An action link in a notification opens the finding and focuses the form, once."""
